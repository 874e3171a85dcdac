"""The planes that declarations name: each is loaded when a verb of it is first carried out. Callers: this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.lazily import lazily

if TYPE_CHECKING:
    from perdure.boot import making, manifest
    from perdure.effects import ending, operator_verbs, timeline
    from perdure.model import arguments as arg
    from perdure.model import arguments_by_hand as own
    from perdure.model.records import actors as actor_records
    from perdure.model.records import subjects as subject_records
    from perdure.model.records import timeline as timeline_records
    from perdure.planes import actors, subjects
    from perdure.planes.conversation import artifacts, emitted, pending, sessions, summaries, turns
    from perdure.planes.execution import decisions, memory_making, requests, runs, steps, tasks, waits
    from perdure.planes.memory import memories, search, values
    from perdure.planes.reading import lineage
    from perdure.planes.recovery import checkpoints
else:
    making, manifest = lazily("perdure.boot", "making", "manifest")
    ending, operator_verbs, timeline = lazily("perdure.effects", "ending", "operator_verbs", "timeline")
    arg, own = lazily("perdure.model", "arguments", "arguments_by_hand")
    actor_records, subject_records, timeline_records = lazily("perdure.model.records", "actors", "subjects", "timeline")
    actors, subjects = lazily("perdure.planes", "actors", "subjects")
    artifacts, emitted, pending, sessions, summaries, turns = lazily(
        "perdure.planes.conversation", "artifacts", "emitted", "pending", "sessions", "summaries", "turns"
    )
    decisions, memory_making, requests, runs, steps, tasks, waits = lazily(
        "perdure.planes.execution", "decisions", "memory_making", "requests", "runs", "steps", "tasks", "waits"
    )
    memories, search, values = lazily("perdure.planes.memory", "memories", "search", "values")
    (lineage,) = lazily("perdure.planes.reading", "lineage")
    (checkpoints,) = lazily("perdure.planes.recovery", "checkpoints")
