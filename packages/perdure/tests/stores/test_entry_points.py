"""A store from another package: found by its entry point, opened by its URL, and run through the contract with one fixture."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import perdure
from perdure.stores import entry_points

SHELF = """
from pathlib import Path
from urllib.parse import unquote

from perdure.errors import Invalid
from perdure.stores.sqlite import SqliteEngine
from perdure.stores.url import Address


class Shelf:
    def parse(self, url):
        place = unquote(url.removeprefix("shelf:///"))
        if not place:
            raise Invalid("expected shelf:///folder", path="store")
        return Address(url, "shelf", path=Path(place).absolute() / "shelf.db")

    def engine(self, address, timeout_seconds, *, read_only):
        address.path.parent.mkdir(exist_ok=True)
        return SqliteEngine(address.url, address.path, timeout_seconds, read_only=read_only)


kind = Shelf()
"""
CONFTEST = """
import pytest

@pytest.fixture
def store_url(tmp_path):
    return f"shelf:///{tmp_path}/state"
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package, made as a wheel and unpacked where Python finds it, as installers do."""
    wheel, site = tmp_path / "perdure_shelf-1.0-py3-none-any.whl", tmp_path / "site"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("perdure_shelf.py", SHELF)
        about = "perdure_shelf-1.0.dist-info"
        packed.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: perdure-shelf\nVersion: 1.0\n")
        packed.writestr(f"{about}/entry_points.txt", "[perdure.stores]\nshelf = perdure_shelf:kind\n")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def python(site: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True, check=False)


def test_its_url_opens_it(installed: Path) -> None:
    program = (
        "import perdure\n"
        "with perdure.open('shelf:///one') as store: store.session('a').say('user', 'hello')\n"
        "with perdure.open('shelf:///one', read_only=True) as store: print(store.session('a').turns()[0].content)\n"
    )
    done = python(installed, "-c", program)
    assert done.stdout == "hello\n", done.stderr
    assert (installed / "one" / "shelf.db").exists()


def test_the_contract_runs_on_it_with_one_fixture(installed: Path) -> None:
    (installed / "conftest.py").write_text(CONFTEST)
    (installed / "test_contract.py").write_text("from perdure_testing.contract.suite import *\n")
    chosen = ["-k", "TurnContract or LedgerContract", "-p", "no:cacheprovider"]
    done = python(installed, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", installed, *chosen, installed)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_one_that_cannot_be_loaded_is_refused(installed: Path) -> None:
    (installed / "perdure_shelf.py").write_text("import nothing_like_it")
    done = python(installed, "-m", "perdure", "sessions", "--store", "shelf:///one")
    assert done.returncode == perdure.Refused.exit_code
    assert "the package that declares shelf: perdure-shelf cannot be loaded" in done.stderr


def test_a_scheme_that_nobody_declares_is_unknown() -> None:
    assert entry_points.kind_of("shelf") is None
    with pytest.raises(perdure.Invalid, match="unknown store 'shelf'"):
        perdure.open("shelf:///one")
