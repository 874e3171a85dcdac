"""Verbs for the work of a session: tasks, events, checkpoints, artifacts, questions."""

from __future__ import annotations

from perdure.model.filters import ArtifactFilters, EventFilters, TaskFilters
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.records.emitted import EventRecord
from perdure.model.records.runs import WaitRecord
from perdure.model.records.tasks import TaskRecord
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import SESSION, STORE, Endpoint, Key, Kind, Right, read, verb
from perdure.verbs.planes import arg, artifacts, checkpoints, emitted, requests, tasks
from perdure.verbs.reasons import FEW, HOST, LIBRARY, PROGRAMS, WITHIN

# -- tasks -----------------------------------------------------------------------------------------------------------


@verb(
    lambda: tasks.add, on=(SESSION,), right=Right.WRITE, key=Key.BODY, command="task", tool="task",
    body=("TaskInput", "A task. needs, parent: numbers of tasks of the same session."),
    at=(Endpoint(SESSION, "POST", "/tasks", "add_task", "Add a task.", 201),), lacks={"mcp": {"parent": FEW}},
)  # fmt: skip
def task(
    title: arg.Title,
    *,
    needs: arg.Needs = (),
    parent: arg.ParentTask = None,
    priority: arg.Priority = 0,
    labels: arg.Labels = (),
    detail: arg.Detail = None,
    key: arg.Key = None,
    checks: arg.Checks = (),
    about: arg.About = (),
) -> TaskRecord:
    """Add a task. Atomic; without a key two calls make two tasks.

    needs: tasks of this session that must be done before.
    parent: the task that it is a part of.
    priority: higher comes first.
    detail: any value.
    key: makes it idempotent, also after a crash: the same key, title, priority, labels and detail return the task as it is
        by now; others raise KeyReused.
    checks: conditions under which it makes sense (`perdure.GitRef` …), looked at when the session is booted and by
        `store.checked`.
    about: subjects of the task and of everything that becomes of it.

    Raises Invalid, TooLarge or NotFound with the path; nothing is written then.
    """
    raise NotImplementedError


