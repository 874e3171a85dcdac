"""How a checkpoint of LangGraph lies in a tree of nodes, and what is remembered so that the next one costs what changed.

    {"format": 1, "rest": [type, text], "values": {channel: [type, text, …] or {"type": type, "items": [text or [text, …], …]}}}

`rest` is the checkpoint without its channel values. `text` is what the serializer gave, a character for each byte (latin-1), so
that nodes are plain text to whatever reads them. A list whose elements the serializer writes one by one to the same bytes lies
element by element: appending to it adds an element, and the rest is shared. Bytes are cut
around each long text in them, so that a message is stored once, however often it is written (docs/decisions/0049).

The memory of a thread is the last checkpoint that this process saved there. A channel that LangGraph did not give a new
version is taken from it, and so are the elements of a list that are the same as before, which their `marks` tell. Keeps P8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol

from perdure.artifacts.parts import LaidPart, Laying, ListPart, named_nodes, read_text
from perdure.artifacts.shared_list import SharedList
from perdure.errors import Damaged, Error, Invalid
from perdure.planes.recovery.keyed import Base, TaskWrite
from perdure_adapters.langgraph.marks import Marks, mark_of, same_in_front

FORMAT = 1
LONG_TEXT_CHARS = 1_000  # about as long as a text must be to become a node of its own
TEXTS_DEPTH_MAX = 6  # how deep long texts are looked for


class KeptChannel(NamedTuple):
    """A channel as it was saved last: its version, its part, and for a list what tells its elements apart.

    same: how many of its elements, in front, are those of the checkpoint before.
    """

    version: Any
    part: LaidPart
    items: ListPart | None = None
    marks: Marks = SharedList()
    kind: str = ""
    same: int = 0


class ThreadMemory(NamedTuple):
    """The last checkpoint of a thread and namespace that was saved here."""

    base: Base
    serde: SerializerProtocol
    channels: dict[str, KeptChannel]


class LaidState(NamedTuple):
    """A checkpoint that is laid out: its root, the bytes of it, its new nodes, and what to remember of it."""

    root: bytes
    size: int
    nodes: dict[bytes, bytes]
    channels: dict[str, KeptChannel]


def lay_out(
    checkpoint: Mapping[str, Any],
    new_versions: Mapping[str, Any],
    serde: SerializerProtocol,
    memory: ThreadMemory | None,
) -> LaidState:
    """Lay out a checkpoint. Errors name the channel."""
    laying = Laying()
    laid: dict[str, KeptChannel] = {}
    before = memory.channels if memory is not None else {}
    versions = checkpoint["channel_versions"]
    for channel, value in checkpoint["channel_values"].items():
        last, version = before.get(channel), versions.get(channel)
        if last is not None and channel not in new_versions and version is not None and last.version == version:
            laid[channel] = last._replace(same=len(last.marks))
        else:
            laid[channel] = _lay_channel(laying, channel, value, version, serde, last)
    rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
    state = {
        "format": FORMAT, "rest": typed(serde, rest, ""),
        "values": {channel: entry.part.cell for channel, entry in laid.items()},
    }  # fmt: skip
    root = laying.root(state)
    return LaidState(root, sum(entry.part.size for entry in laid.values()), laying.nodes, laid)


def _lay_channel(
    laying: Laying, channel: str, value: Any, version: Any, serde: SerializerProtocol, last: KeptChannel | None
) -> KeptChannel:
    is_list = type(value) is list
    laid = _lay_list(laying, channel, value, version, serde, last) if is_list and len(value) > 1 else None
    if laid is not None:
        return laid
    marks: Marks = SharedList(map(mark_of, value)) if is_list else SharedList()
    return KeptChannel(version, laying.value(typed(serde, value, channel)), marks=marks)


def _lay_list(
    laying: Laying, channel: str, value: list[Any], version: Any, serde: SerializerProtocol, last: KeptChannel | None
) -> KeptChannel | None:
    """A list, element by element; None if its elements cannot stand alone (LangGraph writes them otherwise inside a list)."""
    before = last.items if last is not None else None
    same = _same(channel, value, serde, last, before) if last is not None and before is not None else 0
    dumped = [typed(serde, element, channel) for element in value[same:]]
    kinds = {kind for kind, *_ in dumped} | ({last.kind} if last is not None and same else set())
    if len(kinds) != 1 or next(iter(kinds)).partition("+")[0] != "msgpack":
        return None
    kind = next(iter(kinds))
    items = laying.items([_lay_element(laying, texts) for _, *texts in dumped], before, same)
    cell = msgspec.msgpack.encode({"type": kind, "items": items.part.cell})
    new = map(mark_of, value[same:])
    marks = last.marks.grown(same, new) if last is not None and same else SharedList(new)
    return KeptChannel(version, LaidPart(msgspec.Raw(cell), items.part.size), items, marks, kind, same)


def _lay_element(laying: Laying, texts: list[str]) -> LaidPart:
    return laying.value(texts[0] if len(texts) == 1 else texts)


def _same(channel: str, value: list[Any], serde: SerializerProtocol, last: KeptChannel, before: ListPart) -> int:
    """How many elements in front are as they were; those whose mark does not tell are serialised to know it."""

    def is_as_stored(place: int) -> bool:
        kind, *texts = typed(serde, value[place], channel)
        return kind == last.kind and _lay_element(Laying(), texts).cell == before.cells[place]

    return same_in_front(value, last.marks, is_as_stored)


def lay_writes(
    serde: SerializerProtocol, writes: Sequence[tuple[str, Any]]
) -> tuple[list[TaskWrite], dict[bytes, bytes]]:
    """The writes of a task, and the nodes that they name: long texts lie where the next checkpoint has them."""
    laying = Laying()
    laid: list[TaskWrite] = []
    for idx, (channel, value) in enumerate(writes):
        kind, *texts = typed(serde, value, channel)
        document = [kind, *map(laying.text, texts)]
        laid.append(TaskWrite(WRITES_IDX_MAP.get(channel, idx), channel, document))
    return laid, laying.nodes


def read_write(serde: SerializerProtocol, document: Any, nodes: Mapping[bytes, bytes], channel: str) -> Any:
    """The value of such a document."""
    if not isinstance(document, list) or len(document) < 2:
        raise Damaged("not what a task wrote", path=_path(channel))
    texts = [read_text(text, nodes, _path(channel)) for text in document[1:]]
    return load(serde, document[0], _all_bytes(texts), channel)


def nodes_of_write(document: Any) -> set[bytes]:
    """The nodes that the document of a write names."""
    return {address for text in document[1:] for address in named_nodes(text)} if isinstance(document, list) else set()


# -- bytes and texts -----------------------------------------------------------------------------------------


def as_text(data: bytes) -> str:
    """Bytes as text, a character each."""
    return str(data, "latin-1")


def _all_bytes(texts: Iterable[Any]) -> bytes:
    """The bytes of such texts, one after another."""
    try:
        return "".join(texts).encode("latin-1")
    except (TypeError, UnicodeEncodeError):
        raise Damaged("not the text of stored bytes", path="checkpoint") from None


def typed(serde: SerializerProtocol, value: Any, channel: str) -> list[str]:
    """The type of a value, and the texts of its bytes."""
    kind, data = dump(serde, value, channel)
    return [kind, *_texts(data, value)] if kind == "msgpack" else [kind, as_text(data)]


def _texts(data: bytes, value: Any) -> list[str]:
    """The bytes of a value, cut around each long text in it: wherever the same text is stored, it is stored once."""
    texts: list[str] = []
    start = 0
    for long in _long_texts(value):
        place = data.find(long, start)
        if place >= 0:
            texts += [as_text(data[start:place]), as_text(long)]
            start = place + len(long)
    return [*texts, as_text(data[start:])]


def _long_texts(value: Any, depth: int = 0) -> Iterator[bytes]:
    """The long texts in a value, in the order in which they are written. One that is missed is only stored again."""
    if isinstance(value, str):
        if len(value) >= LONG_TEXT_CHARS:
            yield value.encode(errors="replace")
    elif isinstance(value, BaseMessage):
        yield from _long_texts(value.content, depth + 1)
    elif type(value) in (list, tuple, dict) and depth < TEXTS_DEPTH_MAX:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _long_texts(part, depth + 1)


def dump(serde: SerializerProtocol, value: Any, channel: str) -> tuple[str, bytes]:
    """A value as the serializer writes it; its error names the channel."""
    try:
        kind, data = serde.dumps_typed(value)
    except Error as error:
        raise _in_channel(error, channel) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(f"a {type(value).__name__} cannot be stored: {error}", path=_path(channel)) from error
    if kind.partition("+")[0] == "pickle":
        raise Invalid(f"a {type(value).__name__} would be stored as pickle, which is never read", path=_path(channel))
    return kind, data


def load(serde: SerializerProtocol, kind: Any, data: bytes, channel: str) -> Any:
    """The value of stored bytes; an error names the channel."""
    if not isinstance(kind, str) or kind.partition("+")[0] == "pickle":
        raise Invalid(f"the serialisation {kind!r} is never read", path=_path(channel))
    try:
        return serde.loads_typed((kind, data))
    except Error as error:
        raise _in_channel(error, channel) from error


def _path(channel: str) -> str:
    return f"channel_values.{channel}" if channel else "checkpoint"


def _in_channel(error: Error, channel: str) -> Error:
    return type(error)(error.message, path=_path(channel), hint=error.hint)


# -- reading -------------------------------------------------------------------------------------------------


def read_back(state: Any, serde: SerializerProtocol) -> dict[str, Any]:
    """The checkpoint of a stored state."""
    if not isinstance(state, dict) or state.get("format") != FORMAT or not isinstance(state.get("values"), dict):
        raise Damaged("not a checkpoint of LangGraph", path="checkpoint")
    checkpoint = _load_typed(serde, state.get("rest"), "")
    if not isinstance(checkpoint, dict):
        raise Damaged("not a checkpoint of LangGraph", path="checkpoint")
    checkpoint["channel_values"] = {
        channel: load_channel(serde, stored, channel) for channel, stored in state["values"].items()
    }
    return checkpoint


def load_channel(serde: SerializerProtocol, stored: Any, channel: str) -> Any:
    """The value of a channel, as it stands among the `values` of a stored state."""
    if not isinstance(stored, dict):
        return _load_typed(serde, stored, channel)
    kind, items = stored.get("type"), stored.get("items")
    if not isinstance(items, list):
        raise Damaged("neither a value nor a list of elements", path=_path(channel))
    elements = [element if isinstance(element, list) else [element] for element in items]
    if kind == "msgpack":
        return load(serde, kind, _array_header(len(elements)) + _all_bytes(chain.from_iterable(elements)), channel)
    return [load(serde, kind, _all_bytes(element), channel) for element in elements]


def _load_typed(serde: SerializerProtocol, stored: Any, channel: str) -> Any:
    if not isinstance(stored, list) or len(stored) < 2:
        raise Damaged("not a value of a channel", path=_path(channel))
    return load(serde, stored[0], _all_bytes(stored[1:]), channel)


def _array_header(count: int) -> bytes:
    """How msgpack begins an array."""
    if count < 16:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2, "big") if count < 2**16 else b"\xdd" + count.to_bytes(4, "big")
