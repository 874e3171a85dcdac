"""Running agents, and the workers that do. The objects that users hold of it are in `handles`."""
