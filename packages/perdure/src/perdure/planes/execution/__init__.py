"""The execution: runs, their leases, steps and waits, decisions, tasks, workers, and copies of what ran elsewhere."""
