"""The folder of a coding agent's store, and the file in which a host keeps its transcripts that does not say it in its events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perdure.stores import url


def made_folder(store: str) -> None:
    """See that the folder of a store is there, for this user alone: a first call of a host must not fail for want of it."""
    path = url.parse(store).path
    if path is not None and not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def transcript_of(host: str, environ: Mapping[str, str]) -> Path | None:
    """The file with the transcripts of a host that has one for all of its sessions; None for others. It may not be there."""
    if host != "opencode":
        return None
    data = Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "opencode"
    named = environ.get("OPENCODE_DB") or "opencode.db"
    return None if named == ":memory:" else data / named
