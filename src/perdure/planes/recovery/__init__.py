"""Recovery: checkpoints, leases, locks, presence, and runs after a restore."""
