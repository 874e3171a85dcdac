"""Retention: what may go, by which rule, and the blobs that nothing refers to any more."""
