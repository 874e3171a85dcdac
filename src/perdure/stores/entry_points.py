"""Stores of other packages: an entry point of the group `perdure.stores`, named after the scheme of its URLs (docs/stores.md).

Its object has the two functions of `StoreKind`. Callers: `url` and `core`, for a scheme that is none of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perdure.errors import Refused

if TYPE_CHECKING:
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


def kind_of(scheme: str) -> StoreKind | None:
    """The kind that an installed package declares for a scheme; None if none does. Refused if it cannot be loaded."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes longer to load than a store of ours to open

    declared = [each for each in entry_points(group=GROUP) if each.name == scheme]
    if not declared:
        return None
    try:
        return declared[0].load()
    except Exception as error:
        said = f"the package that declares {scheme}: cannot be loaded: {type(error).__name__}: {error}"
        raise Refused(said, path="store", hint="reinstall it, or open another store") from error
