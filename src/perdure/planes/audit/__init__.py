"""Audit, across all planes: verification, lineage, history, differences, the feed."""
