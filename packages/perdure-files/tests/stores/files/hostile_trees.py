"""Folders of files stores as somebody hostile would commit them, generated: a link, a device, a pipe, something huge, packed or
planted in every place that we read or write. Each case changes a fresh clone; `watched` is what must not be touched.

Run as a program it does to one folder what users do (`python hostile_trees.py FOLDER`), under limits on memory and time.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import perdure
from perdure.artifacts.compress import zstd

MEMORY_BYTES = 2 * 1024**3
CPU_SECONDS = 120
Plant = Callable[[Path, Path], None]  # a clone, and the folder that is watched

PLACES = [
    ".gitattributes", "log", "log/000001.jsonl", "log/000002.jsonl", "log/000001.jsonl.zst", "log/000007.jsonl", "blobs",
    "blobs/.gitignore", "blobs/tmp-0", "views", "views/README.md", "views/a.md", "views/a.yaml", "views/a.tsv", "views/@other",
    "views/@other/theirs.md", ".perdure", ".perdure/.gitignore", ".perdure/lock", ".perdure/head", ".perdure/cache.db",
    ".perdure/cache.db-wal", ".perdure/cache.db.live", ".perdure/cache.db.new", ".perdure/set-aside", ".perdure/over",
    ".perdure/merge", ".perdure/views.lock", ".perdure/views.1.json", ".perdure/views.2.json",
    ".perdure/000001.jsonl.partial", ".perdure/.gitignore.partial", ".perdure/cache-" + "ab" * 16,
    ".perdure/set-aside/000001-000000000000-00000000.json", ".perdure/merge/000001.jsonl",
]  # fmt: skip


def cleared(path: Path) -> Path:
    """The place, empty, with what is above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def link_to_a_file(path: Path, watched: Path) -> None:
    cleared(path).symlink_to(watched / "precious.txt")


def link_to_a_folder(path: Path, watched: Path) -> None:
    cleared(path).symlink_to(watched / "folder")


def link_to_nothing_yet(path: Path, watched: Path) -> None:
    cleared(path).symlink_to(watched / "made-by-us")


def link_to_a_device(path: Path, watched: Path) -> None:
    cleared(path).symlink_to("/dev/zero")


def pipe(path: Path, watched: Path) -> None:
    os.mkfifo(cleared(path))


def huge(path: Path, watched: Path) -> None:
    with cleared(path).open("wb") as file:
        file.truncate(1024**4)


def of_a_file(path: Path, watched: Path) -> None:
    """A file where a folder is expected, and the other way round."""
    was_folder = path.is_dir()
    cleared(path).write_bytes(b"a file\n") if was_folder else cleared(path).mkdir()


AT_A_PLACE = [link_to_a_file, link_to_a_folder, link_to_nothing_yet, link_to_a_device, pipe, huge, of_a_file]


