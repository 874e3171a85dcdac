"""Edges: what comes from elsewhere and what goes there."""
