"""Running: what has no colour about agents and workers. The objects that users hold of it are in `handles`."""