def packed(unit: bytes, size: int) -> bytes:
    packing = zstd.ZstdCompressor()
    piece = unit * (1024 * 1024 // len(unit))
    return b"".join([*(packing.compress(piece) for _ in range(size // len(piece))), packing.flush()])


BOMBS = {
    "zeros": b"\0", "blank lines": b"\n", "short lines": b"a\n", "beginnings": b'{"v":\n', "beginnings in one line": b'{"v":',
    "ends": b',"check":"' + b"a" * 32 + b'"}', "older ends": b" " + b"a" * 32, "marks": b"<<<<<<< \n=======\n>>>>>>> \n",
    "open brackets": b'{"v":2,"prev":"' + b"[" * 100 + b"\n",
}  # fmt: skip


def bomb(name: str, where: str) -> Plant:
    def plant(clone: Path, watched: Path) -> None:
        if where == "instead":
            (clone / "log" / "000001.jsonl").unlink()
            (clone / "log" / "000001.jsonl.zst").write_bytes(packed(BOMBS[name], 256 * 1024 * 1024))
        elif where == "after":
            (clone / "log" / "000002.jsonl.zst").write_bytes(packed(BOMBS[name], 256 * 1024 * 1024))
        else:
            with (clone / "log" / "000001.jsonl").open("ab") as file:
                file.write(BOMBS[name] * (2 * 1024 * 1024 // len(BOMBS[name])))

    return plant


def linked_aside(clone: Path, watched: Path) -> None:
    """A damaged line, and links under the names that its remains may get."""
    with (clone / "log" / "000001.jsonl").open("ab") as file:
        file.write(b"damaged\n")
    for number in range(2_000):
        path = clone / ".perdure" / "set-aside" / f"000001-{number:012}-ab12cd34.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(watched / "precious.txt")


def planted_cache(clone: Path, watched: Path) -> None:
    """A cache that came along, with links where SQLite and the lock files would write."""
    own = clone / ".perdure"
    own.mkdir(exist_ok=True)
    (own / "cache.db").write_bytes(b"SQLite format 3\0" + bytes(4080))
    for name in ("cache.db-wal", "cache.db-shm", "cache.db-journal", ".cache.db.unfinished"):
        (own / name).symlink_to(watched / "precious.txt")
    (own / "cache.db.live").mkdir()
    (own / "cache.db.live" / ".gitignore").symlink_to(watched / "made-by-us")
    (own / "cache.db.live" / "tide").symlink_to(watched / "precious.txt")


def planted_notes(clone: Path, watched: Path) -> None:
    """Notes that name pages elsewhere."""
    (clone / ".perdure").mkdir(exist_ok=True)
    (clone / ".perdure" / "views.1.json").write_text(
        '{"ab": {"at": "", "name": "../../watched/precious", "row": "| x |"}}'
    )


def linked_blobs(clone: Path, watched: Path) -> None:
    for tenant in [*(clone / "blobs").iterdir()]:
        if tenant.is_dir():
            shutil.rmtree(tenant)
            tenant.symlink_to(watched / "folder")


def cases() -> Iterator[tuple[str, Plant]]:
    for place in PLACES:
        for what in AT_A_PLACE:
            yield (
                f"{what.__name__} at {place}",
                lambda clone, watched, place=place, what=what: what(clone / place, watched),
            )
    for name in BOMBS:
        for where in ("instead", "after", "plain"):
            yield f"bomb of {name}, {where}", bomb(name, where)
    yield "links for what is set aside", linked_aside
    yield "a planted cache", planted_cache
    yield "planted notes", planted_notes
    yield "linked blobs", linked_blobs


def original(folder: Path) -> None:
    """What is cloned: two tenants, blobs, pages, and no `.perdure`."""
    with perdure.open(f"files:///{folder}") as store:
        store.session("a").say("user", "first")
        store.session("a").attach("x", b"content" * 20_000)
    with perdure.open(f"files:///{folder}", tenant="other") as store:
        store.session("theirs").say("user", "second")
    shutil.rmtree(folder / ".perdure")


def used(folder: Path) -> None:
    """What a user does with a clone; each may be refused, with an error of ours and nothing else."""
    from perdure.upkeep import health

    url = f"files:///{folder}"

    def read() -> None:
        with perdure.open(url, read_only=True) as store:
            store.session("a").turns()
            store.verify()

    def written() -> None:
        for tenant in ("default", "other"):
            with perdure.open(url, tenant=tenant) as store:
                store.session("a").say("user", "ours")
                store.session("theirs").attach("y", b"z" * 100_000)
                store.verify()

    for act in (read, lambda: health.examine(url), written, written, lambda: health.examine(url)):
        try:
            act()
        except perdure.Error as error:
            sys.stdout.write(f"{type(error).__name__}: {str(error)[:300]}\n")


def loaded() -> None:
    """Import all that will be needed: another user may not read this one's interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        state = os.environ["XDG_STATE_HOME"]
        os.environ["XDG_STATE_HOME"] = folder
        used(Path(folder) / "nothing")
        original(Path(folder) / "store")
        with (Path(folder) / "store" / "log" / "000001.jsonl").open("ab") as file:
            file.write(b"damaged")
        used(Path(folder) / "store")
        os.environ["XDG_STATE_HOME"] = state


def main(folders: list[str]) -> None:
    """Several folders, one after the other: memory and time of all of them together are bounded."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if os.geteuid() == 0:
        loaded()
        os.setgid(65534)
        os.setuid(65534)
    for folder in folders:
        used(Path(folder))
        sys.stdout.write(f"done {folder}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
