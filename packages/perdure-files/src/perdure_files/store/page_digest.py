"""Pages beside a log that say themselves whether somebody edited them: the last line is a digest of all before it.

So a page that nobody touched is known anywhere: an old one that git brought back, and one in a clone. It proves nothing:
whoever edits a page may seal it anew. Callers: `interchange.views`, which makes the pages, and `health`, which lists those that
were edited.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from perdure_files.store.folder_access import ForeignEntry, Within
from perdure_files.store.layout import Layout

PAGE_MAX_BYTES = 64 * 1024 * 1024
ONCE_WRITTEN = ("yaml", "tsv")  # endings of pages that earlier versions wrote, and that may still lie there
COMMENT = "<!-- {} -->"
_SEAL = re.compile(rb"(?:<!-- |# )perdure digest ([0-9a-f]{32})(?: -->)?\n*")


def sealed(lines: list[str]) -> bytes:
    """Lines as a file, with the seal as the last one."""
    body = "".join(f"{line}\n" for line in lines).encode()
    return body + COMMENT.format(f"perdure digest {_digest(body)}").encode() + b"\n"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def is_untouched(data: bytes) -> bool:
    """Whether a file is as it was made once, whenever that was; other ends of lines are git's doing."""
    data = data.replace(b"\r\n", b"\n")
    start = data.rstrip(b"\n").rfind(b"\n") + 1
    match = _SEAL.fullmatch(data[start:])
    return match is not None and match[1].decode() == _digest(data[:start])


def is_edited(data: bytes | None) -> bool:
    """Whether a file holds what nobody rendered. One that a power loss left empty does not."""
    return data is not None and bool(data.strip(b"\0")) and not is_untouched(data)


def was_page(data: bytes | None) -> bool:
    """Whether a file was a page once: notes of somebody's own in that folder are nobody's business."""
    return data is not None and (b"perdure view " in data or b"perdure digest " in data)


def content(path: Path, within: Within | None = None) -> bytes | None:
    """The content of a page; None if there is none. Of one that is longer than any page only the beginning: it was edited.

    within: the folder below which no link is followed; the page's own, if none is given.
    """
    try:
        return (within or Within(path.parent)).beginning(path, PAGE_MAX_BYTES)
    except (FileNotFoundError, ForeignEntry):
        return None


def edited(layout: Layout) -> list[Path]:
    """All pages of a store that were edited by hand. Reads each of them."""
    try:
        paths = [*_pages(layout, layout.views)]
    except ForeignEntry:
        return []
    pages = ((path, content(path, layout.within)) for path in paths)
    return sorted(path for path, data in pages if was_page(data) and is_edited(data))


def _pages(layout: Layout, folder: Path, depth: int = 0) -> Iterator[Path]:
    """The pages in a folder, and in those of tenants below it."""
    for name in layout.within.names(folder):
        if name.endswith(tuple(f".{ending}" for ending in ("md", *ONCE_WRITTEN))):
            yield folder / name
        elif name.startswith("@") and not depth:
            with suppress(ForeignEntry):
                yield from _pages(layout, folder / name, depth + 1)
