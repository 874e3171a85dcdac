"""The section that boot keeps in `AGENTS.md`, for hosts that read nothing else. It is interchange, never authority.

    <!-- perdure:begin {"session":"issue-42","uid":"…","event":117,"commit":"1a2b","made":"…","digest":"3f…"} -->
    …
    <!-- perdure:end 3f… -->

The store is what counts: nothing is read back from the section. It says of which event it was made, so that an older one shows,
and carries a digest, so that an edit shows; an edited section is not written over unasked. The digest is also what its end is
found by: no text can hold its own. Callers: the command line.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
from pathlib import Path

import msgspec

from perdure.boot.manifest import PackManifest
from perdure.boot.pack import Pack
from perdure.errors import Conflict, Refused
from perdure.stores.atomic_files import disk_errors, sync

NAME = "AGENTS.md"
_BEGIN = re.compile(r"^<!-- perdure:begin (\{.*\}) -->\n", re.MULTILINE)
_ABOUT = (
    "This section is a copy that `perdure boot --format agents-md` writes. Ask `perdure boot --check` whether it is still up to"
    " date. Edits of it are not read: write memories and decisions down instead.\n\n"
)
DIGEST_CHARS = 32


class SectionMark(msgspec.Struct, frozen=True):
    """Of what a section was made."""

    session: str
    uid: str
    event: int
    commit: str
    made: str
    digest: str


class FileSection(msgspec.Struct, frozen=True):
    """A section that stands in a file. start, end: its place there. edited: somebody changed it."""

    mark: SectionMark
    start: int
    end: int
    edited: bool


class SectionStanding(enum.StrEnum):
    """How a section compares with the store."""

    CURRENT = "current"
    OLDER = "older"
    EDITED = "edited"
    FOREIGN = "foreign"
    MISSING = "missing"


def written(pack: Pack) -> str:
    """The section of a pack."""
    body = _ABOUT + pack.text
    digest = hashlib.sha256(body.encode()).hexdigest()[:DIGEST_CHARS]
    of = pack.manifest
    mark = msgspec.json.encode(SectionMark(of.session, of.uid, of.seq, of.commit, of.made_at, digest)).decode()
    return f"<!-- perdure:begin {mark.replace('>', chr(92) + 'u003e')} -->\n{body}<!-- perdure:end {digest} -->\n"


def found_in(text: str) -> FileSection | None:
    """The section of a file. One whose end is gone reaches to the end of the file, and counts as edited."""
    for begin in _BEGIN.finditer(text):
        try:
            mark = msgspec.json.decode(begin[1], type=SectionMark)
        except (msgspec.DecodeError, UnicodeError):
            continue
        closing = f"<!-- perdure:end {mark.digest} -->\n"
        end = text.find(closing, begin.end())
        if end < 0:
            return FileSection(mark, begin.start(), len(text), edited=True)
        body = text[begin.end() : end]
        same = hashlib.sha256(body.encode()).hexdigest()[:DIGEST_CHARS] == mark.digest
        return FileSection(mark, begin.start(), end + len(closing), edited=not same)
    return None


def standing(section: FileSection | None, manifest: PackManifest) -> tuple[SectionStanding, str]:
    """How a section compares with what a pack is made of now, and the sentence that says so."""
    if section is None:
        return SectionStanding.MISSING, "there is no section of Perdure's"
    mark = section.mark
    if section.edited:
        return SectionStanding.EDITED, "it was edited by hand: what it says may not be what is stored"
    if mark.uid != manifest.uid:
        return SectionStanding.FOREIGN, f"it is of another session, {mark.session!r}"
    if mark.event != manifest.seq:
        return (
            SectionStanding.OLDER,
            f"it is out of date: made of event {mark.event}, and the session is at {manifest.seq}",
        )
    if mark.commit != manifest.commit:
        return (
            SectionStanding.OLDER,
            f"it is out of date: made at commit {mark.commit[:40]!r}, now {manifest.commit[:40]!r}",
        )
    return SectionStanding.CURRENT, "it is up to date"


def read(path: Path) -> str:
    """The text of the file; nothing if there is none. Refused for a link that leads out of its folder."""
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        raise Refused(f"{path.name} is a link to another folder", path=str(path), hint="name the file itself")
    try:
        with disk_errors(path):
            return path.read_text("utf-8")
    except Exception as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ""
        raise


def keep(path: Path, pack: Pack, *, force: bool = False) -> SectionStanding:
    """Put the section into the file, in the place of the one that is there; the rest stays. How that one stood.

    Atomic. Conflict if it was edited by hand, or is of another session: `force` writes over it.
    """
    text = read(path)
    section = found_in(text)
    state, says = standing(section, pack.manifest)
    if state in (SectionStanding.EDITED, SectionStanding.FOREIGN) and not force:
        raise Conflict(f"the section in {path.name} stays: {says}", path=str(path), hint="--force writes over it")
    before, after = (text[: section.start], text[section.end :]) if section else (text, "")
    gap = "\n" if before and not section else ""
    _replace(
        path.resolve(), before + ("" if not before or before.endswith("\n") else "\n") + gap + written(pack) + after
    )
    return state


def _replace(target: Path, text: str) -> None:
    partial = target.with_name(f".{target.name}.perdure-{os.getpid()}")
    with disk_errors(target):
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            sync(partial)
            partial.replace(target)
            sync(target.parent)
        finally:
            partial.unlink(missing_ok=True)
