"""Recovery: checkpoints, locks, presence, and runs after a restore."""
