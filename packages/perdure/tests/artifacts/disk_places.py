"""What the tests of the disk share: where a blob lies."""

from __future__ import annotations

from pathlib import Path

from artifacts.place_contract import TEXT, address_of
from perdure.artifacts import disk
from perdure.artifacts.disk import DiskPlace
from perdure.artifacts.place import Place

SRC = Path(disk.__file__).parents[2]
ADDRESS = address_of(TEXT)


def path_of(place: Place, tenant: str, address: str) -> Path:
    assert isinstance(place, DiskPlace)
    return place.root / tenant / address[:2] / address
