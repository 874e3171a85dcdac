"""Verbs for a session as a whole: its state, labels, goal and versions, its past and its forks, and what is read of it.

Each says whose it is, the right that it needs, its routes, and why a door does without it. Their docstrings stand at the handles.
"""

from __future__ import annotations

from perdure.model.filters import SessionTaskFilters
from perdure.verbs.declaring import SCOPE, SESSION, Kind, Right, read, verb
from perdure.verbs.planes import arg, own
from perdure.verbs.reasons import FEW, HOST, LIBRARY, LOCAL, PROGRAMS, SCREEN, WITHIN


@read(
    on=(SESSION,), routes=("get_session",), command="show", lacks={"mcp": WITHIN},
)  # fmt: skip
def info() -> object:
    """Return everything about the session except its contents."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("get_session",), command="show", lacks={"mcp": WITHIN},
)  # fmt: skip
def get_status() -> object:
    """Return active, waiting, completed or failed; crashed when the process at work in the session died without leaving."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("get_session",), command="show", lacks={"mcp": WITHIN},
)  # fmt: skip
def get_goal() -> object:
    """Return the goal of the session, or None."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("get_session",), command="show", lacks={"mcp": FEW},
)  # fmt: skip
def pins() -> object:
    """Return the pinned software versions, or None."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("move_session",), lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def mark_waiting() -> object:
    """Mark the session as waiting for a person or program."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("move_session",), lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def mark_active() -> object:
    """Mark a waiting session as active again."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("move_session",), command="close", names={"http":
    {"status": "move"}}, lacks={"mcp": HOST},
)  # fmt: skip
def close(status: arg.Ending = "completed") -> object:
    """End the session as completed or failed."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("move_session",), lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def reopen() -> object:
    """Make a closed session active again."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("move_session",), command="archive", lacks={"mcp": FEW},
)  # fmt: skip
def archive() -> object:
    """Leave the session out of listings."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("move_session",), command="archive", lacks={"mcp": FEW},
)  # fmt: skip
def unarchive() -> object:
    """Show the session in listings again."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("patch_session",), tool="goal", names={"mcp": {"goal":
    "text"}}, lacks={"cli": PROGRAMS},
)  # fmt: skip
def set_goal(goal: arg.Goal, *, about: arg.About = ()) -> object:
    """Set the goal of the session; None removes it."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("patch_session",), command="rename", lacks={"mcp": FEW,
    "cli": {"about": PROGRAMS}},
)  # fmt: skip
def set_title(title: arg.Title, *, about: arg.About = ()) -> object:
    """Change the title of the session."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("change_labels",), command="label", names={"http":
    {"labels": "add"}}, lacks={"mcp": FEW},
)  # fmt: skip
def label(*labels: own.OneLabel) -> object:
    """Add labels; returns all labels."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("change_labels",), command="label", names={"http":
    {"labels": "add"}}, lacks={"mcp": FEW},
)  # fmt: skip
def unlabel(*labels: own.OneLabel) -> object:
    """Remove labels; returns the labels that stay."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("pin_session",), lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def pin(
    *, model: arg.Model = None, prompt: own.Prompt = None, tools: own.Tools = None, commit: own.Commit = None
) -> object:
    """Pin the software versions in force."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("retract",), names={"http": {"turns_": "turns"}},
    lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def retract(*turns_: own.Turns, because: arg.OptionalBecause = None, about: arg.About = ()) -> object:
    """Take turns back: turns, transcript, pending, search and boot no longer show them, and their keys are free again."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("list_turns",), command="show", lacks={"mcp": HOST, "cli": {"after": SCREEN, "before": SCREEN,
    "about": PROGRAMS, "limit": SCREEN}},
)  # fmt: skip
def turns(
    last: arg.Last = None,
    *,
    after: arg.Before = None,
    before: arg.Before = None,
    about: arg.AboutOne = None,
    limit: arg.Limit = 100,
) -> object:
    """Return turns in order: the `last` so many, or up to `limit` after or before a sequence number."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("get_transcript",), lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def transcript(format: arg.Shape = "openai", *, full: own.Full = False, last: arg.Last = None) -> object:  # noqa: A002
    """Return the conversation as messages for "openai" or "anthropic" (whose system text is in `.system`): always valid (P14)."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("list_lacking",), names={"http": {"cover": "seq"}}, lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def lacking(cover: own.OneCover) -> object:
    """Return the identifiers in the turns of a summary that neither its text nor its keys mention."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("list_session_events",), command="events", lacks={"mcp": FEW},
)  # fmt: skip
def events(
    after: own.PlaceFrom = 0,
    kind: own.EventKindWanted = None,
    *,
    emitted: own.EmittedOnly = None,
    about: arg.AboutOne = None,
    limit: arg.Limit = 100,
) -> object:
    """Return the events of this session after a sequence number, in order, at most `limit`; for a fork also those before it."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("list_session_effects",), tool="open_loops", lacks={"cli": WITHIN, "mcp": {"open": FEW,
    "after": FEW}},
)  # fmt: skip
def effects(
    *,
    open: own.OpenOnly = False,  # noqa: A002 - the word of users
    about: arg.AboutOne = None,
    after: own.PlaceFrom = 0,
    limit: arg.Limit = 1000,
) -> object:
    """Return the effects of this session, oldest first."""
    raise NotImplementedError


