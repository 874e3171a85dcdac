"""Gemini CLI's sessions: `~/.gemini/tmp/…/chats/session-*.jsonl`, one record a line; earlier versions: one JSON document.

A message is written when it begins and again, under its id, when its calls are done. Its text is one turn and each of its calls
is a turn of its own, which keeps them the same however early a file was read. A record of the user that only repeats results is
passed over. `$set` changes what is known of the session, and may bring messages; `$rewindTo` and kinds not known here are
kept whole, as emitted events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

from perdure.errors import Invalid
from perdure.interchange.importers.items import (
    ImportedEvent,
    ImportedFrom,
    ImportedResult,
    Item,
    LeftOut,
    PassedOver,
    Remark,
    kind_of,
)
from perdure.interchange.importers.messages import ImportedCall, OneSession, Spot, content_of, turn
from perdure.interchange.importers.naming import named, word
from perdure.interchange.importers.reading import (
    FileHead,
    Record,
    Source,
    each_record,
    head_of,
    parsed_document,
    text_of,
    torn_list,
)

NAME = "gemini"
ROLES = {"user": "user", "gemini": "assistant"}
ENDED = ("success", "error", "cancelled")
FACTS = ("projectHash", "startTime", "kind")
MARKS = (b'"sessionId"', b'"projectHash"', b'"messages"')
MARKS_WITHIN_BYTES = 4_096


def _is_start(record: dict[str, Any]) -> bool:
    return isinstance(record.get("sessionId"), str) and "projectHash" in record


def looks_right(record: dict[str, Any]) -> bool:
    """Whether an object can be one of its records."""
    return _is_start(record) or "$set" in record or "$rewindTo" in record or ("id" in record and bool(kind_of(record)))


def recognises(head: FileHead) -> bool:
    """Whether a file is one: its first record says of which session and project it is."""
    return _has_lines(head) or _is_document(head)


def _has_lines(head: FileHead) -> bool:
    return bool(head.records) and _is_start(head.records[0])


def _is_document(head: FileHead) -> bool:
    return not _has_lines(head) and all(mark in head.data[:MARKS_WITHIN_BYTES] for mark in MARKS)


def read(source: Source) -> Iterator[Item | Remark]:
    """Everything in the file, in its order."""
    reading = _Reading(source)
    return reading.document() if _is_document(head_of(source.path)) else reading.lines()


class _Reading(OneSession):
    """One pass over a file."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, NAME)
        self._told: set[str] = set()  # keys of turns and calls whose results were given: records repeat them

    def lines(self) -> Iterator[Item | Remark]:
        return each_record(self._source, looks_right, self._of)

    def document(self) -> Iterator[Item | Remark]:
        """The whole file as one document, or as much of it as is whole."""
        text = text_of(self._source.path)
        torn = None
        try:
            found = parsed_document(text, self._source.path)
        except Invalid:
            torn = torn_list(text, ("messages",))
            found = {} if torn is None else {**torn.fields, "messages": torn.elements}
        yield from self._begin(found if isinstance(found, dict) else {}, self._source.name)
        messages = found.get("messages") if isinstance(found, dict) else None
        for number, message in enumerate(messages if isinstance(messages, list) else ()):
            yield from self._message(message, f"{self._source.name}:messages[{number}]")
        if torn is not None:
            yield LeftOut(self._source.name, torn.why)

    def _of(self, record: Record) -> Iterator[Item | Remark]:
        data, place = record.data, record.place
        changed = data.get("$set")
        if _is_start(data):
            yield from self._begin(data, place)
            yield from self._messages(data.get("messages"), place)
        elif isinstance(changed, dict):
            yield PassedOver(f"{NAME} $set")
            yield from self._messages(changed.get("messages"), place)
        elif "$rewindTo" in data:
            yield self._noted(data, "rewind", place)
        else:
            yield from self._message(data, place)

    def _begin(self, about: dict[str, Any], place: str) -> Iterator[Item]:
        """The session begins; a second record of this kind has nothing new."""
        facts = {name: about[name] for name in FACTS if about.get(name)}
        return self._open(place, about.get("sessionId"), facts)

    def _messages(self, messages: Any, place: str) -> Iterator[Item | Remark]:
        for message in messages if isinstance(messages, list) else ():
            yield from self._message(message, place)

    def _message(self, message: Any, place: str) -> Iterator[Item | Remark]:
        kind = kind_of(message)
        if not kind:
            yield LeftOut(place, "a record without a type")
            return
        yield from self._begin({}, place)
        if kind not in ROLES:
            yield self._noted(message, kind, place)
        elif kind == "user" and self._repeats_results(message.get("content")):
            yield PassedOver(f"{NAME} functionResponse")
        else:
            yield from self._spoken(message, ROLES[kind], place)

    def _spoken(self, message: dict[str, Any], role: str, place: str) -> Iterator[Item]:
        key = named(str(message.get("id") or self._seen.key(message)))
        origin = ImportedFrom(
            NAME, str(message.get("id") or ""), str(message.get("timestamp") or ""),
            {"model": message.get("model"), "usage": message.get("tokens")},
        )  # fmt: skip
        said = content_of(_thoughts(message.get("thoughts")) + _parts(message.get("content")))
        if key not in self._told and (said or role == "user"):
            self._told.add(key)
            yield turn(role, said, [], Spot(self._session, key, origin, place, self._calls))
        made = message.get("toolCalls")
        for number, call in enumerate(made if isinstance(made, list) else ()):
            if isinstance(call, dict):
                at = str(call.get("timestamp") or origin.at)
                yield from self._called(call, named(key, f"call-{number}"), ImportedFrom(NAME, origin.id, at), place)

    def _called(self, call: dict[str, Any], key: str, origin: ImportedFrom, place: str) -> Iterator[Item]:
        """A call as a turn of its own, and its result once there is one."""
        source = str(call.get("id") or "")
        wanted = ImportedCall(source, str(call.get("name") or ""), call.get("args"))
        made = turn("assistant", None, [wanted], Spot(self._session, key, origin, place, self._calls))
        if key not in self._told:
            self._told.add(key)
            yield made
        ended = named("result", key)
        if call.get("status") in ENDED and ended not in self._told:
            self._told.update((ended, named("answered", source)))
            content, failed = _result(call)
            yield ImportedResult(self._session, made.calls[0].id, content, origin, place, failed)

    def _repeats_results(self, content: Any) -> bool:
        """Whether a content is nothing but results that stand with their calls."""
        parts = content if isinstance(content, list) else []
        answers = [each.get("functionResponse") if isinstance(each, dict) else None for each in parts]
        return bool(answers) and all(
            isinstance(each, dict) and named("answered", str(each.get("id") or "")) in self._told for each in answers
        )

    def _noted(self, data: dict[str, Any], kind: str, place: str) -> ImportedEvent:
        key = named(str(data.get("id") or self._seen.key(data)))
        origin = ImportedFrom(NAME, str(data.get("id") or ""), str(data.get("timestamp") or ""))
        return ImportedEvent(self._session, key, f"{NAME}.{word(kind)}", data, origin, place)


