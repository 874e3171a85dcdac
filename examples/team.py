"""A team: some begin runs, workers on any machine drive them, people answer. One PostgreSQL is all that they share.

export PERDURE_STORE=postgresql://me@host/agents        # and what agent.py exports
perdure worker team:agents --processes 2                # on every machine that is to work, in this folder
python team.py "Write about tides and publish it"       # from anywhere; waits for the result
perdure asks; perdure answer ASK approve                # whoever is asked
perdure runs; perdure workers; perdure errors
"""

import os
import sys

import perdure
from agent import researcher, writer

agents = [writer, researcher]

if __name__ == "__main__":
    task = sys.argv[1]
    with perdure.open(os.environ["PERDURE_STORE"], actor="desk") as store:
        run = store.start(writer, task, ["tides", "the moon"], key=task)  # the same key again: the same run
        print(run.result(timeout="1d"))
