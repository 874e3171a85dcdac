"""Choosing: which store, which place for artifacts, which shape of runtime fits; and what state a project has already."""
