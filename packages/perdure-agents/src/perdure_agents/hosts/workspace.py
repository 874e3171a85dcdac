"""The workspace that a host works in, and the session that Perdure keeps for it.

All hosts, windows and worktrees of one repository share one session: its plan, decisions and memories belong to the work, not to
the program that did it. The name has a digest of the place, so that two folders of one name stay apart.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from perdure.stores import url

DIGEST_CHARS = 8


class HostWorkspace(NamedTuple):
    """A folder that is worked in, the session for it, and the labels by which that session reads scopes."""

    root: Path
    session: str
    labels: tuple[str, ...]


def workspace_of(folder: Path, session: str = "") -> HostWorkspace:
    """The workspace of a folder: the repository around it, else the folder itself. session: a name that somebody chose."""
    folder = folder.resolve()
    root = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)
    shared = _shared(root)
    mark = hashlib.sha256(str(shared).encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_CHARS]
    plain = "".join(char if char.isprintable() and char != "/" else "_" for char in shared.name)[:60] or "root"
    name = session or f"{plain}-{mark}"
    return HostWorkspace(root, name, (f"project:{name}",))


def _shared(root: Path) -> Path:
    """The main folder of a repository, which all of its worktrees share. A link to it that cannot be read counts as none."""
    link = root / ".git"
    try:
        if not link.is_file():
            return root
        target = link.read_text("utf-8", "replace")[:4_096].removeprefix("gitdir:").strip()
    except OSError:
        return root
    inside = (root / target).resolve()
    return inside.parents[2] if inside.parent.name == "worktrees" and inside.parents[1].name == ".git" else root


def made_folder(store: str) -> None:
    """See that the folder of a store is there, for this user alone: a first call of a host must not fail for want of it."""
    path = url.parse(store).path
    if path is not None and not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
