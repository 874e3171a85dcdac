"""The execution: runs, their steps and waits, decisions, tasks, workers."""
