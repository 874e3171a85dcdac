"""The files beside a store: `views/NAME.md` and a page over all of them. Never written over an edit.

Each file is put there whole (written elsewhere, then renamed): after a crash there is the old one or the new. Nothing is
synced: a view can be made again at any time. Callers: `page_keeper`, `apply`, the command line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from perdure.model.ids import new_uid
from perdure_files.store.folder_access import Within
from perdure_files.store.layout import UNFINISHED_VIEW, Layout
from perdure_files.store.page_digest import content, is_edited

INDEX = "README.md"
STEM_MAX_CHARS = 60
_NOT_SAFE = re.compile(r"[^a-z0-9_.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|readme)(\..*)?")


def stem(name: str) -> str:
    """A name of any kind as one of a file: no folder, nothing hidden, no twin on a disk that folds cases.

    A name that had to be changed gets a digest of it, so that no two names share a file.
    """
    plain = _NOT_SAFE.sub("-", name.lower()).strip(".-")[:STEM_MAX_CHARS].rstrip(".-")
    if plain == name and not _RESERVED.fullmatch(plain):
        return plain
    return f"{plain or 'session'}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


class Folder:
    """The views of one tenant's sessions. own: where what is not whole yet may lie. Both lie below a folder of which no link is
    followed: that of the store, or their own.
    """

    def __init__(self, path: Path, own: Path, within: Within) -> None:
        self.path = path
        self.own = own
        self.within = within

    def page(self, session: str) -> Path:
        """The file of a session."""
        return self.path / f"{stem(session)}.md"

    @property
    def index(self) -> Path:
        """The page over all sessions."""
        return self.path / INDEX

    def all(self, endings: Collection[str]) -> list[Path]:
        """Every file with one of these endings that is there, edited or not."""
        paths = (self.path / name for name in self.within.names(self.path))
        return [path for path in paths if path.suffix[1:] in endings and self.content(path) is not None]

    def content(self, path: Path) -> bytes | None:
        """The content of a view; None when there is no such file."""
        return content(path, self.within)

    def put(self, path: Path, data: bytes) -> bool:
        """Write a view unless somebody edited it; whether it is now as given. OSError from the disk."""
        self.within.make(self.path)
        before = self.content(path)
        if before == data:
            return True
        if is_edited(before):
            return False
        self.replace(path, data)
        return True

    def replace(self, path: Path, data: bytes) -> None:
        """Write a view, whatever is there: only when the edits in it were recorded, or are to go."""
        partial = self.own / f"{UNFINISHED_VIEW}{new_uid().hex()}.partial"
        self.within.place(path, data, partial, durable=False)

    def remove(self, path: Path) -> None:
        """Remove a view."""
        self.within.unlink(path)


def beside(layout: Layout, tenant: str = "default") -> Folder:
    """The views of a files store."""
    path = layout.views if tenant == "default" else layout.views / f"@{stem(tenant)}"
    return Folder(path, layout.own, layout.within)
