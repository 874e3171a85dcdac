"""The routes that answer verbs: one function for each, found by the verb itself (`asking.ANSWERED`)."""

from perdure.remote.verbs import audit, conversation, effects, memory, recovery, runs, tasks

__all__ = ["audit", "conversation", "effects", "memory", "recovery", "runs", "tasks"]
