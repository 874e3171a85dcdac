"""Where the large blobs of a store lie: what it remembers of `artifacts=`, and what is said when that is not given.

The place that was given is kept as a fact of the store. It is told, never followed by itself: a store that came from elsewhere
could name any folder or bucket, and large blobs would be written there (P10). Caller: `core.open_core`. Keeps P10, P15.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from perdure.artifacts.place import Place, place_from_url
from perdure.stores.blobs import Blobs
from perdure.stores.job import Job
from perdure.stores.lane import Lane
from perdure.stores.migrate import Q
from perdure.stores.tx import Tx
from perdure.stores.url import Address

FACT = "artifacts"
_BESIDE = "beside:"  # a folder below the one that the store lies in: it is moved and copied with it


def place_for(address: Address, artifacts: str | None) -> Place | None:
    """The place of large blobs: as it was said, or a folder beside the SQLite file, or in the folder of a files store."""
    where = artifacts or address.artifacts or _default(address)
    return place_from_url(where) if where else None


def look_up(
    lane: Lane, facts: dict[str, str], address: Address, given: str | None, blobs: Blobs, *, write: bool
) -> None:
    """Remember the place that was given. Without one: if the store has another than the one beside it, only say which.

    The lane writes it: a connection for this alone would have to read the whole schema.
    """
    if given is None:
        where = remembered(facts, address)
        if where is not None and where != _default(address):
            blobs.place, blobs.elsewhere = None, where
    elif write and _is_new(facts, said := _said(address, given), blobs):
        try:
            lane.run(Job(_remember, (said,), {}, "", 0))
        except BaseException:
            lane.close()  # nobody gets this store
            raise


def _remember(tx: Tx, said: str) -> None:
    tx.query(Q.meta_put, name=FACT, value=said)


def remembered(facts: dict[str, str], address: Address) -> str | None:
    """The place that a store says it has, as a URL. None if none was ever given."""
    said = facts.get(FACT)
    if said is None or not said.startswith(_BESIDE):
        return said
    return _file_url(_folder(address) / unquote(said.removeprefix(_BESIDE)))


def _is_new(facts: dict[str, str], said: str, blobs: Blobs) -> bool:
    """Whether this place is to be remembered: the store knows none, or its large blobs lie in this one by now."""
    known = facts.get(FACT)
    return known is None or (said != known and blobs.is_held())


def _said(address: Address, given: str) -> str:
    parts = urlsplit(given)
    if parts.scheme != "file":
        return given
    where = Path(os.path.abspath(unquote(parts.path)))  # noqa: PTH100 - a link is part of the name that was given
    if address.path is not None and where.is_relative_to(_folder(address)):
        return _BESIDE + quote(str(where.relative_to(_folder(address))))
    return _file_url(where)


def _default(address: Address) -> str | None:
    if address.path is None:
        return None
    return _file_url(address.path.absolute()) + ("/" if address.scheme == "files" else ".") + "blobs"


def _folder(address: Address) -> Path:
    assert address.path is not None
    return address.path.absolute().parent


def _file_url(path: Path) -> str:
    return f"file://{quote(str(path))}"
