"""The content of an event, as text that can be searched. Pure; callers: `index`, which keeps its words, and `search`, which shows
it.

A text belongs to a shelf: what it is (`turn`, `decision` …), for a memory with its kind (`memory.rule`), and `past.rule` once it
was superseded. A long text stands there in parts. The answer of a call stands with the turns and the outcome of an effect with
the effects; the shelf `result` has those of steps and runs (decision 0091).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from perdure.log.event import Body, Event
from perdure.model.kinds import is_reserved
from perdure.model.records.memories import MemoryKind, MemoryStatus, SearchKind
from perdure.planes.reading.lineage import MAX_SEQ

TEXT_MAX_CHARS = 100_000  # of one text; what comes after is not searched
PART_MAX_CHARS = 2_000
SHORT_MAX_CHARS = 400  # a turn of this length is lent the words of its neighbours
_NESTED_MAX = 100_000  # values of one document that are looked at
_WITH_RESULTS = ("turn", "effect")  # shelves whose texts are results in part: `:results` in search.sql


class EventText(NamedTuple):
    """The statement of one event about the row `of_seq`."""

    shelf: str
    of_seq: int
    text: str
    user_said: bool = False


class ShelfMove(NamedTuple):
    """A memory that was superseded or forgotten: its texts go to another shelf, or go."""

    stream: int
    of_seq: int
    status: MemoryStatus


class TextsGone(NamedTuple):
    """A turn that was retracted: nothing finds it any more."""

    stream: int
    seq: int


def said_by(event: Event, body: Body) -> EventText | None:
    """The text of an event, or None if it says nothing that is searched."""
    reader = _READERS.get(event.table)
    event_text = reader(event, body) if reader else None
    return event_text if event_text and event_text.text.strip() else None


def moved_by(event: Event, body: Body) -> ShelfMove | TextsGone | None:
    """The effect of an event on the texts of a memory or a turn that was indexed before."""
    if event.table == "turns" and body.op != "insert":
        return TextsGone(event.stream, _row(event, body))
    status = body.set.get("status")
    if event.table != "memories" or body.op != "set" or status not in (MemoryStatus.SUPERSEDED, MemoryStatus.FORGOTTEN):
        return None
    return ShelfMove(event.stream, _row(event, body), MemoryStatus(status))


def shelves_of(kinds: list[SearchKind]) -> list[str]:
    """The shelves on which things of these kinds stand."""
    others = [kind.value for kind in kinds if kind is not SearchKind.MEMORY]
    return others + results_alone(kinds) + (memory_shelves(list(MemoryKind)) if SearchKind.MEMORY in kinds else [])


def results_alone(kinds: list[SearchKind]) -> list[str]:
    """The shelves of which only the results are asked for."""
    return [shelf for shelf in _WITH_RESULTS if SearchKind.RESULT in kinds and SearchKind(shelf) not in kinds]


def memory_shelves(kinds: list[MemoryKind], *, past: bool = False) -> list[str]:
    """The shelves of memories of these kinds: the live ones, and with `past` also the superseded ones."""
    return [f"{shelf}.{kind}" for shelf in (("memory", "past") if past else ("memory",)) for kind in kinds]


def past_shelf(shelf: str) -> str:
    """Where a memory goes from its shelf when it is superseded."""
    return f"past.{shelf.partition('.')[2]}"


def kind_of(shelf: str) -> SearchKind:
    """The kind of the texts on a shelf."""
    return SearchKind.MEMORY if "." in shelf else SearchKind(shelf)


def parts_of(text: str) -> list[str]:
    """The parts in which a text is indexed, cut between words where that is possible."""
    rest = text[:TEXT_MAX_CHARS]
    parts = []
    while len(rest) > PART_MAX_CHARS:
        cut = max(rest.rfind(mark, PART_MAX_CHARS // 2, PART_MAX_CHARS) for mark in ("\n", " ")) + 1 or PART_MAX_CHARS
        parts.append(rest[:cut])
        rest = rest[cut:]
    return [*parts, rest]


def flat(tree: Any) -> str:
    """Every text and number in a document, without its keys; encoded bytes are passed over."""
    if type(tree) is str:
        return tree
    return "\n".join(_leaves(tree))


def _leaves(tree: Any) -> Iterator[str]:
    waiting, visited, chars = [tree], 0, 0
    while waiting and visited < _NESTED_MAX and chars < TEXT_MAX_CHARS:
        visited += 1
        node = waiting.pop()
        if type(node) is str or (type(node) in (int, float)):
            chars += len(str(node))
            yield str(node)
        elif type(node) is dict:
            waiting += [] if _is_bytes(node) else reversed(node.values())
        elif type(node) is list:
            waiting += reversed(node)


def _is_bytes(tree: dict[str, Any]) -> bool:
    tagged = tree.get("$")
    return type(tagged) is list and tagged[:1] == ["bytes"]


def _row(event: Event, body: Body) -> int:
    seq = body.key.get("seq", event.seq)
    return seq if type(seq) is int and 0 < seq < MAX_SEQ else event.seq


def _fields(doc: Any, *names: str) -> str:
    return "\n".join(flat(doc[name]) for name in names if doc.get(name) is not None) if type(doc) is dict else ""


def _turn(event: Event, body: Body) -> EventText:
    return EventText("turn", event.seq, _fields(body.doc, "content", "calls"), body.set.get("role") == "user")


def _summary(event: Event, body: Body) -> EventText:
    return EventText(
        "summary", event.seq, _fields(body.doc, "text", "keys") if type(body.doc) is dict else flat(body.doc)
    )


def _decision(event: Event, body: Body) -> EventText:
    return EventText("decision", _row(event, body), _fields(body.doc, "text", "because", "then", "outcome", "note"))


def _task(event: Event, body: Body) -> EventText:
    title = body.set.get("title", "")
    return EventText(
        "task", _row(event, body), "\n".join(filter(None, (flat(title), flat(body.doc) if body.doc else "")))
    )


def _effect(event: Event, body: Body) -> EventText:
    contents = _fields(body.doc, "args", "result", "error")
    return EventText("effect", _row(event, body), "\n".join(filter(None, (flat(body.set.get("tool", "")), contents))))


def _step(event: Event, body: Body) -> EventText | None:
    contents = _fields(body.doc, "value", "error")
    return EventText("result", event.seq, f"{_fields(body.doc, 'name')}\n{contents}") if contents else None


def _run(event: Event, body: Body) -> EventText:
    return EventText("result", event.seq, _fields(body.doc, "result", "error"))


def _memory(event: Event, body: Body) -> EventText | None:
    status, kind = body.set.get("status"), body.set.get("kind")
    if body.op not in ("insert", "base") or status == MemoryStatus.FORGOTTEN or kind not in list(MemoryKind):
        return None
    shelf = f"memory.{kind}" if status == MemoryStatus.LIVE else f"past.{kind}"
    return EventText(shelf, _row(event, body), _fields(body.doc, "text"))


def _emitted(event: Event, body: Body) -> EventText | None:
    return (
        None
        if is_reserved(event.kind)
        else EventText("event", event.seq, f"{event.kind}\n{flat(body.doc) if body.doc else ''}")
    )


_READERS: dict[str, Callable[[Event, Body], EventText | None]] = {
    "turns": _turn, "covers": _summary, "decisions": _decision, "tasks": _task, "effects": _effect, "steps": _step, "runs": _run,
    "memories": _memory, "": _emitted,
}  # fmt: skip
