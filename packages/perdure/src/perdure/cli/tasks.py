"""`perdure decisions` and `perdure tasks`: across all sessions, or of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.filters import filtered_by
from perdure.cli.finding import find_session
from perdure.cli.names import session_names
from perdure.cli.options import StoreOptions, command, reads
from perdure.cli.show import records
from perdure.cli.tables import Column, is_filtered, prose, say_page, state
from perdure.model.filters import DecisionFilters, TaskFilters

if TYPE_CHECKING:
    from perdure.handles.sync.session import Session

DECISION_COLUMNS = (
    Column("session", lambda decision: decision.session),
    Column("seq", lambda decision: decision.seq),
    state("status", lambda decision: decision.status),
    prose("decision", lambda decision: decision.text),
    prose("because", lambda decision: decision.because),
    prose("outcome", lambda decision: decision.outcome),
    prose("tags", lambda decision: decision.tags),
    Column("actor", lambda decision: decision.actor, spare=True),
    Column("at", lambda decision: decision.at),
)
TASK_COLUMNS = (
    Column("session", lambda task: task.session),
    Column("id", lambda task: task.id),
    state("status", lambda task: f"{task.status.value} (abandoned)" if task.abandoned else task.status),
    Column("prio", lambda task: task.priority),
    prose("task", lambda task: task.title),
    Column("needs", lambda task: task.needs),
    Column("claimed by", lambda task: task.claimed_by),
    prose("labels", lambda task: task.labels),
    prose("note", lambda task: task.note),
    Column("at", lambda task: task.at),
)


@command(
    "decisions",
    "perdure decisions --status open",
    "perdure decisions --actor architect --since 7d",
    "perdure decisions --tag auth --json",
)
@filtered_by(DecisionFilters)
@reads
def decisions(asked: StoreOptions, **filters: Any) -> None:
    """List decisions of all sessions, newest first: what was decided, why, and what came of it."""
    with asked.open() as store:
        found = records(store.decisions(**filters))
        say_page(found, DECISION_COLUMNS, as_json=asked.as_json, what="decisions", filtered=is_filtered(filters))


@command(
    "tasks",
    "perdure tasks --status blocked",
    "perdure tasks --label release --since 7d --json",
    "perdure tasks --ready --session issue-42",
)
@click.option("--ready", is_flag=True, help="Only those that can be begun now, by priority; needs --session.")
@click.option("--session", metavar="NAME", help="Of this session alone.", shell_complete=session_names)
@filtered_by(TaskFilters)
@reads
def tasks(asked: StoreOptions, *, session: str | None, ready: bool, **filters: Any) -> None:
    """List tasks of all sessions, newest first."""
    if ready and session is None:
        raise click.UsageError("--ready needs --session NAME: what can be begun depends on the session's other tasks")
    with asked.open() as store:
        found = (
            store.tasks(**filters)
            if session is None
            else _of_session(find_session(store, session), filters, ready=ready)
        )
        filtered = is_filtered({**filters, "session": session, "ready": ready})
        say_page(records(found), TASK_COLUMNS, as_json=asked.as_json, what="tasks", filtered=filtered)


def _of_session(session: Session, filters: dict[str, Any], *, ready: bool) -> Any:
    """The filters of a session are fewer; those that do not fit are refused rather than passed over."""
    fitting = ("limit", "label") if ready else ("limit", "label", "status", "stuck", "about", "after")
    wrong = [name for name, value in filters.items() if value and name not in fitting]
    if wrong:
        raise click.UsageError(f"--{wrong[0]} does not go together with --{'ready' if ready else 'session'}")
    taken = {name: filters[name] for name in fitting}
    return session.ready(**taken) if ready else session.tasks(**taken)
