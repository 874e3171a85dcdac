"""Every module is imported from the built wheels: the core beside what it requires alone, all packages beside their frameworks.

What an extra brings may be missing, and only that. `tools/prove_packages.py` runs the tests of each package from its wheel.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

TOP = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent.name for path in TOP.glob("packages/*/pyproject.toml"))
IMPORT_ALL = """
import importlib, json, pkgutil, sys
ours = json.loads(sys.argv[1])
sys.path[:0] = [*ours, *sys.argv[2:]]
missing, count = {}, 0
for folder, package in ours.items():
    for module in pkgutil.walk_packages([f"{folder}/{package}"], f"{package}.", onerror=lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
            count += 1
        except ImportError as error:
            missing[module.name] = str(error)
files = [module.__file__ for name, module in sys.modules.items() if name.partition("_")[0] == "perdure" and module.__file__]
print(json.dumps([count, missing, [file for file in files if not file.startswith(tuple(ours))]]))
"""
NAMED = re.compile(r"No module named '([a-z0-9_]+)")
CALLED_OTHERWISE = {"yaml", "google", "opentelemetry", "a2a", "agents", "strands", "agent_framework", "dbos"}


def project(package: str) -> dict[str, Any]:
    return tomllib.loads((TOP / "packages" / package / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all wheels in it, as an installer leaves them."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "built")]
        subprocess.run(command, cwd=TOP / "packages" / package, check=True, capture_output=True)
    for wheel in (folder / "built").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / wheel.name.partition("-")[0])
    return folder


def required(package: str, *, extras: bool = False) -> set[str]:
    """The distributions that a package of ours requires, with what they require."""
    declared = project(package)
    lines = [
        *declared["dependencies"],
        *(line for lines in declared["optional-dependencies"].values() for line in lines if extras),
    ]
    names: set[str] = set()
    waiting = [Requirement(line) for line in lines if not line.startswith("perdure")]
    while waiting:
        need = waiting.pop()
        if need.name not in names and (need.marker is None or need.marker.evaluate()):
            names.add(need.name)
            waiting += [further for line in distribution(need.name).requires or () if not (further := Requirement(line)).extras
                        and "extra ==" not in line]  # fmt: skip
    return names


def site_of(names: set[str], folder: Path) -> Path:
    """A folder of links to these distributions, and to nothing else that is installed."""
    folder.mkdir()
    for name in names:
        found = distribution(name)
        for top in {Path(str(file)).parts[0] for file in found.files or () if ".." not in str(file)}:
            place = folder / top
            if not place.exists():
                place.symlink_to(Path(str(found.locate_file(top))))
    return folder


def imported(packages: list[str], unpacked: Path, *more: Path) -> tuple[int, dict[str, str]]:
    """How many modules were imported, and which lack a module of others that no extra brings: each with what it says."""
    names = [package.replace("-", "_") for package in packages]
    ours = json.dumps({str(unpacked / name): name for name in names})
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", IMPORT_ALL, ours, *map(str, more)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    count, missing, elsewhere = json.loads(done.stdout)
    assert elsewhere == []
    extras = modules_of_extras(packages)
    return count, {
        name: says
        for name, says in missing.items()
        if "'perdure[" not in says and not (set(NAMED.findall(says)) & extras)
    }


def modules_of_extras(packages: list[str]) -> set[str]:
    """The modules that extras of these packages bring, as far as they are called like their distributions."""
    lines = (
        line
        for package in packages
        for lines in project(package).get("optional-dependencies", {}).values()
        for line in lines
    )
    return {Requirement(line).name.lower().replace("-", "_") for line in lines} | CALLED_OTHERWISE


def test_the_core_is_imported_beside_what_it_requires_and_nothing_else(unpacked: Path, tmp_path: Path) -> None:
    count, missing = imported(["perdure"], unpacked, site_of(required("perdure"), tmp_path / "site"))
    assert missing == {}
    assert count > 350


def test_control_without_what_it_requires_the_core_is_not_imported(unpacked: Path) -> None:
    assert "No module named 'msgspec'" in imported(["perdure"], unpacked)[1].values()


def test_all_packages_are_imported_beside_what_is_installed_here(unpacked: Path) -> None:
    site = Path(pytest.__file__).parents[1]  # without its `.pth` files, which lead to the sources
    count, missing = imported(PACKAGES, unpacked, site)
    assert missing == {}
    assert count > 700
