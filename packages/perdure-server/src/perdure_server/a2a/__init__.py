"""A2A: agents of a store for other agents, by the Agent2Agent protocol. A task is a run (decision 0063)."""
