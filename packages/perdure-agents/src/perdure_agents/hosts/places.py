"""The folder of a coding agent's store."""

from __future__ import annotations

from perdure.stores import url


def made_folder(store: str) -> None:
    """See that the folder of a store is there, for this user alone: a first call of a host must not fail for want of it."""
    path = url.parse(store).path
    if path is not None and not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
