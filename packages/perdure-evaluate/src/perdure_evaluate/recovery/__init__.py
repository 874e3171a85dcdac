"""The recovery protocol: agents are killed at every boundary, and what really happened in the world is counted.

`perdure evaluate` runs it; docs/protocol.md defines it, so that it can be implemented without this code.

    interface   what a task and a subject see of each other          outside   the other side, with a witness
    tasks       the work, written once over the interface            oracle    what must have happened
    subjects/   stores under test, one file each                     faults/   schedules of what goes wrong
    wire        inside a subject's process: boundaries and strikes   lives     the processes, from outside
    score       what one case showed                                 plan, run, scorecard, report: many of them
"""

VERSION = "1.1"
SCRATCH = "perdure-evaluate-"  # how folders begin that lie in memory while cases run
