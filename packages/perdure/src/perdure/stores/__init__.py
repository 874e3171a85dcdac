"""Stores: the lane, the transaction, and the databases that keep the log."""
