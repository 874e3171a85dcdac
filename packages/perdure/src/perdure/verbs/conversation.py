"""Verbs for conversations: turns, results, summaries and what is asked of them, of a session."""

from __future__ import annotations

from perdure.model.filters import SessionFilters
from perdure.model.records.conversation import Cover, Due, Origin, Pending, SessionHeader, Turn
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import RUN, SCOPE, SESSION, STORE, Endpoint, Key, Kind, Right, read, verb
from perdure.verbs.planes import arg, lineage, operator_verbs, pending, sessions, subjects, summaries, turns
from perdure.verbs.reasons import FEW, HOST, LIBRARY, NATIVE, PERSON, PROGRAMS, WITHIN


@verb(
    lambda: turns.say, on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, key=Key.HEADER, command="say", tool="say",
    body=("TurnInput",
          "A turn, as `session.say` takes it. calls: tool calls of an assistant turn. about: the people that it is about."),
    at=(Endpoint(SESSION, "POST", "/turns", "say",
                "Add a turn. The Idempotency-Key is the key of the turn: the same key and input give the turn that stands.",
                201),),
    names={"cli": {"content": "text"}, "mcp": {"content": "text"}},
    lacks={
        "cli": {"native": NATIVE},
        "mcp": {"calls": HOST, "shown": HOST, "native": NATIVE, "usage": HOST, "model": HOST, "parent": HOST},
    },
)  # fmt: skip
def say(
    role: arg.SpeakerRole,
    content: arg.Value = None,
    *,
    key: arg.Key = None,
    calls: arg.Calls = (),
    about: arg.About = (),
    shown: arg.Shown = (),
    native: arg.NativeForm = None,
    usage: arg.Usage = None,
    model: arg.Model = None,
    parent: arg.ParentTurn = None,
) -> Turn:
    """Add a turn; the first one in a closed session opens it again, in the same commit."""
    raise NotImplementedError


@verb(
    lambda: turns.result, on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, key=Key.BODY, names={"http": {"call_id": "call"}},
    body=("ResultInput", "The result of a call. error: it failed. key: a name of its own."),
    at=(Endpoint(SESSION, "PUT", "/calls/{call}/result", "put_result",
                "Add the result of a call, as a tool turn. Safe to repeat: a call has one result.", defaults={"value": None}),),
    lacks={"cli": LIBRARY, "mcp": HOST},
)  # fmt: skip
def result(
    call_id: arg.CallId,
    value: arg.Value,
    *,
    error: arg.IsError = False,
    key: arg.Key = None,
    native: arg.NativeForm = None,
    about: arg.About = (),
) -> Turn:
    """Add the result of a call, as a tool turn. Parts that no store takes are kept as text, because the call was made."""
    raise NotImplementedError


@verb(
    lambda: summaries.summarise, on=(SESSION,), kind=Kind.ENGINE, right=Right.WRITE, names={"http": {"from_": "first"}},
    body=("SummaryInput", "A text that stands for the turns from `first` (by default the first one) to `upto`."),
    at=(Endpoint(SESSION, "POST", "/summaries", "summarise", "Let a text stand for a range of turns, which stay readable.",
                 201),),
    lacks={"cli": PROGRAMS, "mcp": HOST},
)  # fmt: skip
def summarise(
    upto: arg.Upto, text: arg.Text, *, from_: arg.First = None, keys: arg.Keys = None, about: arg.About = ()
) -> Cover:
    """Let a text stand for a range of turns; by default with the identifiers of the range that it does not mention."""
    raise NotImplementedError