def _result(call: dict[str, Any]) -> tuple[Any, bool]:
    """The result of a call, and whether it is an error."""
    failed = call.get("status") != "success"
    given = call.get("result")
    responses = [_response(each) for each in given] if isinstance(given, list) else []
    if len(responses) == 1 and _is_plain(responses[0]):
        return next(iter(responses[0].values())), failed
    if given in (None, []):
        return call.get("resultDisplay") or call.get("status"), failed
    return given if responses == [] or None in responses else responses, failed


def _response(part: Any) -> Any:
    inner = part.get("functionResponse") if isinstance(part, dict) else None
    return inner.get("response") if isinstance(inner, dict) else None


def _is_plain(response: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(response, dict) and len(response) == 1 and next(iter(response)) in ("output", "error")


def _thoughts(thoughts: Any) -> list[Any]:
    """Thoughts as the parts that other providers have for them."""
    found = [each for each in thoughts if isinstance(each, dict)] if isinstance(thoughts, list) else []
    texts = [": ".join(str(each[name]) for name in ("subject", "description") if each.get(name)) for each in found]
    return [{"type": "thinking", "thinking": text} for text in texts if text]


def _parts(content: Any) -> list[Any]:
    """The parts of a content: texts under the name that other providers have for them."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return [{"type": "text", "text": each["text"]} if _is_text(each) else each for each in parts]


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and set(part) == {"text"} and isinstance(part["text"], str)
