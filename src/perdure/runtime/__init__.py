"""Running: what has no colour about agents and workers (DESIGN §7). The objects that users hold of it are in `handles`."""
