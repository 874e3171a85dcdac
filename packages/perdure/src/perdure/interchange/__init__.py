"""Edges: what leaves a store and what comes in. Bundles, moves, incidents, importers."""
