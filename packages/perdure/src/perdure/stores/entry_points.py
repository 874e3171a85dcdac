"""Stores of other packages: an entry point of the group `perdure.stores`, named after the scheme of its URLs (docs/stores.md).

Its object has the two functions of `StoreKind`. The files store is one of them: the core knows its scheme, and asks its package
about what lies in its folder. Callers: `url` and `core`, for a scheme that is none of ours; the upkeep of a files store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import Refused
from perdure.model import siblings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perdure.model.records.integrity import WrittenBack
    from perdure.stores.store import Engine
    from perdure.stores.url import Address

GROUP = "perdure.stores"


class StoreKind(Protocol):
    """A package's declaration for the scheme of its URLs."""

    def parse(self, url: str) -> Address:
        """Read a URL of this scheme. Raises Invalid with the path of what is wrong."""
        ...

    def engine(self, address: Address, timeout_seconds: float, *, read_only: bool) -> Engine:
        """The database behind it. Opens nothing yet."""
        ...


class FilesKind(StoreKind, Protocol):
    """The declaration of the files store, which the core also asks about its log, its cache and its pages in a folder."""

    def cache(self, folder: Path) -> Path:
        """The file of its tables."""
        ...

    def remake(self, cache: Path) -> str:
        """The way to make its tables anew, for people."""
        ...

    def is_in_conflict(self, folder: Path) -> bool:
        """Whether a merge of two branches is not finished."""
        ...

    def edited_pages(self, folder: Path) -> Sequence[Path]:
        """The pages that somebody edited, and that are not recorded yet."""
        ...

    def write_log(self, backup: Path, folder: Path, artifacts: Any) -> None:
        """Write the events of a loaded backup as the log of a new store."""
        ...

    def from_cache(self, url: str, *, dry_run: bool) -> WrittenBack:
        """Write back what the log lost and the cache has."""
        ...

    def keep_pages(self, core: Any) -> None:
        """Keep its pages up to date while the store is open."""
        ...


def files_kind() -> FilesKind:
    """The package of the files store. Refused, with the command that brings it, where it is not installed."""
    return siblings.load(GROUP, "files", "perdure-files", "a files store")


def kind_of(scheme: str) -> StoreKind | None:
    """The kind that an installed package declares for a scheme; None if none does. Refused if it cannot be loaded."""
    point = siblings.declared(GROUP).get(scheme)
    if point is None:
        return None
    try:
        return point.load()
    except Refused as error:
        message = f"the package that declares {scheme}: {error.message}"
        raise Refused(message, path="store", hint=error.hint or "reinstall it, or open another store") from error
