"""The other packages of Perdure, and those of other people: found by their entry points, never imported by name.

A look reads the entry points that installers leave on the disk, and imports nothing. It happens for the help, and when a command,
a scheme, a format or an extra is asked for that the core does not have. A sibling of Perdure has exactly the version of the core:
one that is missing, broken or of another version is Refused, with the command that mends it, before anything is opened.
Callers: `stores.entry_points`, the handles, the importers, the command line. Keeps P15.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Refused
from perdure.version import VERSION

OURS = ("perdure-server", "perdure-agents", "perdure-adapters", "perdure-files", "perdure-testing", "perdure-evaluate")
METADATA = (".dist-info", ".egg-info")
OBSERVERS = "perdure.observers"  # the group of modules with `observe(core, …)` and `begin(service)`


class EntryPoint(NamedTuple):
    """A declaration of a package. value: its module and its object, with a colon between; package: its distribution."""

    name: str
    value: str
    package: str
    version: str

    def load(self) -> Any:
        """Its object. Refused if its package is of another version, or does not load."""
        if self.package in OURS:
            check_fits(self.package, self.version)
        module, _, attribute = self.value.partition(":")
        try:
            return getattr(import_module(module), attribute) if attribute else import_module(module)
        except Refused:
            raise
        except Exception as error:
            message = f"{self.package} cannot be loaded: {type(error).__name__}: {error}"
            raise Refused(
                message, path="install", hint=f"pip install --force-reinstall --no-deps {self.package}"
            ) from error


def declared(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, by name; of two with one name, the one that stands first on the path."""
    return _all(tuple(sys.path)).get(group, {})


def load(group: str, name: str, package: str, need: str) -> Any:
    """The object that a sibling declares under this name. Refused if none does: `need`, which it is for, says why."""
    point = declared(group).get(name)
    if point is None:
        raise Refused(f"{need} needs the package {package}", path="install", hint=f"pip install '{package}=={VERSION}'")
    return point.load()


def check_fits(package: str, version: str) -> None:
    """Raise Refused if a sibling is of another version than the core; each sibling asks this when it is imported.

    The hint names all siblings that do not fit, so that one command mends them.
    """
    if version == VERSION:
        return
    installed = {name: version for name, (version, _) in _packages(tuple(sys.path)).items() if name in OURS}
    misfits = {name: at for name, at in sorted({**installed, package: version}.items()) if at != VERSION}
    names = ", ".join(f"{name} {at}" for name, at in misfits.items())
    command = " ".join(f"'{name}=={VERSION}'" for name in misfits)
    verb = "does" if len(misfits) == 1 else "do"
    raise Refused(f"{names} {verb} not fit perdure {VERSION}", path="install", hint=f"pip install {command}")


@cache
def _all(path: tuple[str, ...]) -> dict[str, dict[str, EntryPoint]]:
    """The entry points of all that is installed on a path, by group and name."""
    groups: dict[str, dict[str, EntryPoint]] = {}
    for package, (version, folder) in _packages(path).items():
        file = folder / "entry_points.txt"
        group = ""
        for line in file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else ():
            name, equals, value = line.partition("=")
            if line.startswith("["):
                group = line.strip("[] ")
            elif equals and not line.startswith(("#", ";")):
                point = EntryPoint(name.strip(), value.partition("[")[0].strip(), package, version)
                groups.setdefault(group, {}).setdefault(point.name, point)
    return groups


@cache
def _packages(path: tuple[str, ...]) -> dict[str, tuple[str, Path]]:
    """The packages on a path, each with its version and the folder of its metadata; of two with one name, the first."""
    packages: dict[str, tuple[str, Path]] = {}
    for place in path:
        try:
            folders = sorted(entry for entry in Path(place).iterdir() if entry.suffix in METADATA)
        except OSError:  # a place that is not there, or no folder: what lies in an archive declares nothing
            continue
        for folder in folders:
            name, _, version = folder.stem.partition("-")
            packages.setdefault(name.replace("_", "-").lower(), (version.partition("-py")[0], folder))
    return packages
