"""Events as JSON: the same bytes come back, and whatever is not exactly the form is refused."""

from __future__ import annotations

import msgspec
import pytest

from perdure.errors import Damaged
from perdure.log.change import Stream
from perdure.log.event import Event, commit_to, hash_event
from perdure.log.written import (
    WrittenEvent,
    WrittenStream,
    decode,
    encode,
    event_read,
    event_written,
    name_of,
    stream_written,
)

UID = bytes(range(16))
NAMED = name_of(UID)
# Spaces and escapes are part of what was hashed.
BODY = '{"op":"insert","set":{"a":  1.0},"doc":"é\\u00e9 \\n"}'.encode()
EVENT = Event(3, "turn.said", "turns", "me", 17, 1, commit_to(UID, BODY), bytes(32), UID, BODY, UID)


def test_an_event_comes_back_to_the_byte() -> None:
    line = encode(event_written(NAMED, EVENT))
    assert b"\n" not in line
    back = event_read(decode(line, WrittenEvent, "line 1"), "line 1")
    assert back == EVENT
    assert hash_event(UID, back, bytes(32)) == hash_event(UID, EVENT, bytes(32))


def test_an_event_without_its_body_comes_back_without_it() -> None:
    bare = msgspec.structs.replace(EVENT, body=None, salt=None)
    line = encode(event_written(NAMED, bare))
    assert b"body" not in line
    assert event_read(decode(line, WrittenEvent, "line 1"), "line 1") == bare


def test_a_fork_names_its_parent() -> None:
    written = stream_written(Stream(7, UID, 1, "session", "try", 3, 12), NAMED, "default", name_of(bytes(16)))
    assert decode(encode(written), WrittenStream, "line 1") == written
    assert (written.parent, written.fork) == ("0" * 32, 12)


@pytest.mark.parametrize("body", [b'{"a":\n1}', b'{"a":\r1}'])
def test_a_body_that_would_break_its_line_is_refused(body: bytes) -> None:
    with pytest.raises(Damaged, match="cannot be written as a line"):
        event_written(NAMED, msgspec.structs.replace(EVENT, body=body))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", 0), ("seq", 2**63), ("at", 2**63), ("codec", 2), ("hash", "ab"), ("hash", "G" * 64),
        ("hash", "AB" * 32), ("tx", ""), ("salt", ""), ("commitment", " " * 64), ("more", 1), ("body", None),
    ],
)  # fmt: skip
def test_what_is_not_exactly_the_form_is_damaged(field: str, value: object) -> None:
    fields = msgspec.json.decode(encode(event_written(NAMED, EVENT))) | {field: value}
    with pytest.raises(Damaged):
        event_read(decode(msgspec.json.encode(fields), WrittenEvent, "line 9"), "line 9")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"seq":1}', b"\xff", b"[" * 9999])
def test_hostile_lines_are_damaged_and_named(line: bytes) -> None:
    with pytest.raises(Damaged) as caught:
        decode(line, WrittenEvent, "line 9")
    assert "line 9" in str(caught.value)
