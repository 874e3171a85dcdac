"""The verbs that are loaded with their first use: `import perdure` loads none of these modules.

Shared by the handles of both colours: a module that only some programs need is named here and imported from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.model.lazily import lazily

if TYPE_CHECKING:
    from perdure.boot import checking, stale
    from perdure.boot import making as boot_making
    from perdure.effects import adopting, envelope, gone_machines, orphaned, responding, timeline, what_if
    from perdure.interchange import bundle_in, bundle_out, incident, learning, readable
    from perdure.planes import actors, subjects
    from perdure.planes.audit import diff, history, subscriptions, verify
    from perdure.planes.conversation import artifacts, emitted, feed, summaries
    from perdure.planes.execution import decisions, memory_making, requests, task_needs, tasks
    from perdure.planes.memory import memories, search, upkeep
    from perdure.planes.reading import lineage
    from perdure.planes.retention import collect, retain
    from perdure.stores import user_query
    from perdure.upkeep import backup
else:
    checking, boot_making, stale = lazily("perdure.boot", "checking", "making", "stale")
    adopting, envelope, gone_machines, orphaned, responding, timeline, what_if = lazily(
        "perdure.effects", "adopting", "envelope", "gone_machines", "orphaned", "responding", "timeline", "what_if"
    )
    bundle_in, bundle_out, incident, learning, readable = lazily(
        "perdure.interchange", "bundle_in", "bundle_out", "incident", "learning", "readable"
    )
    actors, subjects = lazily("perdure.planes", "actors", "subjects")
    diff, history, subscriptions, verify = lazily("perdure.planes.audit", "diff", "history", "subscriptions", "verify")
    artifacts, emitted, feed, summaries = lazily(
        "perdure.planes.conversation", "artifacts", "emitted", "feed", "summaries"
    )
    decisions, memory_making, requests, task_needs, tasks = lazily(
        "perdure.planes.execution", "decisions", "memory_making", "requests", "task_needs", "tasks"
    )
    memories, search, upkeep = lazily("perdure.planes.memory", "memories", "search", "upkeep")
    (lineage,) = lazily("perdure.planes.reading", "lineage")
    collect, retain = lazily("perdure.planes.retention", "collect", "retain")
    (user_query,) = lazily("perdure.stores", "user_query")
    (backup,) = lazily("perdure.upkeep", "backup")
