"""Verbs, each declared once: a light function with the public signature and docstring, and how doors expose it."""