@verb(
    lambda: subjects.add_to_session, on=(SESSION, SCOPE, RUN), right=Right.WRITE, kind=Kind.ENGINE,
    body=("SubjectsInput", "Persons or things that all of it is about."),
    at=(
        Endpoint(SESSION, "POST", "/subjects", "add_subjects",
                "The whole session is about these persons or things; answers all of its subjects. Safe to repeat."),
        Endpoint(SCOPE, "POST", "/subjects", "add_scope_subjects",
                "Everything in a scope is about these persons or things; answers all of its subjects. Safe to repeat."),
        Endpoint(RUN, "POST", "/subjects", "add_run_subjects",
                "The whole run is about these persons or things; answers all of its subjects. Safe to repeat."),
    ),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def add_subjects(*subjects: arg.Subjects) -> tuple[str, ...]:
    """Say that all of it, before and after, is about these persons or things; returns all of its subjects."""
    raise NotImplementedError


@verb(
    lambda: operator_verbs.unpark, on=(SESSION,), right=Right.OPERATE, command="unpark", lacks={"mcp": PERSON},
    at=(Endpoint(SESSION, "POST", "/unpark", "unpark_session",
                "Take over a session that came by import: what stands in it under a key answers here from now on. Safe to repeat."
            ),),
)  # fmt: skip
def unpark() -> None:
    """Take over a session that came by import: what stands in it under a key answers here from now on. Idempotent.

    Its open effects stay in doubt, and its runs are taken over one by one. It can no longer grow with its original.
    Raises Conflict for a session that did not come by import.
    """
    raise NotImplementedError


# -- reading ---------------------------------------------------------------------------------------------------------


@read(
    lambda: turns.said, on=(SESSION,), lacks={"cli": LIBRARY, "mcp": HOST},
    at=(Endpoint(SESSION, "GET", "/said/{key}", "get_said", "The turn that was said under a key; null if there is none."),),
)  # fmt: skip
def said(key: arg.Name) -> Turn | None:
    """Return the turn that was said under a key, or None."""
    raise NotImplementedError


@read(
    lambda: turns.result_of, on=(SESSION,), names={"http": {"call_id": "call"}}, lacks={"cli": WITHIN, "mcp": HOST},
    at=(Endpoint(SESSION, "GET", "/calls/{call}/result", "get_result", "The result of a call; null if it has none."),),
)  # fmt: skip
def result_of(call_id: arg.CallId) -> Turn | None:
    """Return the result of a call, or None if it has none yet. Of several calls with this id, the newest counts."""
    raise NotImplementedError


@read(
    lambda: turns.line, on=(SESSION,), names={"http": {"head": "seq"}}, lacks={"cli": WITHIN, "mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/turns/{seq}/line", "get_line",
                "The branch that ends with a turn, in order: the newest turns of it."),),
)  # fmt: skip
def line(head: arg.HeadTurn, *, limit: arg.Limit = 100) -> list[Turn]:
    """Return the branch that ends with a turn, in order: the newest `limit` turns of it.

    Each turn follows its `parent`, or else the turn before it. `turns` and `transcript` show all branches, in the order in
    which they were said. NotFound if there is no such turn.
    """
    raise NotImplementedError


@read(
    lambda: pending.pending, on=(SESSION,), command="show", tool="open_loops",
    at=(Endpoint(SESSION, "GET", "/pending", "get_pending",
                "The open end of the conversation: calls without a result, or a turn without an answer; null if there is none."
            ),),
)  # fmt: skip
def pending_() -> Pending | None:
    """Return what the conversation waits for: results of calls, or the answer to a turn. None if it waits for nothing.

    Raises NotFound in a past, or in a fork made there, whose last turns were pruned since.
    """
    raise NotImplementedError


@read(
    lambda: summaries.covers, on=(SESSION,), lacks={"cli": PROGRAMS, "mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/summaries", "list_summaries", "The summaries that stand, in the order of what they cover."),),
)  # fmt: skip
def covers(*, nested: arg.Nested = False, about: arg.AboutOne = None) -> list[Cover]:
    """Return the summaries that stand, in the order of the turns that they cover. nested: also those inside later ones."""
    raise NotImplementedError


@read(
    lambda: summaries.due, on=(SESSION,), lacks={"cli": PROGRAMS, "mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/due", "get_due", "The range of turns to summarise next; null while there is nothing to do."),),
)  # fmt: skip
def due(*, width: arg.Width = 50, fan: arg.Fan = 10) -> Due | None:
    """Return the range to summarise next, so that opening this session stays quick; None if nothing is due. Writes nothing.

    When twice `width` turns follow the last summary, the first `width` of them are due. When `fan` summaries of about the
    same size stand in a row, these are due. Then call `summarise(due.last_seq, text, from_=due.first_seq)`.
    """
    raise NotImplementedError


@read(
    lambda: lineage.origin, on=(SESSION,), command="show", lacks={"mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/origin", "get_origin",
                "The session that this one was forked from, and where; null if it began by itself."),),
)  # fmt: skip
def origin() -> Origin | None:
    """Return the session that this one was forked from, or stands beside since a merge, and the last event that both have.

    None if it began by itself.
    """
    raise NotImplementedError


@read(
    lambda: sessions.sessions, on=(STORE,), called="sessions", filters=SessionFilters, command="sessions", lacks={"mcp": FEW},
    at=(Endpoint(STORE, "GET", "/sessions", "list_sessions", "Sessions, newest first."),),
)  # fmt: skip
def all_sessions(asked: SessionFilters) -> Page[SessionHeader]:
    """Return a page of sessions, newest first. They are headers; `info()` of a session has the rest.

    The next page is `after=page.next`; `perdure.every(store.sessions)` iterates over all.
    since, until: when a session was created, as an instant or an age ("7d").
    expired: also sessions whose `ttl` is over.
    archived: also sessions that were archived.
    about: only sessions in which anything is about this subject.

    Raises Invalid with the path of a filter that makes no sense.
    """
    raise NotImplementedError
