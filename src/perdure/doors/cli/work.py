"""`perdure decisions` and `perdure tasks`: across all sessions, or of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.doors.cli.options import Asked, command, pages, reads, spans
from perdure.doors.cli.output import say_page
from perdure.doors.cli.show import find_session, record_of
from perdure.model.records.decisions import DecisionStatus
from perdure.model.records.work import TaskStatus

if TYPE_CHECKING:
    from perdure.handles.sync.session import Session

DECISION_COLUMNS = (
    ("session", lambda decision: decision.session),
    ("seq", lambda decision: decision.seq),
    ("status", lambda decision: decision.status),
    ("decision", lambda decision: decision.text),
    ("because", lambda decision: decision.because),
    ("outcome", lambda decision: decision.outcome),
    ("tags", lambda decision: decision.tags),
    ("actor", lambda decision: decision.actor),
    ("at", lambda decision: decision.at),
)
TASK_COLUMNS = (
    ("session", lambda task: task.session),
    ("id", lambda task: task.id),
    ("status", lambda task: f"{task.status.value} (abandoned)" if task.abandoned else task.status),
    ("prio", lambda task: task.priority),
    ("task", lambda task: task.title),
    ("needs", lambda task: task.needs),
    ("claimed by", lambda task: task.claimed_by),
    ("labels", lambda task: task.labels),
    ("note", lambda task: task.note),
    ("at", lambda task: task.at),
)


def records(page: Any) -> Any:
    """A page of handles as a page of records."""
    return (
        type(page)([record_of(item) for item in page], page.next)
        if hasattr(page, "next")
        else [record_of(item) for item in page]
    )


@command(
    "decisions",
    "perdure decisions --status open",
    "perdure decisions --actor architect --since 7d",
    "perdure decisions --tag auth --json",
)
@click.option("--status", type=click.Choice([status.value for status in DecisionStatus]), help="Only those at this.")
@click.option("--actor", metavar="NAME", help="Only those that this actor made.")
@click.option("--tag", metavar="NAME", help="Only those with this tag.")
@spans
@pages
@reads
def decisions(asked: Asked, **filters: Any) -> None:
    """List decisions of all sessions, newest first: what was decided, why, and what came of it."""
    with asked.open() as store:
        say_page(
            records(store.decisions(**filters)),
            DECISION_COLUMNS,
            as_json=asked.as_json,
            none="no such decisions",
        )


@command(
    "tasks",
    "perdure tasks --status blocked",
    "perdure tasks --label release --since 7d --json",
    "perdure tasks --ready --session issue-42",
)
@click.option("--status", type=click.Choice([status.value for status in TaskStatus]), help="Only those at this.")
@click.option("--label", metavar="NAME", help="Only those with this label.")
@click.option("--actor", metavar="NAME", help="Only those that this actor wrote down.")
@click.option("--stuck", is_flag=True, help="Only those that need a failed or cancelled task.")
@click.option("--ready", is_flag=True, help="Only those that can be begun now, by priority; needs --session.")
@click.option("--session", metavar="NAME", help="Of this session alone.")
@spans
@pages
@reads
def tasks(asked: Asked, *, session: str | None, ready: bool, **filters: Any) -> None:
    """List tasks of all sessions, newest first."""
    if ready and session is None:
        raise click.UsageError("--ready needs --session NAME: what can be begun depends on the session's other tasks")
    with asked.open() as store:
        found = (
            store.tasks(**filters)
            if session is None
            else _of_session(find_session(store, session), filters, ready=ready)
        )
        say_page(records(found), TASK_COLUMNS, as_json=asked.as_json, none="no such tasks")


def _of_session(session: Session, filters: dict[str, Any], *, ready: bool) -> Any:
    """The filters of a session are fewer; those that do not fit are refused rather than passed over."""
    fitting = ("limit", "label") if ready else ("limit", "label", "status", "stuck", "after")
    wrong = [name for name, value in filters.items() if value and name not in fitting]
    if wrong:
        raise click.UsageError(f"--{wrong[0]} does not go together with --{'ready' if ready else 'session'}")
    taken = {name: filters[name] for name in fitting}
    return session.ready(**taken) if ready else session.tasks(**taken)
