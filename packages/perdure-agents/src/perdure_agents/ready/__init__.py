"""Ready-made tools with their probes: `files`, `git`, `shell`, `http`; `checks` is what they share.

Their exceptions mean the same in all: Failed, Invalid: a clear no. Unavailable: nothing was done, later it may work.
InDoubt, or anything else: not known. A probe that finds the very place missing says Unknown: it may look on another machine.
"""
