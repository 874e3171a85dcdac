"""Session files that programs write themselves: one JSON file a session, with its messages in OpenAI's or Anthropic's shape.

A list of messages, or an object with one under `messages`, `history`, `conversation`, `turns` or `items`; everything else in the
object becomes values of the session. JSON lines of one message each are read too. A message's identity is its own id, else its
place in the list: files of this kind grow at the end or are rewritten, and what was changed in the middle is said to have been.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perdure.errors import Error, Invalid
from perdure_agents.importers.items import (
    ImportedFrom,
    ImportedSession,
    ImportedValue,
    Item,
    LeftOut,
    Remark,
    kind_of,
)
from perdure_agents.importers.messages import Spot, is_message, response_items
from perdure_agents.importers.names import Calls, name_of
from perdure_agents.importers.sources import (
    FileHead,
    Record,
    Source,
    head_of,
    parsed_document,
    records,
    text_of,
    torn_list,
)

NAME = "messages"
LISTS = ("messages", "history", "conversation", "turns", "items")
IDS = ("session_id", "sessionId", "thread_id", "conversation_id", "id")
TIMES = ("timestamp", "created_at", "createdAt", "time", "at", "date")
_ITEMS = frozenset({"function_call", "function_call_output", "reasoning", "message"})


def is_item(value: object) -> bool:
    """Whether this is a message, or an item of the Responses shape."""
    return is_message(value) or kind_of(value) in _ITEMS


def recognises(head: FileHead) -> bool:
    """Whether a file of JSON lines is one; documents are recognised by `holds_messages`."""
    return bool(head.records) and all(map(is_message, head.records))


def holds_messages(document: Any) -> bool:
    """Whether a document is a session."""
    listed = _listed(document)
    return bool(listed) and is_item(listed[0])


def is_torn_session(path: Path) -> bool:
    """Whether a broken document is what is left of a session."""
    try:
        torn = torn_list(text_of(path), LISTS)
    except Error:
        return False
    return torn is not None and bool(torn.elements) and is_item(torn.elements[0])


def _listed(document: Any) -> list[Any]:
    if isinstance(document, list):
        return document
    lists = (
        [document[name] for name in LISTS if isinstance(document.get(name), list)] if isinstance(document, dict) else []
    )
    return next((items for items in lists if items and is_item(items[0])), [])


def read(source: Source) -> Iterator[Item | Remark]:
    """Everything in the file, in its order. Of a torn document, what is whole in it."""
    text = text_of(source.path)
    try:
        yield from _session_items(parsed_document(text, source.path), source)
    except Invalid as error:
        yield from _read_broken(source, text, error)


def _read_broken(source: Source, text: str, error: Invalid) -> Iterator[Item | Remark]:
    torn = None if recognises(head_of(source.path)) else torn_list(text, LISTS)
    if torn is None:
        yield from _read_lines(source, error)
        return
    yield from _session_items({**torn.fields, LISTS[0]: torn.elements}, source)
    yield LeftOut(source.name, torn.why)


def _session_items(document: Any, source: Source) -> Iterator[Item | Remark]:
    if isinstance(document, dict) and is_message(document):
        document = [document]
    facts = document if isinstance(document, dict) else {}
    name = name_of(NAME, next((facts[field] for field in IDS if _is_id(facts.get(field))), _own_name(source)))
    title = facts.get("title") if isinstance(facts.get("title"), str) else facts.get("name")
    yield ImportedSession(name, NAME, source.name, title if isinstance(title, str) else "")
    messages = _listed(document)
    for field, value in facts.items():
        if value is not messages:
            yield ImportedValue(name_of(field), value, f"{source.name}:{field[:80]}", session=name)
    calls = Calls()
    for number, message in enumerate(messages, 1):
        yield from _one(message, number, name, f"{source.name}:[{number - 1}]", calls)


def _own_name(source: Source) -> str:
    """A file's name, without its ending."""
    return source.name.removesuffix(source.path.suffix) if source.path.suffix else source.name


def _is_id(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


def _one(message: Any, number: int, session: str, place: str, calls: Calls) -> Iterator[Item | Remark]:
    if not is_item(message):
        yield LeftOut(place, "no message: it has no role that is known")
        return
    at = next((str(message[field]) for field in TIMES if message.get(field)), "")
    own = str(message["id"]) if _is_id(message.get("id")) else ""
    spot = Spot(session, name_of(own or f"m{number}"), ImportedFrom(NAME, own, at), place, calls)
    yield from response_items(message, spot)


def _read_lines(source: Source, why: Invalid) -> Iterator[Item | Remark]:
    """JSON lines of messages. A document that is broken and is none of these either is left out as a whole."""
    name, calls, number = name_of(NAME, _own_name(source)), Calls(), 0
    for record in records(source, is_item):
        if not isinstance(record, Record):
            yield record
            continue
        if number == 0 and not is_item(record.data):
            yield LeftOut(source.name, why.message)
            return
        if number == 0:
            yield ImportedSession(name, NAME, record.place)
        number += 1
        yield from _one(record.data, number, name, record.place, calls)
