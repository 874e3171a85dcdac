"""The kit: the shipped contract suite, a fake clock, crash points, a throw-away PostgreSQL."""
