"""Doors translate: they hold no rules."""
