"""Requests: a caller that lost an answer asks again under the same key, and gets the answer that it missed.

The mark of a request (a digest of what was asked, and the answer) is recorded in the transaction of the work itself, in the scope
`requests/UID` of the session or run. So a request is carried out once whatever crashes, and its answer is the same every time.
The identity of what a door was asked is made here alone. See docs/decisions/0045 and 0150. Callers: `session.once`, `run.signal`,
the A2A door. Keeps P1, P5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Conflict, Invalid, KeyReused
from perdure.log.change import Change, Stream
from perdure.model.limits import KEY_MAX_CHARS, check_name, check_question
from perdure.model.records.runs import ENDED, RunStatus, WaitKind, WaitRecord
from perdure.model.values import digest, to_plain
from perdure.planes import subjects
from perdure.planes.execution import imported, runs, waits
from perdure.planes.memory import values
from perdure.planes.reading.durations import Duration
from perdure.planes.tables import ENTRIES, RUNS, SESSIONS, SIGNALS
from perdure.stores.tx import Tx

GIVEN_ALONE = 2  # the form of a mark whose digest is of what was given alone; a mark of before says no form


class Answered(NamedTuple):
    """The answer that stands under a key."""

    answer: Any


class KeyedRequest(NamedTuple):
    """The identity of what a door was asked. given: the verb, and its arguments that are not as by default.

    before: as it was said when every default was filled in: marks of that time are compared with it.
    """

    given: dict[str, Any]
    before: Any


def differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that differ from their defaults, as plain data: an argument that comes with an upgrade changes no request
    that does not use it, and a default that is said aloud is none. `False` is not `0`, `()` is `[]`.
    """
    plain = {name: given_of(value) for name, value in values.items() if value is not msgspec.UNSET}
    return {name: value for name, value in plain.items() if name not in defaults or not _is(value, defaults[name])}


