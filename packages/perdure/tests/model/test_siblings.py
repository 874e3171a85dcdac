"""Other packages, as installers leave them: found without an import; refused if missing, broken or of another version."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

import perdure
from perdure.model import siblings
from perdure.version import VERSION

GROUP = "perdure.commands"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, before all others."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, package: str, version: str, declarations: str) -> None:
    """Leave what an installer leaves of a package that declares entry points."""
    folder = site / f"{package.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(declarations)


def test_a_package_is_found_and_not_imported(site: Path) -> None:
    install(
        site, "a-shelf", "1.2", f"[console_scripts]\nshelf = a_shelf:main\n\n[{GROUP}]\nshelf = a_shelf:shelf [dusty]\n"
    )
    (site / "a_shelf.py").write_text("def shelf(): return 'a shelf'\n")
    point = siblings.declared(GROUP)["shelf"]
    assert point == ("shelf", "a_shelf:shelf", "a-shelf", "1.2")
    assert "a_shelf" not in sys.modules
    assert siblings.load(GROUP, "shelf", "a-shelf", "perdure shelf")() == "a shelf"


def test_of_two_with_one_name_the_first_on_the_path_counts(
    site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    sys.path.append(str(other))  # taken back with the fixture's
    install(site, "a-shelf", "2", f"[{GROUP}]\nshelf = newer\n")
    install(other, "a-shelf", "1", f"[{GROUP}]\nshelf = older\nboard = older\n")
    assert siblings.declared(GROUP)["shelf"].value == "newer"
    assert "board" not in siblings.declared(GROUP)  # a package that is hidden by another of its name declares nothing


def test_one_that_is_missing_names_the_command_that_brings_it() -> None:
    with pytest.raises(perdure.Refused, match="perdure fly needs the package perdure-wings") as refusal:
        siblings.load(GROUP, "fly", "perdure-wings", "perdure fly")
    assert refusal.value.hint == f"pip install 'perdure-wings=={VERSION}'"


def test_one_that_is_broken_says_why(site: Path) -> None:
    install(site, "a-shelf", "1", f"[{GROUP}]\nshelf = a_broken_shelf:shelf\n")
    (site / "a_broken_shelf.py").write_text("import nothing_like_it\n")
    with pytest.raises(perdure.Refused, match="a-shelf cannot be loaded: ModuleNotFoundError") as refusal:
        siblings.load(GROUP, "shelf", "a-shelf", "perdure shelf")
    assert refusal.value.hint == "pip install --force-reinstall --no-deps a-shelf"


def test_one_command_mends_all_siblings_of_other_versions(site: Path) -> None:
    install(site, "perdure-server", "0.0.7", f"[{GROUP}]\nserve = perdure_server:serve\n")
    install(site, "perdure-files", "0.0.8", "[perdure.stores]\nfiles = perdure_files:kind\n")
    with pytest.raises(
        perdure.Refused, match=f"perdure-files 0.0.8, perdure-server 0.0.7 do not fit perdure {VERSION}"
    ) as refusal:
        siblings.load(GROUP, "serve", "perdure-server", "perdure serve")
    assert refusal.value.hint == f"pip install 'perdure-files=={VERSION}' 'perdure-server=={VERSION}'"


def test_what_is_no_declaration_is_passed_over(site: Path) -> None:
    install(
        site,
        "a-shelf",
        "1",
        f"no section = here\n# [a comment]\n[{GROUP}\n; another\nshelf\n= nothing\n[{GROUP}]\nshelf=a:b\n",
    )
    (site / "not_a_package-1.dist-info").write_text("a file where a folder was expected")
    sys.path.append(str(site / "missing"))
    assert siblings.declared(GROUP)["shelf"].value == "a:b"


def test_a_sibling_of_another_version_is_refused_when_it_is_imported(site: Path) -> None:
    install(site, "perdure-files", "0.0.8", "[perdure.stores]\nfiles = perdure_files:kind\n")
    with pytest.raises(perdure.Refused, match=r"perdure-files 0.0.8, perdure-server 0.2.0 do not fit") as refusal:
        siblings.check_fits("perdure-server", "0.2.0")
    assert refusal.value.hint == f"pip install 'perdure-files=={VERSION}' 'perdure-server=={VERSION}'"
    siblings.check_fits("perdure-server", VERSION)


PACKAGES = Path(__file__).parents[3]


@pytest.mark.parametrize("folder", sorted(PACKAGES.glob("perdure-*")), ids=lambda folder: folder.name)
def test_each_sibling_pins_this_core_and_asks_whether_it_fits(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    (opening,) = folder.glob("src/*/__init__.py")
    assert project["version"] == VERSION
    assert f"perdure=={VERSION}" in project["dependencies"]
    assert f'check_fits("{folder.name}", "{VERSION}")' in opening.read_text("utf-8")


def test_there_are_as_many_siblings_as_the_core_knows() -> None:
    assert {folder.name for folder in PACKAGES.glob("perdure-*")} == {*siblings.OURS}


def test_an_address_of_a_sibling_is_its_own_module(site: Path) -> None:
    """`perdure.adapters.langgraph` and `perdure_adapters.langgraph` have one set of classes."""
    (site / "a_wing").mkdir()
    (site / "a_wing" / "__init__.py").write_text("")
    (site / "a_wing" / "feather.py").write_text("class Feather: pass\n")
    (site / "a_bird.py").write_text(
        'from perdure.model.stand_ins import stand_in\nstand_in(__name__, "a_wing", "wing")\n'
    )
    finders = list(sys.meta_path)
    try:
        bird = importlib.import_module("a_bird.feather")
        wing = importlib.import_module("a_wing.feather")
    finally:
        sys.meta_path[:] = finders
    assert bird is wing
    assert wing.__spec__ is not None
    assert wing.__spec__.name == "a_wing.feather"


def test_an_address_of_a_sibling_that_is_missing_names_the_extra(site: Path) -> None:
    (site / "a_fish.py").write_text(
        'from perdure.model.stand_ins import stand_in\nstand_in(__name__, "a_fin", "fin")\n'
    )
    with pytest.raises(ModuleNotFoundError, match=r"a_fish is in the package a-fin \(pip install 'perdure\[fin\]'\)"):
        importlib.import_module(f"a_{'fish'}")