@read(
    lambda: tasks.task, on=(SESSION,),
    at=(Endpoint(SESSION, "GET", "/tasks/{task}", "get_task", "A task."),),
    lacks={"http": {"token": "a move carries the token of its claim itself"}, "cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def get_task(task: arg.TaskNumber, *, token: arg.ClaimToken = None) -> TaskRecord:
    """Return the task with this number. A handle with the token of a claim moves the task as its holder."""
    raise NotImplementedError


@read(
    lambda: tasks.tasks_of_store, on=(STORE,), called="tasks", filters=TaskFilters, command="tasks", lacks={"mcp": FEW},
    at=(Endpoint(STORE, "GET", "/tasks", "list_tasks", "The tasks of all sessions, newest first."),),
)  # fmt: skip
def all_tasks(asked: TaskFilters) -> Page[TaskRecord]:
    """Return the tasks of all sessions of this tenant, newest first. The next page is `after=page.next`.

    actor: the author of the tasks.
    since, until: instants ("2026-01-31", a datetime) or ages ("7d").
    """
    raise NotImplementedError


# -- events ----------------------------------------------------------------------------------------------------------


@verb(
    lambda: emitted.emit, on=(SESSION,), right=Right.WRITE,
    body=("EventInput",
          "An event of your own, such as `deploy.finished`. expect: the last number that you have seen in the session."),
    at=(Endpoint(SESSION, "POST", "/events", "emit",
                "Append an event of your own. It changes nothing, but is kept, chained and fed like all others.", 201),),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def emit(
    kind: arg.EventKind,
    data: arg.Value = None,
    *,
    expect: arg.ExpectSeq = None,
    about: arg.About = (),
    refs: arg.Refs = (),
) -> EventRecord:
    """Append an event of your own, such as `deploy.finished`. It changes no other state; it is kept, chained and fed like
    all events.

    Atomic; not idempotent.
    expect: the last sequence number that you have seen. A repetition then raises Conflict, which carries the current `seq`.
    about: its subjects.
    refs: turns, decisions … that it refers to.

    Raises Invalid.
    """
    raise NotImplementedError


@read(
    lambda: emitted.events_across, on=(STORE,), called="events", filters=EventFilters, command="events", lacks={"mcp": FEW},
    at=(Endpoint(STORE, "GET", "/events", "list_events", "The events of all sessions and runs, newest first: the audit trail."),),
)  # fmt: skip
def all_events(asked: EventFilters) -> Page[EventRecord]:
    """Return a page of events of all sessions and runs, newest first. The next page is `after=page.next`.

    kind: one kind, or all below a word: `deploy.*`.
    since, until: instants or ages ("7d").
    session, run: of that one alone.
    emitted: True for events of `session.emit` only.

    Raises Invalid.
    """
    raise NotImplementedError


# -- checkpoints and artifacts -----------------------------------------------------------------------------------------


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, key=Key.BODY, lacks={"cli": LIBRARY, "mcp": HOST},
    body=("CheckpointInput", "A whole state. key: a name of its own; parent: the key of the checkpoint that it follows."),
    at=(Endpoint(SESSION, "POST", "/checkpoints", "save_checkpoint",
                "Save a whole state; it costs what changed since the states that are stored already.", 201),),
)  # fmt: skip
def checkpoint(
    state: arg.Value,
    *,
    name: arg.CheckpointName = "default",
    key: arg.Key = None,
    parent: arg.ParentKey = None,
    document: arg.Detail = None,
    about: arg.About = (),
) -> CheckpointRecord:
    """Save a whole state, any value. It costs what changed since the states that are stored already."""
    raise NotImplementedError


@read(
    lambda: checkpoints.listing, on=(SESSION,), called="checkpoints", names={"http": {"before": "after"}},
    at=(Endpoint(SESSION, "GET", "/checkpoints", "list_checkpoints", "The checkpoints of a session, newest first."),),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def list_checkpoints(
    name: arg.OptionalName = None,
    *,
    about: arg.AboutOne = None,
    limit: arg.Limit = 50,
    before: arg.Before = None,
) -> Page[CheckpointRecord]:
    """Return the checkpoints, newest first; for a fork also those of its origin. The next page is `before=page.next`; None
    when there are no more.

    about: those that may hold something about a subject.
    """
    raise NotImplementedError


@read(
    lambda: artifacts.listing, on=(SESSION,), called="artifacts", lacks={"cli": WITHIN, "mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/artifacts", "list_session_artifacts",
                "The artifacts of a session, newest first, all versions."),),
)  # fmt: skip
def own_artifacts(
    name: arg.OptionalName = None, *, about: arg.AboutOne = None, limit: arg.Limit = 50, after: arg.After = None
) -> Page[ArtifactRecord]:
    """Return the artifacts of this session, newest first, all versions. The next page is `after=page.next`."""
    raise NotImplementedError


@read(
    lambda: artifacts.across, on=(STORE,), called="artifacts", filters=ArtifactFilters, command="artifacts", lacks={"mcp": FEW},
    at=(Endpoint(STORE, "GET", "/artifacts", "list_artifacts", "The artifacts of all sessions, newest first."),),
)  # fmt: skip
def all_artifacts(asked: ArtifactFilters) -> Page[ArtifactRecord]:
    """Return the artifacts of all sessions, newest first. The next page is `after=page.next`."""
    raise NotImplementedError


@read(
    lambda: artifacts.by_address, on=(STORE,), lacks={"cli": WITHIN, "mcp": FEW},
    at=(Endpoint(STORE, "GET", "/artifacts/{hash}", "get_artifact", "The newest artifact with this content, by its sha256."),),
)  # fmt: skip
def artifact(hash: arg.Hash) -> ArtifactRecord:  # noqa: A002 - the word of the design
    """Return the newest artifact with this content hash. The first 8 digits or more are enough.

    Raises NotFound, also when only another tenant has it, and Conflict with the candidates if several hashes begin so.
    """
    raise NotImplementedError


# -- questions ---------------------------------------------------------------------------------------------------------


@verb(
    lambda: requests.ask, on=(SESSION,), right=Right.WRITE, tool="ask",
    body=("AskInput", "A question to a person. choices: what may be answered; without, anything."),
    at=(Endpoint(SESSION, "POST", "/asks", "ask", "Ask a person something. Without a key two calls ask twice.", 201),),
    lacks={"cli": PROGRAMS, "mcp": {"detail": FEW, "timeout": FEW}},
)  # fmt: skip
def ask(
    question: arg.Question,
    *,
    choices: arg.Choices = None,
    detail: arg.Detail = None,
    timeout: arg.Timeout = None,
    about: arg.About = (),
) -> WaitRecord:
    """Ask a person a question. `store.asks()` lists it, `store.answer(ask.id, …)` answers it. Atomic; two calls ask twice.

    choices: the possible answers; without them, anything.
    timeout: the time after which it can no longer be answered.
    about: subjects of the question and its answer.

    Raises Invalid.
    """
    raise NotImplementedError