@read(
    on=(SESSION, SCOPE,), routes=("get_value", "get_scope_value",), tool="get", lacks={"cli": PROGRAMS},
)  # fmt: skip
def get(name: arg.Name, default: own.Local = None) -> object:
    """Return the value of a name, or `default` if it is not there or its time is over."""
    raise NotImplementedError


@read(
    on=(SESSION, SCOPE,), routes=("recall", "recall_in_scope",), command="recall", tool="recall", names={"http": {"query":
    "q"}, "cli": {"scopes": "scope"}}, lacks={"mcp": {"at": FEW, "tags": FEW, "since": FEW}},
)  # fmt: skip
def recall(
    query: own.Query,
    k: own.Count = 10,
    *,
    kinds: own.KindsWanted = None,
    scopes: own.ScopesWanted = None,
    at: own.Moment = None,
    tags: own.TagsWanted = (),
    about: own.AboutAll = (),
    since: own.Since = None,
    root: own.Local = None,
    commands: own.Local = (),
    urls: own.Local = (),
    models: own.Local = None,
) -> object:
    """Return the memories that answer a question best, at most `k`."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.READ, routes=("boot",), command="boot", tool="boot", lacks={"mcp":
    {"max_chars": FEW}},
)  # fmt: skip
def boot(
    budget: own.Budget = 4000,
    task: own.TaskText = None,
    *,
    tokenizer: own.Local = None,
    max_chars: own.MaxChars = None,
    profile: own.Profile = "full",
    root: own.Local = None,
    commands: own.Local = (),
    urls: own.Local = (),
    models: own.Local = None,
) -> object:
    """Return the text that a fresh context window needs to continue this session."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("list_referring_to",), names={"http": {"thing": "uid"}}, lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def referring(thing: arg.OneRef, *, limit: arg.Limit = 100, after: arg.After = None) -> object:
    """Return everything that refers to a turn, decision, task, artifact or Ref, in all sessions of this tenant."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("get_state",), names={"http": {"seq": "at"}}, lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def restore(
    seq: own.OptionalSeq = None, *, name: arg.CheckpointName = "default", key: arg.Key = None, default: own.Local = None
) -> object:
    """Return the state of the newest checkpoint of this name, or `default` when there is none."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.STREAM, right=Right.WRITE, routes=("put_artifact",), lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def attach(name: arg.Name, data: own.Local, *, media_type: own.MediaType = None, about: arg.About = ()) -> object:
    """Keep a file in the session: bytes, text, a Path, an open binary file or an iterable of bytes, of any size."""
    raise NotImplementedError


@read(
    on=(SESSION,), called="artifact", routes=("list_session_artifacts",), lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def own_artifact(name: arg.Name) -> object:
    """Return the newest version under this name."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("get_ask",), names={"http": {"seq": "ask"}}, lacks={"cli": WITHIN, "mcp": WITHIN},
)  # fmt: skip
def asked(seq: arg.Seq) -> object:
    """Return the question with this number, as it stands now."""
    raise NotImplementedError


@read(
    on=(SESSION,), command="show", names={"cli": {"moment": "at"}}, lacks={"http": LOCAL, "mcp": FEW},
)  # fmt: skip
def at(moment: own.Moment) -> object:
    """Return this session or scope as it was, for reading only."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("fork_session",), command="fork", lacks={"mcp": FEW},
)  # fmt: skip
def fork(at: own.Moment = None, *, name: arg.Name) -> object:
    """Create another session that continues from a point of this one (None: from now)."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("diff_sessions",), command="diff", lacks={"mcp": FEW},
)  # fmt: skip
def diff(other: own.Local) -> object:
    """Compare this session with another one: `session.at("2h").diff(session)`, or a session and its fork."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("begin_effect",), tool="effect_begin", lacks={"cli":
    LIBRARY},
)  # fmt: skip
def begin(
    tool: own.ToolName,
    args: own.ToolArgs = None,
    *,
    kind: own.ToolKindWanted = None,
    key: arg.Key = None,
    call: own.Local = None,
    about: arg.About = (),
) -> object:
    """Plan an effect that you carry out yourself: then call `dispatch`, act, and call `commit` or `fail`."""
    raise NotImplementedError


@read(
    on=(SESSION,), called="tasks", routes=("list_session_tasks",), command="tasks", tool="open_loops",
    filters=SessionTaskFilters,
)  # fmt: skip
def own_tasks(asked: SessionTaskFilters) -> object:
    """Return the tasks of this session, newest first."""
    raise NotImplementedError


@read(
    on=(SESSION,), routes=("list_session_tasks",), tool="ready", lacks={"cli": PROGRAMS},
)  # fmt: skip
def ready(*, limit: arg.Limit = 20, label: arg.OptionalLabel = None) -> object:
    """Return the tasks that can be begun now: todo or abandoned, with all needs done."""
    raise NotImplementedError


@verb(
    on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, routes=("claim_task",), tool="claim", lacks={"cli": PROGRAMS},
)  # fmt: skip
def claim_next(*, ttl: arg.Ttl = None, label: arg.OptionalLabel = None) -> object:
    """Claim the first task that is ready; None if none is."""
    raise NotImplementedError
