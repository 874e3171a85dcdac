"""Upkeep: looking after a store. Its health and load, backups and restores, and what to do about a fault."""
