"""Importing files and folders: each file by its own format, one report over all of them. `perdure import` calls it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from perdure.errors import Damaged, Invalid, NotFound, Refused, Unavailable
from perdure.runtime.callers import caller_of
from perdure_agents.importers import state
from perdure_agents.importers.formats import ImportFormat, detect, format_named, may_be_broken
from perdure_agents.importers.item_writer import Writer, import_items
from perdure_agents.importers.items import Item, LeftOut, PassedOver, Remark
from perdure_agents.importers.report import ImportReport, ReportInProgress
from perdure_agents.importers.sources import Source
from perdure_agents.importers.state import Mapping

FILES_MAX = 100_000
ROWS = {".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml"}  # the files that `--as` is for, mostly
_BESIDE = ("-wal", "-shm", "-journal")  # of a database, which is read with them
Progress = Callable[[int, int], None]


class OpenStore(Protocol):
    """The handle of an open store: handles stand below this package, and are known by what is used of them."""

    @property
    def _caller(self) -> Writer: ...


def import_files(
    store: OpenStore | None,
    paths: Iterable[Path],
    *,
    format_name: str | None = None,
    mapping: Mapping | None = None,
    progress: Progress = lambda *_: None,
) -> ImportReport:
    """Import files, and all files in folders, into a store; without a store, only say what is in them.

    Idempotent, file by file and item by item. format_name: take every file for one of this format; else each is recognised
    by what is in it, and what is not recognised is left out, and said so. Raises NotFound for a path that is not there,
    Invalid for a format that is none, and what the store raises when it cannot continue: then the same again continues.
    """
    chosen = _chosen_format(format_name, mapping)
    tally = ReportInProgress()

    def count_items(_count: int) -> None:  # of one file it is known how many items were read, not how many there are
        progress(sum(tally.read.values()), 0)

    sources = [source for path in paths for source in _sources(path, tally)]
    for done, source in enumerate(sources):
        progress(done, len(sources))
        after_commit = count_items if len(sources) == 1 else lambda _count: None
        import_items(
            caller_of(store) if store else None, _items(source, chosen, tally), tally, _mark_of(source), after_commit
        )
    return tally.report(dry_run=store is None)


def check_given(paths: Iterable[Path], format_name: str | None = None, mapping: Mapping | None = None) -> None:
    """Raise what `import_files` would for a path, format or field that is none: before a store is made for it."""
    _chosen_format(format_name, mapping)
    for path in paths:
        _check_there(path)


def _chosen_format(format_name: str | None, mapping: Mapping | None) -> ImportFormat | None:
    """The format that somebody named, for all files."""
    if mapping is not None:
        return ImportFormat(state.NAME, "a state file", state.reader_of(mapping))
    return None if format_name is None else format_named(format_name)


def _check_there(path: Path) -> None:
    if not (path.is_file() or path.is_dir()):
        hint = "check the path; `perdure help import` lists what can be imported"
        raise NotFound("there is no such file or folder", path=str(path), hint=hint)


def _mark_of(source: Source) -> str:
    """The name by which a file is known from one import to the next. Its path is nobody's business."""
    return hashlib.sha256(os.fsencode(source.path.absolute())).hexdigest()[:16]


def _items(source: Source, chosen: ImportFormat | None, tally: ReportInProgress) -> Iterator[Item | Remark]:
    """Everything in one file. A fault of the file as a whole leaves it out, and does not stop the others."""
    try:
        file_format = chosen or detect(source.path)
        if file_format is None:
            yield _unknown(source)
            return
        tally.files[file_format.name] += 1
        yield from file_format.read(source)
    except OSError as error:
        yield LeftOut(source.name, f"cannot be read: {error.strerror or error}")
    except (Damaged, Invalid, Refused, Unavailable) as error:
        yield LeftOut(source.name, error.message)


def _unknown(source: Source) -> Remark:
    """A file that somebody named is missed; one in a folder only if it could have been more than it is."""
    if source.is_named or may_be_broken(source.path):
        rows = "; if it holds rows, say what they are: --as tasks, decisions, events or values"
        return LeftOut(source.name, f"it has none of the known formats{rows if source.path.suffix in ROWS else ''}")
    return PassedOver("file of no known format")


def _sources(path: Path, tally: ReportInProgress) -> Iterator[Source]:
    """A file, or the files below a folder in the order of their names. Links in a folder are not followed."""
    _check_there(path)
    if path.is_file():
        yield Source(path, path.name, is_named=True)
    else:
        yield from _below(path, tally)


def _below(folder: Path, tally: ReportInProgress) -> Iterator[Source]:
    """A folder that cannot be looked into is left out, and does not stop the others: somebody else's, mostly."""

    def closed(error: OSError) -> None:
        place = Path(error.filename).relative_to(folder).as_posix()
        tally.leave_out(LeftOut(place, f"cannot be looked into: {error.strerror}"))

    count = 0
    for place, folders, names in os.walk(folder, onerror=closed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(place, name)
            if name.startswith(".") or name.endswith(_BESIDE) or not _may_be_read(file):
                continue
            count += 1
            if count > FILES_MAX:
                raise Invalid(f"more than {FILES_MAX} files", path=str(folder), hint="import its folders one by one")
            yield Source(file, file.relative_to(folder).as_posix())


def _may_be_read(file: Path) -> bool:
    """Whether this is a plain file, or one of which nobody tells us what it is: who reads it says why not."""
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except FileNotFoundError:
        return False
    except OSError:
        return True
