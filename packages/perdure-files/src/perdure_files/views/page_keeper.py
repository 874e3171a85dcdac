"""Bringing the views of a files store up to date: a writer does so when it closes the store, and every few seconds before.

Never in a transaction, under the lock of the log, or before an acknowledgement: a thread of its own reads what is committed.
A failure here is logged and costs a view that is behind, never a commit. Only sessions that moved are read. Callers:
`handles.opening`, the command line. Keeps P1 (by staying out of its way).
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.errors import Error, Invalid, NotFound
from perdure.log.change import Stream
from perdure.model import threads
from perdure.stores.core import Core
from perdure.stores.statements import Statements
from perdure.stores.store import WHOLE_STORE, Reads
from perdure.stores.url import parse
from perdure_files.store.folder_access import Within
from perdure_files.store.layout import Layout
from perdure_files.store.page_digest import ONCE_WRITTEN, content, is_untouched, sealed, was_page
from perdure_files.views.escapes import for_markdown
from perdure_files.views.folder import Folder, beside
from perdure_files.views.gather import gather, short
from perdure_files.views.page import render
from perdure_files.views.view import SessionPage

Q = Statements("perdure_files.views", "views.sql")
log = logging.getLogger("perdure.interchange.views")

EVERY_SECONDS = 5.0
REST_TIMES = 20  # a thread that looked rests so many times as long: at most a twentieth of a core is spent on pages
TURN_SECONDS = 2.0
_LOOK_SECONDS = 0.02
_INDEX_HEAD = ("| session | title | status | open tasks | open decisions | event |", "|---|---|---|---|---|---|")


class NotedPage(msgspec.Struct):
    """The notes about the views of one session. at: the event; row: its line in the page over all."""

    at: str
    name: str
    row: str


class KeptPages(msgspec.Struct, frozen=True):
    """The result of a round. edited: files that somebody changed by hand, left as they are."""

    written: list[Path]
    removed: list[Path]
    edited: list[Path]


def layout_of(url: str) -> Layout | None:
    """The folder of a files store; None for other stores."""
    folder = parse(url).log_folder
    return None if folder is None else Layout(folder)


# -- bringing up to date ---------------------------------------------------------------------------------------------


def keep(core: Core, tenant: int, *, all_sessions: bool = False, over: Collection[Path] = ()) -> KeptPages:
    """Bring the views of a tenant's sessions up to date. Idempotent; after a crash some are older.

    whole: look at every session, not only at those that moved. over: edited files that may be written over. OSError from the
    disk.
    """
    layout = layout_of(core.engine.url)
    assert layout is not None
    over = {path.resolve() for path in over}
    heads, tenant_name = core.read(_heads, tenant=tenant)
    folder = beside(layout, tenant_name)
    with _turn(layout):
        notes_file = layout.own / f"views.{tenant}.json"
        notes = _notes(folder.content(notes_file))
        pages = KeptPages([], [], [])
        for stream, at in heads:
            noted = notes.get(stream.uid.hex())
            if all_sessions or noted is None or noted.at != at:
                view = core.read(gather, stream, tenant=tenant)
                _write(folder, view, pages, over)
                notes[stream.uid.hex()] = NotedPage(
                    f"{view.head.seq} {view.head.hash}", stream.name, _row(folder, view)
                )
        stale = notes.keys() - {stream.uid.hex() for stream, _ in heads}
        for uid in stale:
            del notes[uid]
        paths = {folder.index} | {folder.page(stream.name) for stream, _ in heads}
        _remove(
            folder, folder.all(("md", *ONCE_WRITTEN) if all_sessions or stale else ONCE_WRITTEN), paths, pages, over
        )
        _put(folder, folder.index, _index(notes), pages, over)
        folder.replace(notes_file, msgspec.json.encode(notes))
    return pages


def renew(core: Core, tenant: int, discard: Collection[Path] = ()) -> KeptPages:
    """Bring every view up to date, and forget what was edited in some. Raises Invalid for what is no view of this store."""
    for path in discard:
        if not content(path):
            raise NotFound(f"there is no file {path}", path="discard", hint="name a page in views/")
    pages = keep(core, tenant, all_sessions=True, over=discard)
    done = {path.resolve() for path in (*pages.written, *pages.removed)}
    for path in discard:
        if path.resolve() not in done:
            raise Invalid(f"{path} is no view of this store", path="discard", hint="they are in its views folder")
    return pages


def _heads(reads: Reads) -> tuple[list[tuple[Stream, str]], str]:
    rows = reads.query(Q.session_heads, tenant=reads.tenant)
    name = reads.query(Q.tenant_name, tenant=reads.tenant)[0][0]
    return [(Stream(*row[:7]), f"{row[7]} {short(row[8])}") for row in rows], name


def _notes(data: bytes | None) -> dict[str, NotedPage]:
    """The last notes; nothing if they cannot be read: then every session is looked at."""
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, NotedPage])
    except msgspec.MsgspecError:
        return {}


def _write(folder: Folder, view: SessionPage, pages: KeptPages, over: Collection[Path]) -> None:
    _put(folder, folder.page(view.head.session), render(view), pages, over)


def _put(folder: Folder, path: Path, data: bytes, pages: KeptPages, over: Collection[Path]) -> None:
    if path.resolve() in over:
        folder.replace(path, data)
        pages.written.append(path)
    elif folder.content(path) == data:
        return
    elif folder.put(path, data):
        pages.written.append(path)
    else:
        pages.edited.append(path)
        log.warning(
            "%s was edited by hand, and is left as it is: `perdure apply` it, or `perdure views --discard` it", path
        )


def _remove(
    folder: Folder, paths: Iterable[Path], due: Collection[Path], pages: KeptPages, over: Collection[Path]
) -> None:
    """Remove views of sessions that are no more (git took them back, mostly) or in a form that is no more, unless edited."""
    for path in paths:
        if path in due:
            continue
        if path.resolve() in over or is_untouched(folder.content(path) or b""):
            folder.remove(path)
            pages.removed.append(path)
        elif was_page(folder.content(path)):
            pages.edited.append(path)


def _row(folder: Folder, view: SessionPage) -> str:
    page = folder.page(view.head.session).name
    tasks = sum(thing.get("status") in ("todo", "doing", "blocked") for thing in view.things["tasks"])
    open_ = sum(thing.get("status") == "open" for thing in view.things["decisions"])
    name, title = _cell(view.head.session), _cell(view.about.get("title", ""))
    return f"| [{name}]({page}) | {title} | {view.about.get('status')} | {tasks} | {open_} | {view.head.seq} |"


def _cell(text: str) -> str:
    return for_markdown(text, "|[]")


def _index(notes: dict[str, NotedPage]) -> bytes:
    rows = [noted.row for noted in sorted(notes.values(), key=lambda noted: noted.name)]
    return sealed(["# Sessions", "", *_INDEX_HEAD, *rows, ""])


@contextmanager
def _turn(layout: Layout) -> Iterator[None]:
    """One process at a time, so that no older view comes after a newer one; a process that cannot wait continues all the same."""
    descriptor = layout.within.open_file(layout.own / "views.lock", os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + TURN_SECONDS
        while not _locked(descriptor) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find(core: Core, name: str, tenant: int) -> Stream:
    """The session of a name. Raises NotFound."""
    for stream, _ in core.read(_heads, tenant=tenant)[0]:
        if stream.name == name:
            return stream
    raise NotFound(f"there is no session {name!r}", path="session", hint="`perdure sessions` lists them")


def write_to(core: Core, tenant: int, where: Path, names: Collection[str] = ()) -> KeptPages:
    """Write views of some sessions (or all) into any folder, of any store. OSError from the disk."""
    where.mkdir(parents=True, exist_ok=True)
    pages = KeptPages([], [], [])
    streams = [find(core, name, tenant) for name in names] or [
        stream for stream, _ in core.read(_heads, tenant=tenant)[0]
    ]
    for stream in streams:
        _write(Folder(where, where, Within(where)), core.read(gather, stream, tenant=tenant), pages, ())
    return pages


# -- beside an open store --------------------------------------------------------------------------------------------


class Keeper:
    """Keeps the views beside one open store. `notice` is called after every commit, and costs next to nothing."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._wrote = False
        self._due = time.monotonic() + EVERY_SECONDS
        self._thread: threading.Thread | None = None

    def notice(self) -> None:
        """Something was committed: every few seconds a thread looks what."""
        self._wrote = True
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._wrote = False
        self._thread = threads.begin(self._look, "perdure-views")

    def _look(self) -> None:
        """Bring the pages up to date, and rest in proportion: where hundreds of sessions move, their pages take seconds."""
        began = time.thread_time()
        self._keep()
        self._due = time.monotonic() + max(EVERY_SECONDS, REST_TIMES * (time.thread_time() - began))

    def finish(self) -> None:
        """The store is about to close."""
        if self._thread is not None:
            self._thread.join()
        if self._wrote:
            self._keep()

    def renew(self) -> None:
        """Bodies went: pages of forks show them too, whose heads did not move."""
        self._keep(all_sessions=True)

    def _keep(self, *, all_sessions: bool = False) -> None:
        try:
            for tenant in self._core.read(_tenants, tenant=WHOLE_STORE):
                keep(self._core, tenant, all_sessions=all_sessions)
        except (Error, OSError) as error:
            log.warning("the views are behind, `perdure views` brings them up to date: %s", error)


def _tenants(reads: Reads) -> list[int]:
    return [number for (number,) in reads.query(Q.tenants_with_sessions)]


def accompany(core: Core) -> None:
    """Keep the views of a files store, of all its tenants, as long as it is open."""
    keeper = Keeper(core)
    core.lane.after_batch = keeper.notice
    core.on_close = keeper.finish
    core.on_purge = keeper.renew
