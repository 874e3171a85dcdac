"""The state tree: a whole state is saved each time, and only what changed costs anything.

A state (the plain JSON tree that `model.values.to_plain` gives) is cut into content-addressed nodes. Equal
parts have equal addresses: two checkpoints share all nodes but those on the way to a change. The same state
has the same root on every machine, whatever came before it. Pure: the caller brings reading and writing.
Called by the recovery plane for checkpoints. Keeps P6 (a node is verified by its address), P8, P10, P15.

FORMAT 1 (fixed: roots are recorded in events; a change needs new kind bytes)

    address  = sha256(node), 32 raw bytes
    node     = kind byte, then
      "V"    one cell: the state itself; only a root is one
      "L"    msgpack array of cells: a run of elements of a long list
      "M"    msgpack map of cells: a run of entries of a long map, in insertion order
      "T"    raw UTF-8: a piece of a long string (a character may lie across two pieces)
      "I"    a stub: a run of links of a long stub
    cell     = msgpack of a value in its shortest form (float64 for every float), where any value inside may
               be replaced by a stub, written as msgpack bin (JSON has no bin: nothing needs escaping)
    stub     = "L", "M" or "T", then a level byte, then one or more addresses ("links"). At level 0 they lead
               to leaves of that kind, at level n to "I" nodes whose stub has that kind and level n - 1

How a value becomes a cell: encoded in at most 1024 bytes, it stays as it is. Else a string is cut by
`chunks.cut_text` into "T" leaves; of a list or map each child is made a cell (keys stay as they are), and if
all of them fit into 1024 bytes the container stays inline, else `chunks.cut_parts` groups them into "L" or
"M" leaves. While there are more than 16 links, `cut_parts` groups them into "I" nodes one level up. The
numbers of `chunks` and the two here are part of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import sha256
from operator import add
from typing import Any, NamedTuple

import msgspec

from perdure.artifacts.chunks import cut_parts, cut_text
from perdure.artifacts.place import RESTORE, name_of
from perdure.errors import Damaged, Invalid, TooLarge
from perdure.model.limits import VALUE_MAX_BYTES, VALUE_MAX_DEPTH

Known = Callable[[Collection[bytes]], set[bytes]]
Fetch = Callable[[Collection[bytes]], Mapping[bytes, bytes]]

ADDRESS_BYTES = 32
INLINE_MAX_BYTES = 1_024  # FORMAT: a larger value becomes nodes of its own
LINKS_MAX = 16  # FORMAT: a stub with more gets another level

# Bounds on the cost of a hostile tree, which is refused beyond them; nothing that `save` makes comes near.
LEVEL_MAX = 8
DEPTH_MAX = 5 * VALUE_MAX_DEPTH  # a tagged value is up to four boxes deep
LOAD_MAX_BYTES = 2 * VALUE_MAX_BYTES

_VALUE, _LIST, _MAP, _TEXT, _INDEX = b"V", b"L", b"M", b"T", b"I"
_HOLDS: dict[bytes, type] = {_VALUE: object, _LIST: list, _MAP: dict}
_STUBS = frozenset({_LIST, _MAP, _TEXT})
_RAW = frozenset({_TEXT, _INDEX})
_SCALARS = frozenset({type(None), bool, int, float, str})
_CELLS = _SCALARS | {list, dict, bytes}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of a save: the root's address, the nodes to write, those that are stored, and the size of all nodes."""

    root: bytes
    nodes: dict[bytes, bytes]
    stored: set[bytes]
    total_bytes: int


