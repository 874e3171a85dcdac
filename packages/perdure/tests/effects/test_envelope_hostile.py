"""Hostile envelopes: whatever is wrong with one is a clear error, and nothing is changed (P10)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from effects import moving_agent as moving
from perdure import errors
from perdure.model.records.envelope import ENVELOPE_MAX_BYTES, VERSION, Envelope

WRONG: tuple[Any, ...] = (
    None, -1, 2**70, 1.5, True, "", "\0", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "x" * 2_000, [], [1], {},
    {"doc": 1}, {"~": ["type", ["x", 1, {}]]}, "in_doubt", "unsafe", "read", "0" * 32, "f" * 64,
)  # fmt: skip


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, bytes]]:
    """The envelope of a run that waits for a child; and its blobs."""
    world = str(tmp_path_factory.mktemp("world"))
    with perdure.open("memory:", actor="mover") as store:
        moving.finish(store, world, 4)
        envelope = store.runs(agent="move_house")[0].hand_over()
        return envelope.to_json(), store.artifacts_of(envelope)


def wrapped(body: Any, **changed: Any) -> bytes:
    """An envelope with its right digest, whatever is in it."""
    text = json.dumps(body, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest()
    outside = {"format": "perdure envelope", "version": VERSION, "digest": digest, **changed}
    return json.dumps(outside, separators=(",", ":")).encode()[:-1] + b',"envelope":' + text + b"}"


def try_to_adopt(data: Any, artifacts: dict[str, bytes]) -> bool:
    """Whether it was adopted. If not, nothing was written; if it was, the store is sound and the run can be read."""
    with perdure.open("memory:", actor="adopter") as store:
        try:
            run = store.adopt(data, artifacts)
        except errors.Error:
            assert not store.runs()
            assert store.verify().counts.events == 0
            return False
        assert store.verify().ok
        run.envelope()
        return True


def test_the_envelope_itself_is_adopted(sealed) -> None:
    assert try_to_adopt(*sealed)
    assert try_to_adopt(wrapped(json.loads(sealed[0])["envelope"]), sealed[1])


def test_one_altered_byte_is_noticed_wherever_it_is(sealed) -> None:
    data, artifacts = sealed
    dice = random.Random(7)
    for place in sorted(dice.sample(range(len(data)), 300)):
        altered = data[:place] + bytes([data[place] ^ (1 << dice.randrange(8))]) + data[place + 1 :]
        with pytest.raises((errors.Invalid, errors.Damaged)):
            Envelope.from_json(altered)
    assert not try_to_adopt(data[: len(data) // 2], artifacts)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON tree."""
    yield path
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, child in children:
        yield from places(child, (*path, name))


def put(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(tree))
    if not path:
        return value
    holder = copy
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    return copy


def test_wrong_values_with_a_right_digest(sealed) -> None:
    """Whoever alters an envelope and signs it anew gets an error of the tree, or a run that can be read."""
    body = json.loads(sealed[0])["envelope"]
    dice = random.Random(11)
    everywhere = list(places(body))
    outcomes = {
        try_to_adopt(wrapped(put(body, dice.choice(everywhere), dice.choice(WRONG))), sealed[1]) for _ in range(400)
    }
    assert outcomes == {True, False}


@pytest.mark.parametrize("part", ["steps", "effects", "waits", "signals", "children"])
def test_parts_of_the_wrong_type(sealed, part) -> None:
    body = json.loads(sealed[0])["envelope"]
    for wrong in ({}, [1], [{}], [None], "x", 7, [[]]):
        assert not try_to_adopt(wrapped({**body, part: wrong}), sealed[1])


@pytest.mark.parametrize(
    ("path", "wrong", "match"),
    [
        (("run", "status"), "asleep", "status"),
        (("run", "name"), "a\nb", "control"),
        (("run", "ended_at"), 5, "ended_at"),
        (("cursor", "cut"), 0, "checkpoint"),
        (("effects", 0, "kind"), "read", "only reads"),
        (("effects", 0, "meant"), {"doc": {"args": {}, "rule": {"timeout": "soon"}}}, "read back"),
        (("effects", 0, "undoes"), 999, "entry 999"),
        (("children",), [], "not in the envelope"),
        (("steps", 0, "meant"), {"doc": {"place": "x"}}, "read back"),
        (("checkpoint", "root"), "0" * 64, "not there"),
        (("surplus",), 1, "unknown field"),
    ],
)
def test_it_says_what_is_wrong(sealed, path, wrong, match) -> None:
    body = json.loads(sealed[0])["envelope"]
    with perdure.open("memory:", actor="adopter") as store:
        with pytest.raises((errors.Invalid, errors.Damaged), match=match):
            store.adopt(wrapped(put(body, path, wrong)), sealed[1])
        assert not store.runs()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "no envelope"),
        (b"{}", "no envelope"),
        (b"\xff\xfe", "no envelope"),
        (b"[" * 100_000, "no envelope"),
        (wrapped({}), "no envelope"),
        (wrapped({}, version=99), "version 99"),
        (wrapped({}, version="1"), "no envelope"),
        (wrapped({}, format="a letter"), "a letter"),
        (7, "expected the bytes"),
        (None, "expected the bytes"),
    ],
)
def test_what_is_no_envelope(data, match) -> None:
    with pytest.raises(errors.Invalid, match=match):
        Envelope.from_json(data)
    assert not try_to_adopt(data, {})


def test_a_huge_one_is_refused_unread() -> None:
    with pytest.raises(errors.TooLarge):
        Envelope.from_json(b" " * (ENVELOPE_MAX_BYTES + 1))


def test_deep_families_are_refused(sealed) -> None:
    text = b'{"children":[' * 2_000 + b"]}" * 2_000
    digest = hashlib.sha256(text).hexdigest().encode()
    head = b'{"format":"perdure envelope","version":1,"digest":"' + digest + b'","envelope":'
    assert not try_to_adopt(head + text + b"}", sealed[1])


def test_a_document_that_nests_deep(sealed) -> None:
    body = json.loads(sealed[0])["envelope"]
    deep: Any = 0
    for _ in range(400):
        deep = [deep]
    said = {**body["steps"][0]["meant"]["doc"], "value": deep}
    assert not try_to_adopt(wrapped(put(body, ("steps", 0, "meant"), {"doc": said})), sealed[1])
