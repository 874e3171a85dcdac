"""Where the cache of a files store lies: in a folder below `.perdure/` whose name only this user can know (docs/decisions/0025).

    .perdure/cache-HMAC(key, the store's path)/cache.db     and beside it its WAL, and the lock files of `stores.liveness`

The key lies outside every tree: 32 random bytes in `perdure/key` below $XDG_STATE_HOME or ~/.local/state. Somebody who commits
files to a repository can name any folder of it, but cannot guess this one: no cache, WAL or lock file that came with git is ever
opened. Where there is no home, the key lies in this user's own folder below the temporary one. Callers: `layout`. Keeps P6, P10.
"""

from __future__ import annotations

import hmac
import os
import stat
from contextlib import suppress
from pathlib import Path

from perdure.artifacts.descriptors import NEW_FILE, flush
from perdure.errors import Refused
from perdure.model.ids import new_uid
from perdure.stores.liveness import keeps_folders, state_folder

_KEY_BYTES = 32
_HINT = "set XDG_STATE_HOME to a folder of this user: a key lies there by which it knows its own caches"


def name_for(folder: Path, *, make: bool) -> str | None:
    """The name of the folder of this store's cache; None where there is no key yet, and none may be made. Refused, where a key
    cannot be kept."""
    key = _key(make=make)
    if key is None:
        return None
    path = os.fsencode(Path(folder).resolve())
    return f"cache-{hmac.digest(key, path, 'sha256').hex()[:32]}"


def _key(*, make: bool) -> bytes | None:
    refused: OSError | None = None
    for folder in _places():
        try:
            key = _read(folder / "key")
            if key is None and make:
                _make(folder)
                key = _read(folder / "key")
        except OSError as error:
            refused = error
            continue
        if key is not None:
            return key
    if make:
        raise Refused(f"there is no place for the key of this user's caches: {refused}", path="store", hint=_HINT)
    return None


def _places() -> list[Path]:
    """Where a key may lie, best first."""
    state = state_folder()
    places = [] if state is None else [state / "perdure"]
    from tempfile import gettempdir  # noqa: PLC0415 - slow to load, and needed where there is no home only

    above = Path(gettempdir())
    return [*places, above / f"perdure-{os.geteuid()}"] if keeps_folders(above) else places


def _read(path: Path) -> bytes | None:
    """The key; None when there is none. PermissionError when somebody else could have put it there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        key = os.read(fd, _KEY_BYTES + 1) if ours else b""
    finally:
        os.close(fd)
    if len(key) != _KEY_BYTES:
        raise PermissionError(f"{path} is not a key that only this user can read: remove it")
    return key


def _make(folder: Path) -> None:
    """A key, unless somebody is first: it gets its name when it is whole."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f"key.{new_uid().hex()}"
    fd = os.open(partial, NEW_FILE, 0o600)
    try:
        os.write(fd, new_uid() + new_uid())
        flush(fd)
        with suppress(FileExistsError):
            os.link(partial, folder / "key")
    finally:
        os.close(fd)
        partial.unlink(missing_ok=True)
