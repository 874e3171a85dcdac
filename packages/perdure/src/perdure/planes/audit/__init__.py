"""Audit, across all planes: verification, history, differences, subscriptions."""
