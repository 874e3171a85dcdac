"""`perdure.toml`: what the commands of a folder take when neither an option nor the environment says otherwise.

Read only from the folder that a command runs in, and only by commands on a store; `perdure init` writes it. A user who runs a
command in a folder trusts its file, as with a Makefile. Keeps P15: what is wrong in it is refused with its path.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from perdure.errors import Invalid

FILE = "perdure.toml"
FILE_MAX_BYTES = 64 * 1024
_META = "perdure.settings"


class WorkerSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `perdure worker`; the options check the values."""

    processes: int | None = None
    concurrency: int | None = None
    lease: str | None = None
    poll: str | None = None
    grace: str | None = None
    suspects: int | None = None
    keep: str | None = None
    index: bool | None = None


class SettingsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    store: str | None = None
    tenant: str | None = None
    actor: str | None = None
    worker: WorkerSection = WorkerSection()


def read(path: Path) -> SettingsFile:
    """The settings of a file; those of none when it is not there. Invalid names what is wrong in it."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        return SettingsFile()
    if len(data) > FILE_MAX_BYTES:
        raise Invalid(f"more than {FILE_MAX_BYTES} bytes: this is no {FILE}", path=str(path))
    try:
        return msgspec.toml.decode(data, type=SettingsFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(str(error), path=FILE, hint="perdure init --dry-run shows what it may look like") from error


def default(name: str, otherwise: Callable[[], Any]) -> Callable[[], Any]:
    """The default of an option: what the file says under this name (`worker.lease` in a table), or else what this gives."""

    def found() -> Any:
        value: Any = _current()
        for part in name.split("."):
            value = getattr(value, part)
        return otherwise() if value is None else value

    return found


def defaults(name: str, otherwise: Any) -> dict[str, Any]:
    """A plain default for `click.option`: it is called when it is needed, and shown as it is."""
    return {"default": default(name, lambda: otherwise), "show_default": str(otherwise)}


def _current() -> SettingsFile:
    """The file of this folder, read once for each call of the command line."""
    meta = click.get_current_context().find_root().meta
    if _META not in meta:
        meta[_META] = read(Path(FILE))
    return meta[_META]
