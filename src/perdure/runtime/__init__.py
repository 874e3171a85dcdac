"""Running: what has no colour about agents and workers (DESIGN §7). What users hold of it is in `handles`."""