def save(state: Any, find_stored: Known, base: bytes | None = None, fetch: Fetch | None = None) -> Saved:
    """Cut `state`, which `to_plain` gave, into nodes; `nodes` holds those that are not stored yet.

    `find_stored` answers which of some addresses are stored. That a node is stored says nothing of what it leads to: a
    collector may be half done, and a file that somebody attached may look like a node. So every node is asked for by itself,
    except below one that it shares with `base`, the root of a state that is kept whole (`fetch` reads it).

    Pure and deterministic: nothing is written, saving again gives the same root. Raises `TooLarge` past VALUE_MAX_BYTES,
    `Invalid` for what msgpack cannot hold.
    """
    growing = Growing()
    try:
        root = growing.grow(state)
    except (OverflowError, TypeError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid(f"not a plain state: {error}", path="state") from error
    total_bytes = sum(map(len, growing.nodes.values()))
    shared = growing.shared(base, fetch) if base is not None and fetch is not None else set[bytes]()
    nodes, stored = growing.unknown(root, shared, find_stored)
    return Saved(root, nodes, stored, total_bytes)


class _Box(NamedTuple):
    """A large list or map whose children are being made cells; those that are large themselves wait."""

    kind: bytes
    keys: list[bytes]
    cells: list[bytes]
    waiting: list[tuple[int, Any]]
    is_plain: bool


class Growing:
    """The nodes of one state, made from the leaves up; `ends` are addresses known to lead nowhere."""

    __slots__ = ("ends", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[bytes, bytes] = {}
        self.ends: set[bytes] = set()

    def grow(self, state: Any) -> bytes:
        """Cut a whole state; returns the address of its root."""
        encoded = _encode(state)
        if len(encoded) > VALUE_MAX_BYTES:
            raise TooLarge(f"{len(encoded)} bytes, at most {VALUE_MAX_BYTES} are kept", path="state")
        return self._put(_VALUE + (encoded if len(encoded) <= INLINE_MAX_BYTES else self._large(state)))

    @staticmethod
    def encoded(value: Any) -> bytes:
        """A value as it would lie in a node if it were small enough; for `parts`, like the four below."""
        try:
            return _encode(value)
        except (OverflowError, TypeError, UnicodeEncodeError, RecursionError) as error:
            raise Invalid(f"not a plain state: {error}", path="state") from error

    def cell(self, value: Any) -> bytes:
        """The cell of one value, as a node that holds it has it."""
        encoded = self.encoded(value)
        return encoded if len(encoded) <= INLINE_MAX_BYTES else self._large(value)

    def text_leaves(self, text: str) -> list[bytes]:
        """The leaves of a long text; returns their addresses. They are those that it has inside a state."""
        return [self._put(_TEXT + piece) for piece in cut_text(text.encode())]

    def list_leaf(self, cells: Sequence[bytes]) -> bytes:
        """A leaf of a list; returns its address."""
        return self._put(_LIST + _container_bytes(_LIST, cells))

    def list_index(self, level: int, links: list[bytes]) -> bytes:
        """A node over leaves of a list, or over such nodes of the level below; returns its address."""
        return self._put(_INDEX + _LIST + bytes([level]) + b"".join(links))

    @staticmethod
    def list_stub(level: int, links: list[bytes]) -> bytes:
        """The cell of a list over what these links lead to."""
        return _encode(_LIST + bytes([level]) + b"".join(links))

    def _put(self, node: bytes) -> bytes:
        address = sha256(node).digest()
        self.nodes[address] = node
        return address

    def _large(self, value: Any) -> bytes:
        """The cell of a large value. A loop, because tags nest a value deeper than Python likes to recur."""
        top = _Box(_LIST, [], [b""], [(0, value)], is_plain=False)
        boxes = [top]
        while top.waiting:
            box = boxes[-1]
            if not box.waiting:
                boxes.pop()
                self._settle(boxes[-1], self._container(box))
            elif isinstance(child := box.waiting[-1][1], str):
                pieces = [_TEXT + piece for piece in cut_text(child.encode())]
                self._settle(box, self._stub(_TEXT, pieces, is_plain=True))
            else:
                boxes.append(_box(child))
        return top.cells[0]

    @staticmethod
    def _settle(box: _Box, cell: bytes) -> None:
        place, _ = box.waiting.pop()
        box.cells[place] = cell

    def _container(self, box: _Box) -> bytes:
        kind = box.kind
        cells = list(map(add, box.keys, box.cells)) if kind == _MAP else box.cells
        if sum(map(len, cells)) <= INLINE_MAX_BYTES:
            return _container_bytes(kind, cells)
        leaves = [kind + _container_bytes(kind, cells[start:stop]) for start, stop in cut_parts(cells)]
        return self._stub(kind, leaves, is_plain=box.is_plain)

    def _stub(self, kind: bytes, leaves: list[bytes], *, is_plain: bool) -> bytes:
        links = list(map(self._put, leaves))
        if is_plain:
            self.ends.update(links)
        return self._over(kind, links)

    def _over(self, kind: bytes, links: list[bytes]) -> bytes:
        """The stub of these leaves, with as many levels between as it takes."""
        level = 0
        while len(links) > LINKS_MAX:
            head = _INDEX + kind + bytes([level])
            links = [self._put(head + b"".join(links[start:stop])) for start, stop in cut_parts(links)]
            level += 1
        return _encode(kind + bytes([level]) + b"".join(links))

    def shared(self, base: bytes, fetch: Fetch) -> set[bytes]:
        """The nodes that the state of `base` has too, the topmost ones; none when that cannot be read.

        Looks at what changed, and at no more nodes than this state has: another state may be larger, and have nothing in common.
        """
        shared_nodes: set[bytes] = set()
        visited = level = {base}
        try:
            while level and len(visited) <= len(self.nodes) + LINKS_MAX:
                shared_nodes |= level & self.nodes.keys()
                links = [_links(node, address) for address, node in _fetched(level - shared_nodes, fetch).items()]
                shared_nodes |= {end for _, ends in links for end in ends} & self.nodes.keys()
                level = {link for opened, _ in links for link in opened} - visited
                visited = visited | level
        except Damaged:
            return set()
        return shared_nodes

    def unknown(self, root: bytes, shared: set[bytes], find_stored: Known) -> tuple[dict[bytes, bytes], set[bytes]]:
        """The nodes below and with `root` that are not stored, and the addresses of those that are; nothing below `shared`."""
        needed = self.needed(root, shared)
        stored = find_stored(needed)
        return {address: self.nodes[address] for address in needed - stored}, stored

    def needed(self, root: bytes, shared: set[bytes]) -> set[bytes]:
        """The addresses below and with `root`, but not below `shared`."""
        addresses: set[bytes] = set()
        level = {root}
        while level:
            addresses |= level
            inner = level - self.ends - shared
            level = {link for address in inner for link in children(self.nodes[address])} - addresses
        return addresses


def _box(value: list[Any] | dict[str, Any]) -> _Box:
    is_map = isinstance(value, dict)
    values = list(value.values()) if is_map else value
    cells = list(map(_encode, values))
    waiting = [(place, values[place]) for place, cell in enumerate(cells) if len(cell) > INLINE_MAX_BYTES]
    keys = list(map(_encode, value)) if is_map else []
    return _Box(_MAP if is_map else _LIST, keys, cells, waiting, is_plain=not waiting)


def text_of(leaves: Sequence[bytes], address: bytes) -> str:
    """The text of these leaves, as `Growing.text_leaves` made them; `address` is that of the first."""
    if not leaves or any(leaf[:1] != _TEXT for leaf in leaves):
        raise _damaged("a piece of text was expected", address)
    return _joined(_TEXT, [leaf[1:] for leaf in leaves], address)


def list_cell(cells: Sequence[bytes]) -> bytes:
    """The cell of a list that stays inside its node."""
    return _container_bytes(_LIST, cells)


def _container_bytes(kind: bytes, cells: Sequence[bytes]) -> bytes:
    """A msgpack array or map of cells that are encoded already (a map's cell is a key and a value)."""
    count = len(cells)
    if count < 16:
        head = bytes([(0x90 if kind == _LIST else 0x80) | count])
    else:  # a run has at most PARTS_MAX_BYTES cells, so 16 bits always do
        head = (b"\xdc" if kind == _LIST else b"\xde") + count.to_bytes(2, "big")
    return head + b"".join(cells)


class _Stub(NamedTuple):
    kind: bytes
    level: int
    links: list[bytes]


class _Gap(NamedTuple):
    """A stub that was met, and the place that its value is to fill."""

    stub: _Stub
    holder: Any
    place: Any
    depth: int


def children(node: bytes) -> list[bytes]:
    """The addresses that `node` leads to, repeats included. Pure. Raises `Damaged` if it is no node."""
    opened, leaves = _links(node, sha256(node).digest())
    return opened + leaves


def reachable(roots: Iterable[bytes], fetch: Fetch, reached: AbstractSet[bytes] = frozenset()) -> set[bytes]:
    """All addresses that `roots` lead to, themselves included: what a prune must keep.

    Pure but for `fetch`, which is called once for each level. Pieces of text lead nowhere and are not read;
    neither is what is in `reached` already, nor what lies below it.
    Raises `Damaged` if a node is missing, altered or no node.
    """
    opened: set[bytes] = set()
    leaves: set[bytes] = set()
    level = set(roots) - reached
    while level:
        opened |= level
        links_and_ends = [_links(node, address) for address, node in _fetched(level, fetch).items()]
        leaves.update(leaf for _, ends in links_and_ends for leaf in ends)
        level = {link for links, _ in links_and_ends for link in links} - opened - reached
    return opened | leaves


def _links(node: bytes, address: bytes) -> tuple[list[bytes], list[bytes]]:
    """The links of a node: those to nodes, and those to pieces of text."""
    if node[:1] == _INDEX:
        stubs = [_stub_of(node[1:], address)]
    elif node[:1] == _TEXT:
        stubs = []
    else:
        stubs = [gap.stub for gap in _gaps([_cells(node, address)], 0, address)]
    ends = [link for stub in stubs if _leads_to_text(stub) for link in stub.links]
    return [link for stub in stubs if not _leads_to_text(stub) for link in stub.links], ends


def _leads_to_text(stub: _Stub) -> bool:
    return stub.kind == _TEXT and stub.level == 0


def _fetched(addresses: set[bytes], fetch: Fetch) -> dict[bytes, bytes]:
    """The nodes at `addresses`, each verified."""
    contents = fetch(addresses)
    nodes: dict[bytes, bytes] = {}
    for address in addresses:
        node = contents.get(address)
        if node is None:
            raise _damaged("the node is missing", address)
        if sha256(node).digest() != address:
            raise _damaged("the node is not what was written", address)
        nodes[address] = node
    return nodes


def _cells(node: bytes, address: bytes) -> Any:
    """The content of a node of kind V, L or M, its stubs still in it."""
    try:
        cells = _decode(node[1:])
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise _damaged(f"the node cannot be decoded: {error}", address) from None
    expected = _HOLDS.get(node[:1])
    if expected is None or not isinstance(cells, expected):
        raise _damaged("no node of a known kind", address)
    return cells


def _stub_of(encoded: bytes, address: bytes) -> _Stub:
    kind, links = encoded[:1], encoded[2:]
    if kind not in _STUBS or not links or len(links) % ADDRESS_BYTES or encoded[1] > LEVEL_MAX:
        raise _damaged("the node holds a malformed stub", address)
    starts = range(0, len(links), ADDRESS_BYTES)
    return _Stub(kind, encoded[1], [links[start : start + ADDRESS_BYTES] for start in starts])


def _gaps(box: list[Any] | dict[Any, Any], depth: int, address: bytes) -> list[_Gap]:
    """Check everything in `box`, and find the stubs that wait in it."""
    gaps: list[_Gap] = []
    boxes: list[tuple[Any, int]] = [(box, depth)]
    while boxes:
        box, depth = boxes.pop()
        if _is_flat(box, depth, address):
            continue
        for place, value in box.items() if isinstance(box, dict) else enumerate(box):
            if isinstance(value, bytes):
                gaps.append(_Gap(_stub_of(value, address), box, place, depth))
            elif isinstance(value, list | dict):
                boxes.append((value, depth + 1))
    return gaps


def _is_flat(box: list[Any] | dict[Any, Any], depth: int, address: bytes) -> bool:
    """Whether only scalars are directly in `box`; raises for what a state cannot hold."""
    if depth > DEPTH_MAX:
        raise _damaged(f"nested deeper than {DEPTH_MAX}", address)
    types = set(map(type, box.values() if isinstance(box, dict) else box))
    if not types <= _CELLS or (isinstance(box, dict) and not set(map(type, box)) <= {str}):
        raise _damaged("the node holds what no state can hold", address)
    return types <= _SCALARS


def _damaged(message: str, address: bytes) -> Damaged:
    return Damaged(message, path=name_of(address.hex()), hint=RESTORE)


def load(root: bytes, fetch: Fetch) -> Any:
    """The state that was saved as `root`: equal in every value, type and key order, no part of it shared.

    Pure but for `fetch`, which is called once for each level of the tree, with all addresses of that level.
    Every node is verified. Raises `Damaged`, naming the node, if one is missing, altered, malformed or past a
    limit.
    """
    return _Loading(fetch).load(root)


def load_keys(root: bytes, fetch: Fetch, name: str) -> frozenset[str]:
    """The keys of the map under a name at the top of a state; what they lead to is not read. Raises as `load`."""
    loading = _Loading(fetch)
    holder = [loading.open(_fetched({root}, fetch), root, _VALUE)]
    gaps = _gaps(holder, 0, root)
    while open_gaps := [gap for gap in gaps if gap.holder is holder or (gap.holder is holder[0] and gap.place == name)]:
        nodes = _fetched({link for gap in open_gaps for link in gap.stub.links}, fetch)
        gaps = [deeper for gap in open_gaps for deeper in loading.fill(gap, nodes)]
    value = holder[0].get(name) if isinstance(holder[0], dict) else None
    return frozenset(value) if isinstance(value, dict) else frozenset()


class _Loading:
    """One state being put together, level by level."""

    __slots__ = ("_fetch", "_spent_bytes")

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._spent_bytes = 0

    def load(self, root: bytes) -> Any:
        holder = [self.open(_fetched({root}, self._fetch), root, _VALUE)]
        gaps = _gaps(holder, 0, root)
        while gaps:
            nodes = _fetched({link for gap in gaps for link in gap.stub.links}, self._fetch)
            gaps = [deeper for gap in gaps for deeper in self.fill(gap, nodes)]
        return holder[0]

    def fill(self, gap: _Gap, nodes: Mapping[bytes, bytes]) -> list[_Gap]:
        """Bring one gap a level further; returns what waits then."""
        kind, level, links = gap.stub
        if level:
            return [gap._replace(stub=self._lower(gap.stub, nodes))]
        values = [self.open(nodes, link, kind) for link in links]
        gap.holder[gap.place] = value = _joined(kind, values, links[0])
        return [] if kind == _TEXT else _gaps(value, gap.depth + 1, links[0])

    def _lower(self, stub: _Stub, nodes: Mapping[bytes, bytes]) -> _Stub:
        links: list[bytes] = []
        for link in stub.links:
            below = _stub_of(self.open(nodes, link, _INDEX), link)
            if (below.kind, below.level) != (stub.kind, stub.level - 1):
                raise _damaged("the index node is of another kind or level than its parent says", link)
            links += below.links
        return _Stub(stub.kind, stub.level - 1, links)

    def open(self, nodes: Mapping[bytes, bytes], address: bytes, kind: bytes) -> Any:
        """The content of a node, decoded anew for each link to it: equal parts of a state are not one object."""
        node = nodes[address]
        self._spent_bytes += len(node)
        if self._spent_bytes > LOAD_MAX_BYTES:
            raise _damaged(f"the state is larger than {LOAD_MAX_BYTES} bytes", address)
        if node[:1] != kind:
            raise _damaged(f"a node of kind {kind!r} was expected", address)
        return node[1:] if kind in _RAW else _cells(node, address)


def _joined(kind: bytes, values: list[Any], address: bytes) -> Any:
    if kind == _LIST:
        return [item for items in values for item in items]
    if kind == _MAP:
        return {key: item for items in values for key, item in items.items()}
    try:
        return b"".join(values).decode()
    except UnicodeDecodeError as error:
        raise _damaged(f"the text that begins here is not UTF-8: {error}", address) from None
