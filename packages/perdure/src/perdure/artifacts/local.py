"""Content on its way in from the caller, and out to a file of theirs.

Called by the artifact plane and its handles. Memory does not grow with the content. Keeps P1 (a saved file is
whole or not there) and P15 (what is not bytes is refused with its path).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from perdure.artifacts.compress import CHUNK_BYTES
from perdure.artifacts.descriptors import ROOT, new_temporary, opened, sync, translated
from perdure.errors import Invalid, NotFound

Source: TypeAlias = "bytes | bytearray | memoryview | str | Path | BinaryIO | Iterable[bytes]"


def pieces_from(data: Source, path: str = "data") -> Iterator[bytes]:
    """The bytes of a source, piece by piece: bytes, text (as UTF-8), a file's path, an open binary file, or
    pieces."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return iter([bytes(data)])
    if isinstance(data, str):
        return iter([_utf8(data, path)])
    if isinstance(data, Path):
        return _pieces_of_file(data, path)
    if hasattr(data, "read"):
        return _checked(iter(lambda: data.read(CHUNK_BYTES) or None, None), path)  # type: ignore[union-attr]
    if isinstance(data, Iterable):
        return _checked(data, path)
    raise Invalid(
        f"expected bytes, text, a Path, a binary file or pieces of bytes, got {type(data).__name__}",
        path=path,
    )


def split_at(pieces: Iterator[bytes], count: int) -> tuple[bytes, Iterator[bytes]]:
    """More than `count` bytes from the beginning and the rest; or all there is, and nothing."""
    head = bytearray()
    for piece in pieces:
        head += piece
        if len(head) > count:
            return bytes(head), pieces
    return bytes(head), iter(())


def save_file(target: Path, pieces: Iterable[bytes]) -> Path:
    """Write a file: whole and on the disk when this returns, as it was before when it fails."""
    if target.is_dir():
        raise Invalid(f"{target} is a folder", path=str(target), hint="name a file in it")
    with opened(ROOT, target.parent) as folder:
        if folder is None:
            raise NotFound(f"there is no folder {target.parent}", path=str(target), hint="make it first")
        _save_in(folder, target, pieces)
        sync(folder, str(target.parent))
    return target


def _save_in(folder: int, target: Path, pieces: Iterable[bytes]) -> None:
    with translated(str(target)):
        temporary, fd = new_temporary(folder, 0o600)
    with os.fdopen(fd, "wb") as file:
        try:
            for piece in pieces:
                with translated(str(target)):
                    file.write(piece)
            with translated(str(target)):
                file.flush()
            sync(fd, str(target))
            with translated(str(target)):
                os.rename(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise


def _utf8(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"lone surrogate at character {error.start}", path=path) from None


def _pieces_of_file(file_path: Path, path: str) -> Iterator[bytes]:
    """Opened at once, so that a wrong path is refused before anything else happens."""
    with translated(path):
        try:
            return _pieces_of_open(file_path.open("rb"), path)
        except FileNotFoundError:
            raise NotFound(f"no file {str(file_path)!r}", path=path) from None
        except IsADirectoryError:
            raise Invalid(f"{str(file_path)!r} is a directory", path=path) from None


def _pieces_of_open(file: BinaryIO, path: str) -> Iterator[bytes]:
    with file:
        while True:
            with translated(path):
                piece = file.read(CHUNK_BYTES)
            if not piece:
                return
            yield piece


def _checked(pieces: Iterable[Any], path: str) -> Iterator[bytes]:
    for index, piece in enumerate(pieces):
        if not isinstance(piece, (bytes, bytearray, memoryview)):
            hint = "open the file in binary mode" if isinstance(piece, str) else ""
            raise Invalid(f"expected bytes, got {type(piece).__name__}", path=f"{path}[{index}]", hint=hint)
        yield bytes(piece)


def rejoined(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The inverse of `split_at`."""
    return chain([head], rest)
