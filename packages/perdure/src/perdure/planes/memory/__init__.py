"""The memory plane: what outlives a run, and how it and everything that was said is found."""
