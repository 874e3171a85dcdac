"""Decisions: the verbs of conversation, execution, memory and recovery, each with its SQL beside it."""
