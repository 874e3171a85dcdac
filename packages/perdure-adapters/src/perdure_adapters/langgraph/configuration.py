"""Names that LangGraph has in the configuration of a task and keeps to itself (langgraph/_internal/_constants.py).

Tests of each version look for them. Callers: `ledger`, `answers`, `questions`.
"""

CHECKPOINTER = "__pregel_checkpointer"
CHECKPOINT_MAP = "checkpoint_map"  # the checkpoints that the task began from, by namespace
DURABILITY = "__pregel_durability"
SCRATCHPAD = "__pregel_scratchpad"  # the memory of one run of a task
RESUME_MAP = "__pregel_resume_map"  # the answers that were given by the ids of their questions