def given_of(value: Any) -> Any:
    """A body, or a part of one, without what is as by default."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        defaults = {field.name: _default(field) for field in fields if not field.required}
        return differing({field.name: getattr(value, field.name) for field in fields}, defaults)
    # A value of the user has no structs in it, and may be large: it is left to msgspec.
    if isinstance(value, Mapping) and any(isinstance(item, msgspec.Struct) for item in value.values()):
        return {name: given_of(item) for name, item in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(item, msgspec.Struct) for item in value):
        return [given_of(item) for item in value]
    return [*value] if isinstance(value, tuple) else msgspec.to_builtins(value)


def _default(field: Any) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _is(value: Any, default: Any) -> bool:
    if default is msgspec.UNSET:
        return False
    plain = given_of(default)
    return value == plain and msgspec.json.encode(value) == msgspec.json.encode(plain)


def answered(tx: Tx, stream: Stream, key: str, request: Any) -> Answered | None:
    """The answer that stands under a key; None if there is none. KeyReused if something else was asked, Imported
    if it came by import.
    """
    name = check_name(key, "key", KEY_MAX_CHARS)
    marks = _marks(tx, stream)
    entry = values.entry(tx, marks, name)
    if entry is None:
        return None
    seq = (tx.row(ENTRIES, marks, name) or {}).get("seq")
    if imported.is_copy(tx, marks, seq):
        if imported.is_apart(tx, marks, seq):
            return None
        imported.check_taken_over(tx, stream, key)
    is_before = isinstance(request, KeyedRequest) and "form" not in entry.value
    stored, fresh = entry.value["asked"], digest(request.before, "asked").hex() if is_before else _digest(request)
    if stored != fresh:
        raise KeyReused(
            f"the key {key!r} stands for another request", path="key", hint="a new request needs a new key",
            stored=stored, given=fresh,
        )  # fmt: skip
    return Answered(entry.value["answer"])


def keep(tx: Tx, stream: Stream, key: str, request: Any, answer: Any, about: Iterable[str] = ()) -> None:
    """Record an answer in the transaction of the work that it tells of. Invalid if it cannot be kept. It is about whom the
    session is, though it stands elsewhere, and about whom all that is which was written with it.
    """
    try:
        plain = to_plain(answer, "answer")
    except Invalid as error:
        error.hint = "return what the caller needs of it (its .seq, .id, .value) as plain data"
        raise
    row = tx.row(RUNS if stream.kind == "run" else SESSIONS, stream)
    subject_names = [*subjects.named(about), *subjects.in_row(row), *subjects.written(tx)]
    form = {"form": GIVEN_ALONE} if isinstance(request, KeyedRequest) else {}
    values.put(tx, _marks(tx, stream), key, {"asked": _digest(request), "answer": plain, **form}, about=subject_names)


def give_keys_up(tx: Tx, stream: Stream) -> None:
    """Free the keys of a copy that nobody took over, those of its requests too. Nothing for any other stream."""
    imported.give_keys_up(tx, stream)
    marks = tx.find_stream("scope", _marks_of(stream))
    if marks is not None:
        for name in imported.held_marks(tx, stream, marks):
            values.delete(tx, marks, name)


def _marks(tx: Tx, stream: Stream) -> Stream:
    return values.open_scope(tx, _marks_of(stream))


def _marks_of(stream: Stream) -> str:
    return f"{imported.REQUESTS}{stream.uid.hex()}"


def _digest(request: Any) -> str:
    return digest(request.given if isinstance(request, KeyedRequest) else request, "asked").hex()


def ask(
    tx: Tx,
    stream: Stream,
    question: str,
    *,
    choices: Any = None,
    detail: Any = None,
    timeout: Duration | None = None,
    about: Iterable[str] = (),
) -> WaitRecord:
    """Ask a person something in a session. Two calls ask twice."""
    doc = waits.ask_document(check_question(question, "question"), choices, None, detail)
    return waits.open_wait(tx, stream, WaitKind.ASK, place=None, doc=doc, timeout=timeout, about=about)


def signal(
    tx: Tx, stream: Stream, name: str, payload: Any = None, *, key: str | None = None, about: Iterable[str] = ()
) -> None:
    """Send a signal to a run. It waits there until it is taken. Under a key it is sent once, and again is nothing new, even
    when the run is over by then; without one, two calls send twice. Raises Conflict when the run is over, KeyReused.
    """
    check_name(name, "signal")
    doc, subject_names = {"payload": to_plain(payload, "payload")}, subjects.named(about)
    fields = {} if key is None else differing({**doc, "about": subject_names}, {"payload": None, "about": ()})
    request = KeyedRequest({"signal": name, **fields}, {"signal": name, **doc})
    if key is not None and answered(tx, stream, key, request) is not None:
        return
    row = tx.row(RUNS, stream)
    if row is None or RunStatus(row["status"]) in ENDED:
        raise Conflict(f"run {stream.name} is over", path="run", status=row["status"] if row else None)
    runs.check_here(tx, stream)
    tx.record(Change("run.signalled", stream, SIGNALS, set={"name": name}, doc=doc, subjects=subject_names))
    if waits.waiting(tx, stream, kind=WaitKind.SIGNAL, name=name):
        runs.wake(tx, stream)
    if key is not None:
        keep(tx, stream, key, request, None, subject_names)


def answer_next(tx: Tx, stream: Stream, value: Any, by: str, *, key: str) -> None:
    """Answer the question that a run asks now, for a caller who cannot name it. Once for the key of the message that brings the
    answer: again it is nothing new, whatever the run asks by then. Raises Conflict when it asks nothing, KeyReused.
    """
    request = {"answer": to_plain(value, "answer")}
    if answered(tx, stream, key, request) is not None:
        return
    open_asks = waits.waiting(tx, stream, kind=WaitKind.ASK)
    if not open_asks:
        raise Conflict(f"run {stream.name} asks nothing now", path="run")
    waits.answer(tx, stream, open_asks[0].seq, value, by)
    keep(tx, stream, key, request, open_asks[0].seq)
