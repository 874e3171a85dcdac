from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.log import chain
from perdure.log.chain import AHEAD_EVENTS, Break, BreakKind, Chain
from perdure.log.event import GENESIS, Event, commit_to, hash_event

UID = bytes(range(16))


def make(count: int, first: int = 1, previous: bytes = GENESIS) -> list[Event]:
    events = []
    for seq in range(first, first + count):
        salt, body = bytes([seq % 256] * 16), b'{"op":"note"}'
        event = Event(seq, "a.b", "turns", "me", 7, 1, commit_to(salt, body), b"", salt, body)
        event = msgspec.structs.replace(event, hash=hash_event(UID, event, previous))
        previous = event.hash
        events.append(event)
    return events


def check(events: list[Event], head: Event | None = None, first: int = 1, previous: bytes = GENESIS) -> list[Break]:
    checked = Chain(UID, first, previous)
    assert [*checked.follow(events)] == events
    last = head or events[-1]
    checked.end(last.seq, last.hash)
    return checked.breaks


def found(breaks: list[Break]) -> list[tuple[BreakKind, int]]:
    return [(it.kind, it.seq) for it in breaks]


def edited(events: list[Event], place: int, **fields) -> list[Event]:
    return [*events[:place], msgspec.structs.replace(events[place], **fields), *events[place + 1 :]]


def swapped(events: list[Event], left: int, right: int) -> list[Event]:
    moved = list(events)
    moved[left] = msgspec.structs.replace(events[right], seq=events[left].seq)
    moved[right] = msgspec.structs.replace(events[left], seq=events[right].seq)
    return moved


@pytest.mark.parametrize("count", [1, 2, 5, AHEAD_EVENTS, AHEAD_EVENTS + 1, 300])
def test_an_untouched_chain_holds(count: int) -> None:
    assert check(make(count)) == []


def test_a_fork_goes_on_from_its_parents_event() -> None:
    parent = make(4)
    fork = make(3, first=4, previous=parent[2].hash)
    assert check(fork, first=4, previous=parent[2].hash) == []
    assert found(check(fork, first=4, previous=parent[1].hash)) == [(BreakKind.ALTERED, 4)]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "a.c"},
        {"table": "tasks"},
        {"actor": "you"},
        {"at": 8},
        {"at": -8},
        {"codec": 2},
        {"codec": 2**40},
        {"hash": bytes(32)},
        {"kind": "k" * 70_000},
    ],
)
@pytest.mark.parametrize("place", [0, 3, 8, 9])
def test_an_edited_header_is_named_once(fields: dict, place: int) -> None:
    events = make(10)
    assert found(check(edited(events, place, **fields), head=events[-1])) == [(BreakKind.ALTERED, place + 1)]


def test_control_without_the_link_an_edited_header_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.Chain, "_follows", lambda *_: True)
    assert check(edited(make(10), 3, kind="a.c")) == []


@pytest.mark.parametrize("fields", [{"body": b"{}"}, {"salt": bytes(16)}, {"salt": None}])
def test_an_edited_body_or_salt_is_named(fields: dict) -> None:
    assert found(check(edited(make(10), 3, **fields))) == [(BreakKind.BODY_ALTERED, 4)]


def test_an_edited_commitment_is_named() -> None:
    breaks = found(check(edited(make(10), 3, commitment=bytes(32))))
    assert breaks == [(BreakKind.ALTERED, 4), (BreakKind.BODY_ALTERED, 4)]


def test_emptied_bodies_are_left_to_the_caller() -> None:
    checked = Chain(UID, 1, GENESIS)
    events = edited(make(5), 2, body=None, salt=None)
    assert len([*checked.follow(events)]) == 5
    assert (checked.breaks, checked.emptied) == ([], [3])


@pytest.mark.parametrize("place", range(9))
def test_a_deleted_event_is_named(place: int) -> None:
    events = make(10)
    assert found(check(events[:place] + events[place + 1 :])) == [(BreakKind.MISSING, place + 1)]


def test_a_tail_that_the_head_still_names_is_missed() -> None:
    events = make(10)
    breaks = check(events[:7], head=events[-1])
    assert found(breaks) == [(BreakKind.MISSING, 8)]
    assert "8 to 10" in breaks[0].message


def test_a_tail_cut_with_its_head_cannot_show_here() -> None:
    """That is what anchors are for."""
    assert check(make(10)[:7]) == []


@pytest.mark.parametrize(("left", "right"), [(0, 1), (3, 4), (8, 9), (2, 7), (0, 9)])
def test_a_moved_pair_is_named_at_both_places(left: int, right: int) -> None:
    events = make(10)
    moved = [(BreakKind.MOVED, left + 1), (BreakKind.MOVED, right + 1)]
    assert found(check(swapped(events, left, right), head=events[-1])) == moved


def test_a_head_that_lies_is_named() -> None:
    events = make(5)
    assert found(check(events, head=events[3])) == [(BreakKind.HEAD, 5)]
    lying = msgspec.structs.replace(events[4], hash=bytes(32))
    assert found(check(events, head=lying)) == [(BreakKind.HEAD, 5)]


def test_a_repeated_number_is_named() -> None:
    events = make(5)
    assert (BreakKind.ALTERED, 3) in found(check([*events[:3], events[2], *events[3:]]))


@given(st.data())
def test_any_flipped_byte_is_found_at_its_event(data: st.DataObject) -> None:
    events = make(20)
    place = data.draw(st.integers(0, 19))
    field = data.draw(st.sampled_from(["commitment", "hash", "salt", "body"]))
    value = bytearray(getattr(events[place], field))
    value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    breaks = found(check(edited(events, place, **{field: bytes(value)}), head=events[-1]))
    assert {seq for _, seq in breaks} == {place + 1}
