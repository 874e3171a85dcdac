"""The state tree: what comes back, what a change costs, what damage shows."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.artifacts import chunks, tree
from perdure.errors import Damaged, Invalid, TooLarge

SIZES = (10, 1_000, 100_000)
COST_MEAN_BYTES = 9_000  # new bytes of one small change, on average over places, at any size
COST_MAX_BYTES = 24_000


class Nodes(dict[bytes, bytes]):
    """A store of nodes that counts how it is asked."""

    trips = 0
    asked = 0
    last: bytes | None = None  # the root of the state that was saved last

    def known(self, addresses: Collection[bytes]) -> set[bytes]:
        self.trips += 1
        self.asked += len(addresses)
        return {address for address in addresses if address in self}

    def fetch(self, addresses: Collection[bytes]) -> dict[bytes, bytes]:
        self.trips += 1
        return {address: self[address] for address in addresses if address in self}

    def save(self, state: Any) -> tree.Saved:
        saved = tree.save(state, self.known, self.last, self.fetch)
        self.update(saved.nodes)
        self.last = saved.root
        return saved

    def load(self, root: bytes) -> Any:
        return tree.load(root, self.fetch)

    def cost(self, state: Any) -> int:
        return new_bytes(self.save(state))


def new_bytes(saved: tree.Saved) -> int:
    return sum(map(len, saved.nodes.values()))


def exact(state: Any) -> bytes:
    """Equal only for states that are equal in every value, type and key order."""
    return msgspec.json.encode(state)


def words(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.ascii_letters + string.digits + " " * 8, k=length))


# What comes back

texts = st.text(max_size=30)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=8) | st.dictionaries(texts, inner, max_size=8)


small = st.recursive(scalars, containers, max_leaves=6)
bulk = (  # long enough to be cut
    st.builds(lambda text, times: text * times, texts, st.integers(40, 800))
    | st.builds(lambda items, times: items * times, st.lists(small, max_size=4), st.integers(0, 300))
    | st.builds(lambda item, times: {f"k{n}": item for n in range(times)}, small, st.integers(0, 300))
)
states = st.recursive(small | bulk, containers, max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(states)
@example([])
@example({})
@example([[], {}, "", [[]], {"": {}}])
@example({"b": 1, "a": 1.0, "c": True, "": None, "z": -0.0, "y": 1e308, "x": 5e-324, "w": -(2**63)})
@example(["é" * 5_000, "\U0001f600" * 3_000, "\x00" * 9_000, "字" * 20_000])
@example([1, 1.0, True, 0, 0.0, -0.0, False, None] * 2_000)
def test_every_state_comes_back_exactly(state: Any) -> None:
    nodes = Nodes()
    saved = nodes.save(state)
    assert exact(nodes.load(saved.root)) == exact(state)
    assert tree.reachable([saved.root], nodes.fetch) == nodes.keys() == saved.nodes.keys()
    assert saved.total_bytes == new_bytes(saved)
    assert nodes.save(state) == tree.Saved(saved.root, {}, {saved.root}, saved.total_bytes)


def test_control_the_comparison_sees_types_signs_and_order() -> None:
    for one, other in [(1, 1.0), (1, True), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]:
        assert one == other
        assert exact(one) != exact(other)


def test_different_states_have_different_roots() -> None:
    alike: list[Any] = [
        1,
        1.0,
        True,
        "1",
        [1],
        {"1": 1},
        0.0,
        -0.0,
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        [],
        {},
        "",
    ]
    alike += [[item] * 3_000 for item in alike]
    assert len({Nodes().save(state).root for state in alike}) == len(alike)


def test_equal_parts_come_back_as_separate_objects() -> None:
    part = {"text": "x" * 5_000, "list": list(range(2_000))}
    nodes = Nodes()
    loaded = nodes.load(nodes.save([part, part]).root)
    loaded[0]["list"].append("changed")
    assert loaded[1] == part


@pytest.mark.parametrize("padding", ["", "x" * 700, "x" * 1_500])
def test_a_value_nested_as_deep_as_tags_can_nest_it_comes_back(padding: str) -> None:
    state: Any = None
    for depth in range(100):
        state = {"$": ["type", ["T", depth, {"next": state, "padding": padding}]]}
    nodes = Nodes()
    assert exact(nodes.load(nodes.save(state).root)) == exact(state)


def test_what_cannot_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in (2**64, object(), ["\ud800"]):
        with pytest.raises(Invalid):
            Nodes().save(state)
    monkeypatch.setattr(tree, "VALUE_MAX_BYTES", 10_000)
    with pytest.raises(TooLarge):
        Nodes().save("x" * 10_001)


# The same root everywhere


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 5))
def test_the_root_does_not_depend_on_history(changes: list[int], seed: int) -> None:
    rng = random.Random(seed)
    nodes = Nodes()
    state = [words(rng, rng.randrange(400)) for _ in range(60)]
    for place in changes:
        state.insert(place, words(rng, place * 10))
        del state[place // 2]
        nodes.save(state)
    assert nodes.save(state).root == Nodes().save(state).root


def golden_states() -> dict[str, Any]:
    rng = random.Random("golden")
    return {
        "empty": {},
        "small": {"b": [1, 1.0, True, None, "é"], "a": -0.0},
        "list": [{"id": n, "name": f"n{n}"} for n in range(30_000)],
        "map": {f"key {n}": n / 7 for n in range(5_000)},
        "text": words(rng, 300_000),
        "mixed": {
            "turns": [{"role": "user", "content": words(rng, 2_000)} for _ in range(50)],
            "flags": [False] * 9_999,
        },
    }


GOLDEN = {
    "empty": "29130f0bb9f0f59e8c87f31707e701bbba35ace060a958c51413ba35a33da40c",
    "small": "1728d23e1acd221281c85fc010dbd5874277b60f72cce534c32619d6498f2545",
    "list": "67ea93347ea474caeb215c40c7c647b1141d2cafb7df120a0c8df5f35b1acd8a",
    "map": "159766488b11bdd92e31f2c0c97c76961470242aaa24e0673984c0614780c47a",
    "text": "60c71557cde84f3737dbec7d30d2a354f9742bfe044a8b05a36f36326c6df349",
    "mixed": "355628db90be0617a8d4adefeae3385fc351436de667ae1edc7c496da33742da",
}


@pytest.mark.parametrize("name", golden_states())
def test_the_format_stands(name: str) -> None:
    """Another root here would make every stored checkpoint a stranger to the next: add a format instead."""
    assert Nodes().save(golden_states()[name]).root.hex() == GOLDEN[name]


def test_control_another_chunk_size_is_another_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PARTS_MIN_BYTES", chunks.PARTS_MIN_BYTES * 2)
    assert Nodes().save(golden_states()["list"]).root.hex() != GOLDEN["list"]


# What a change costs

Change = Callable[[list[Any], int], None]
CHANGES: dict[str, Change] = {
    "append": lambda items, _: items.append(("new", "a new item")),
    "insert": lambda items, place: items.insert(place, ("new", "a new item")),
    "edit": lambda items, place: items.__setitem__(place, (items[place][0], "an edited item")),
    "delete": lambda items, place: items.pop(place),
}
SHAPES: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda items: [{"id": key, "text": text} for key, text in items],
    "map": dict,
    "nested": lambda items: {"a": {"b": [{"log": [text for _, text in items]}, "beside"]}, "c": 1},
    "text": lambda items: "".join(text for _, text in items),
}


@lru_cache
def pairs(size: int) -> list[tuple[str, str]]:
    rng = random.Random(size)
    return [(f"k{n}", words(rng, 20)) for n in range(size)]


def costs(shape: str, change: str, size: int) -> list[int]:
    """New bytes of one change, at a few places each."""
    nodes = Nodes()
    nodes.save(SHAPES[shape](pairs(size)))
    found: list[int] = []
    for place in (0, size // 3, size - 2):
        items = list(pairs(size))
        CHANGES[change](items, place)
        found.append(new_bytes(tree.save(SHAPES[shape](items), nodes.known, nodes.last, nodes.fetch)))
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_change_costs_the_same_at_every_size(shape: str, change: str, size: int) -> None:
    found = costs(shape, change, size)
    assert max(found) <= COST_MAX_BYTES
    assert sum(found) / len(found) <= COST_MEAN_BYTES


def by_position(parts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    for start in range(0, len(parts), 40):
        yield start, min(start + 40, len(parts))


def text_by_position(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), 4_096):
        yield text[start : start + 4_096]


@pytest.mark.parametrize("change", ["insert", "delete"])
@pytest.mark.parametrize("shape", SHAPES)
def test_control_cutting_by_position_breaks_the_law(shape: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "cut_parts", by_position)
    monkeypatch.setattr(tree, "cut_text", text_by_position)
    assert max(costs(shape, change, 20_000)) > 10 * COST_MAX_BYTES
    assert max(costs(shape, "append", 20_000)) <= COST_MAX_BYTES


def test_a_growing_string_costs_what_is_appended() -> None:
    rng = random.Random(7)
    nodes, text, spent = Nodes(), words(rng, 500_000), 0
    nodes.save({"log": text})
    for _ in range(50):
        text += words(rng, 200)
        spent += nodes.cost({"log": text})
    assert spent / 50 <= 200 + 8_000


@pytest.mark.parametrize("item", [0, "", None, {"state": "pending", "detail": "nothing yet"}, "x" * 900, "x" * 5_000])
def test_equal_elements_cost_little_and_stay_bounded(item: Any) -> None:
    nodes = Nodes()
    count = 20_000 if len(str(item)) < 1_000 else 5_000
    state = [item] * count
    saved = nodes.save(state)
    assert saved.total_bytes <= 30_000
    assert max(map(len, saved.nodes.values())) <= chunks.TEXT_MAX_BYTES + 1
    for place in (0, count // 2 + 1, count):
        changed = [*state[:place], "another", *state[place:]]
        assert nodes.cost(changed) <= COST_MAX_BYTES
    assert nodes.load(saved.root) == state


def few_distinct_cost() -> int:
    """New bytes of an insertion in front of random flags: elements that alone say nothing about the place."""
    rng = random.Random(3)
    flags = [rng.random() < 0.5 for _ in range(100_000)]
    nodes = Nodes()
    nodes.save(flags)
    return nodes.cost([True, True, False, *flags])


def test_a_list_of_few_distinct_elements_keeps_the_law() -> None:
    assert few_distinct_cost() <= COST_MAX_BYTES


def by_element_alone(parts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """As `cut_parts`, but without the rolling mix."""
    start = size = 0
    for place, part in enumerate(parts, 1):
        size += len(part)
        if size >= 512 and (crc32(part) < len(part) * (2**32 // 1_024) or size >= 6_144):
            yield start, place
            start, size = place, 0
    if start < len(parts):
        yield start, len(parts)


def test_control_a_boundary_by_one_element_alone_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "cut_parts", by_element_alone)
    assert few_distinct_cost() > 4 * COST_MAX_BYTES


def conversation(steps: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(400)
    state: dict[str, Any] = {"turns": []}
    for _ in range(steps):
        state["turns"].append(words(rng, 2_048))
        yield state


def test_400_checkpoints_of_a_growing_conversation() -> None:
    nodes = Nodes()
    saves = [nodes.save(state) for state in conversation(400)]
    assert sum(map(new_bytes, saves)) <= 1_700_000
    assert sum(len(saved.nodes) for saved in saves) <= 3.2 * 400
    assert nodes.trips <= 3.2 * 400
    assert nodes.asked <= 100 * 400


def test_control_whole_states_would_cost_the_square() -> None:
    assert sum(len(exact(state)) for state in conversation(400)) > 160_000_000


def test_a_large_state_is_read_in_few_trips_and_asked_about_in_few() -> None:
    nodes = Nodes()
    state = SHAPES["list"](pairs(100_000))
    root = nodes.save(state).root
    nodes.trips = nodes.asked = 0
    assert nodes.load(root) == state
    assert nodes.trips <= 5
    nodes.trips = 0
    nodes.save([*state, "one more"])
    assert nodes.trips <= 5
    assert nodes.asked <= 600


def test_a_save_over_an_unrelated_base_looks_at_no_more_of_it_than_it_has_itself() -> None:
    nodes = Nodes()
    nodes.save(SHAPES["list"](pairs(100_000)))
    fetched: list[int] = []

    def fetch(addresses: Collection[bytes]) -> dict[bytes, bytes]:
        fetched.append(len(addresses))
        return nodes.fetch(addresses)

    saved = tree.save({"small": "state"}, nodes.known, nodes.last, fetch)
    assert saved.nodes.keys() == {saved.root}
    assert sum(fetched) <= 1 + tree.LINKS_MAX


def test_a_base_that_cannot_be_read_is_not_built_upon() -> None:
    nodes = Nodes()
    state = SHAPES["list"](pairs(2_000))
    root = nodes.save(state).root
    lost = tree.children(nodes[root])[0]
    del nodes[root], nodes[lost]
    state.append("one more")
    assert nodes.load(nodes.save(state).root) == state


def test_pieces_keep_their_sizes() -> None:
    rng = random.Random(11)
    text = words(rng, 400_000).encode()
    pieces = list(chunks.cut_text(text))
    assert b"".join(pieces) == text
    assert all(chunks.TEXT_MIN_BYTES <= len(piece) <= chunks.TEXT_MAX_BYTES for piece in pieces[:-1])
    assert 3_000 <= len(text) / len(pieces) <= 7_000
    parts = [words(rng, rng.randrange(200)).encode() for _ in range(5_000)]
    runs = list(chunks.cut_parts(parts))
    assert [place for start, stop in runs for place in range(start, stop)] == list(range(5_000))
    sizes = [sum(map(len, parts[start:stop])) for start, stop in runs[:-1]]
    assert all(chunks.PARTS_MIN_BYTES <= size <= chunks.PARTS_MAX_BYTES + 200 for size in sizes)


# What is pruned and what is kept


def test_what_is_kept_reads_back_after_a_prune() -> None:
    rng = random.Random(5)
    nodes, state = Nodes(), {"turns": [], "files": {}, "log": ""}
    kept: dict[bytes, bytes] = {}
    for step in range(60):
        state["turns"].append({"n": step, "text": words(rng, rng.choice([20, 800, 3_000]))})
        state["files"][f"f{rng.randrange(20)}"] = words(rng, 1_500)
        state["log"] += words(rng, 300)
        root = nodes.save(state).root
        if step % 7 == 0:
            kept[root] = exact(state)
    before = len(nodes)
    reached = tree.reachable(kept, nodes.fetch)
    for address in nodes.keys() - reached:
        del nodes[address]
    assert len(nodes) < before
    assert {root: exact(nodes.load(root)) for root in kept} == kept


def test_control_a_prune_of_one_node_too_many_shows() -> None:
    full = Nodes()
    root = full.save(small_tree()).root
    for address in full:
        nodes = Nodes({other: node for other, node in full.items() if other != address})
        with pytest.raises(Damaged, match=address.hex()):
            nodes.load(root)


def test_children_are_what_reachable_follows() -> None:
    nodes = Nodes()
    root = nodes.save(small_tree()).root
    found, waiting = set(), [root]
    while waiting:
        address = waiting.pop()
        found.add(address)
        waiting += tree.children(nodes[address])
    assert found == tree.reachable([root], nodes.fetch) == nodes.keys()


def test_reachable_reads_no_text() -> None:
    nodes = Nodes()
    root = nodes.save({"text": words(random.Random(1), 100_000), "n": list(range(2_000))}).root
    inner = Nodes({address: node for address, node in nodes.items() if node[:1] != b"T"})
    assert len(inner) < len(nodes)
    assert tree.reachable([root], inner.fetch) == nodes.keys()


# Damage


def small_tree() -> dict[str, Any]:
    rng = random.Random(9)
    return {
        "list": [words(rng, 60) for _ in range(40)],
        "map": {f"k{n}": n for n in range(200)},
        "t": "é" * 700,
    }


def test_a_change_of_any_byte_is_damage() -> None:
    nodes = Nodes()
    root = nodes.save(small_tree()).root
    assert {node[:1] for node in nodes.values()} == {b"V", b"L", b"M", b"T"}
    for address, node in list(nodes.items()):
        for place in range(len(node)):
            nodes[address] = node[:place] + bytes([node[place] ^ 1]) + node[place + 1 :]
            with pytest.raises(Damaged, match=address.hex()):
                nodes.load(root)
        nodes[address] = node
    assert nodes.load(root) == small_tree()


def put(nodes: Nodes, node: bytes) -> bytes:
    address = sha256(node).digest()
    nodes[address] = node
    return address


def stub(kind: bytes, level: int, *links: bytes) -> bytes:
    return msgspec.msgpack.encode(kind + bytes([level]) + b"".join(links))


def test_control_it_is_the_address_that_shows_the_damage() -> None:
    nodes = Nodes()
    piece = put(nodes, b"T" + b"forged")
    assert nodes.load(put(nodes, b"V" + stub(b"T", 0, piece))) == "forged"


MALFORMED: list[bytes] = [
    b"",
    b"V",
    b"X\xc0",
    b"v\xc0",
    b"V\xc0\xc0",
    b"V\xc1",
    b"V\xdd\xff\xff\xff\xff",
    b"V\xdf\xff\xff\xff\xff",
    b"V\xc6\xff\xff\xff\xff",
    b"V" + b"\x91" * 100_000 + b"\xc0",
    b"V" + b"\x91" * 700 + b"\xc0",
    b"V\x81\x01\x02",
    b"V\x81\x90\xc0",
    b"V\x81\x80\xc0",
    b"V\x81\xc4\x01a\xc0",
    b"V\xa2\xff\xff",
    b"V\xd6\xff\0\0\0\0",
    b"V\xd4\x05a",
    b"V\xc4\x00",
    b"V\xc4\x02L\0",
    b"V" + stub(b"L", 0, b"short"),
    b"V" + stub(b"Q", 0, bytes(32)),
    b"V" + stub(b"L", 200, bytes(32)),
    b"V" + stub(b"L", 0, bytes(32)),
]


@pytest.mark.parametrize("node", MALFORMED, ids=lambda node: node[:12].hex() + f"-{len(node)}")
def test_a_hostile_root_is_damage(node: bytes) -> None:
    nodes = Nodes()
    root = put(nodes, node)
    with pytest.raises(Damaged):
        nodes.load(root)
    with pytest.raises(Damaged):
        tree.reachable([root], nodes.fetch)


def test_a_node_in_the_wrong_place_is_damage() -> None:
    nodes = Nodes()
    value, leaf, text = put(nodes, b"V\xc0"), put(nodes, b"L\x91\xc0"), put(nodes, b"T\xff")
    index = put(nodes, b"IL\x00" + leaf)
    not_a_list = put(nodes, b"L\x80")
    for cell in [
        stub(b"L", 0, value),
        stub(b"M", 0, leaf),
        stub(b"T", 0, text),
        stub(b"L", 0, index),
        stub(b"L", 2, index),
        stub(b"M", 1, index),
        stub(b"L", 1, leaf),
        stub(b"L", 0, not_a_list),
    ]:
        with pytest.raises(Damaged):
            nodes.load(put(nodes, b"V" + cell))
    for root in (leaf, index, text):
        with pytest.raises(Damaged):
            nodes.load(root)
    assert nodes.load(put(nodes, b"V" + stub(b"L", 1, index, index))) == [None, None]


def test_a_chain_deeper_than_any_state_is_damage() -> None:
    nodes = Nodes()
    cell = b"\xc0"
    for _ in range(tree.DEPTH_MAX + 1):
        cell = stub(b"L", 0, put(nodes, b"L\x91" + cell))
    with pytest.raises(Damaged, match="deeper"):
        nodes.load(put(nodes, b"V" + cell))


@pytest.mark.parametrize("kind", [b"L", b"I"])
def test_a_small_tree_that_unfolds_without_end_is_damage(kind: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "LOAD_MAX_BYTES", 1_000_000)
    nodes = Nodes()
    link = put(nodes, b"L\x91\xc0")
    for level in range(tree.LEVEL_MAX):
        leaf = b"L\xdc\x00\x20" + stub(b"L", 0, link) * 32
        link = put(nodes, leaf if kind == b"L" else b"IL" + bytes([level]) + link * 32)
    root = put(nodes, b"V" + stub(b"L", 0 if kind == b"L" else tree.LEVEL_MAX, link))
    with pytest.raises(Damaged, match="larger"):
        nodes.load(root)
    assert len(tree.reachable([root], nodes.fetch)) == tree.LEVEL_MAX + 2


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([b"V", b"L", b"M", b"I", b"T", b""]), st.binary(max_size=80))
def test_any_bytes_give_a_state_or_damage(kind: bytes, body: bytes) -> None:
    nodes = Nodes()
    inner = put(nodes, kind + body)
    outer = put(nodes, b"V" + stub(kind or b"L", 0, inner))
    for root in (inner, outer):
        with suppress(Damaged):
            nodes.load(root)
        with suppress(Damaged):
            tree.reachable([root], nodes.fetch)
        with suppress(Damaged):
            tree.children(nodes[root])


@pytest.mark.parametrize("count", [0, 3, 5_000])
def test_the_names_under_a_name_are_read_without_what_they_lead_to(count: int) -> None:
    nodes = Nodes()
    texts = {f"channel {number}": "x" * 20_000 for number in range(min(count, 3))}
    state = {"rest": ["y" * 50_000], "values": texts | {f"small {number}": number for number in range(count)}}
    saved = nodes.save(state)
    whole = len(tree.reachable([saved.root], nodes.fetch))
    seen: set[bytes] = set()

    def fetch(addresses: Collection[bytes]) -> dict[bytes, bytes]:
        seen.update(addresses)
        return nodes.fetch(addresses)

    assert tree.load_keys(saved.root, fetch, "values") == state["values"].keys()
    assert len(seen) < whole
    assert tree.load_keys(saved.root, fetch, "rest") == tree.load_keys(saved.root, fetch, "nobody") == set()
