"""Boot: a fresh context window back at work. Reads planes and effects, runs checks, and makes the pack."""
