"""The manifest of a pack: what was shown, by handle, how it stood, what it took, and what was left out. And how two differ.

A manifest holds no stored text, so that it can be kept beside the store's log without a second copy of anything. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class PackedItem(msgspec.Struct, frozen=True):
    """One item of a pack: what it is, how much room it took, and whether it was shortened. at: its place in the text.

    said: what its heading says of it, such as whether it still holds. changed: when it was last changed, in microseconds.
    """

    section: str
    kind: str
    id: str
    tokens: int
    chars: int
    at: int
    shortened: bool = False
    said: str = ""
    changed: int = 0


class PackManifest(msgspec.Struct, frozen=True):
    """The contents of a pack, what was left out, and of what state it was made."""

    session: str
    uid: str
    seq: int
    made_at: str
    commit: str
    budget: int
    max_chars: int | None
    tokens: int
    chars: int
    profile: str
    shown: tuple[PackedItem, ...]
    left_out: dict[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()


class PackChange(msgspec.Struct, frozen=True):
    """One difference between two packs: something came, went, or changed. now: what is said of it now; then: what was."""

    how: str
    section: str
    kind: str
    id: str
    now: str = ""
    then: str = ""


def encode_manifest(manifest: PackManifest) -> str:
    """A manifest as it is kept."""
    return msgspec.json.encode(manifest).decode()


def read_manifest(text: str) -> PackManifest:
    """A manifest that was kept."""
    return msgspec.json.decode(text, type=PackManifest)


def difference(then: PackManifest, now: PackManifest) -> list[PackChange]:
    """The changes from one pack of a session to a later one, in the order of the later one; items that went come last."""
    return list(_difference(then, now))


def _difference(then: PackManifest, now: PackManifest) -> Iterator[PackChange]:
    before = {(item.kind, item.id): item for item in then.shown}
    after = {(item.kind, item.id): item for item in now.shown}
    for key, item in after.items():
        old = before.get(key)
        if old is None:
            yield PackChange("came", item.section, item.kind, item.id, item.said)
        elif (old.said, old.changed, old.section) != (item.said, item.changed, item.section):
            yield PackChange("changed", item.section, item.kind, item.id, item.said, old.said)
    left_out = {name for ids in now.left_out.values() for name in ids}
    for key, item in before.items():
        if key not in after:
            yield PackChange(
                "left out" if item.id in left_out else "went", item.section, item.kind, item.id, "", item.said
            )
