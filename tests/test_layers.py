"""The folder list is the architecture: a package imports only from those above. `.importlinter` says it, and this runs it.

The linter cannot read a module that is named in text: each such name has its import under TYPE_CHECKING, which it reads.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sources import PACKAGES, ROOT, module_name, sources

CONTRACTS = ROOT / ".importlinter"
READ = re.compile(r"Analyzed (\d+) files, (\d+) dependencies")
HEAVY = {
    "anyio", "asyncio", "click", "cryptography", "jinja2", "multiprocessing", "numpy", "obstore", "opentelemetry", "psycopg",
    "pydantic", "pytest", "redis", "rich", "starlette", "unittest", "uvicorn",
}  # fmt: skip
PROMISED = {"open", "aopen", "Session", "AsyncSession", "Call"}  # names that users rely on


def lint(*folders: Path) -> tuple[int, str]:
    """What the linter says of the packages in these folders: its exit code and its text."""
    command = [Path(sysconfig.get_path("scripts"), "lint-imports"), "--config", CONTRACTS, "--no-cache"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folders[0], env=env)
    return ran.returncode, ran.stdout + ran.stderr


def test_a_package_imports_only_from_those_above_it() -> None:
    code, text = lint(*(package.parent for package in PACKAGES))
    assert code == 0, text
    (files, imports) = map(int, READ.findall(text)[0])
    assert files > 800
    assert imports > 5000


def layers() -> list[str]:
    """The folders of the core in their order, as `.importlinter` has them."""
    blocks = re.findall(r"(?m)^layers =\n((?:    \w+\n)+)", CONTRACTS.read_text("utf-8"))
    return blocks[-1].split()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All packages, the core with every layer, and imports that go upward in it."""
    top = tmp_path_factory.mktemp("small")
    siblings = [package.name for package in PACKAGES[1:]]
    parts = ["", *layers(), "handles/aio", "handles/sync", "adapters", "testing"]
    below = [
        "perdure_server/telemetry",
        "perdure_files/store",
        "perdure_files/merge",
        "perdure_files/views",
        "perdure_agents/importers",
    ]
    for part in [*(f"perdure/{part}" for part in parts), *siblings, *below]:
        folder = top / part
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    write(top, "log.fold", "from perdure.model import ids\nfrom . import change\nfrom ..model import ids as again")
    write(top, "model.ids", "import os.path")
    write(top, "planes.audit.__init__", "")
    write(top, "planes.memory.__init__", "")
    write(top, "planes.memory.early", "from perdure.planes import audit")
    write(top, "stores.sqlite", "import apsw")
    (top / "perdure_agents" / "importers" / "foreign_sqlite.py").write_text("import apsw")
    write(top, "log.change", "x = 1")
    write(top, "cli.main", "import perdure\nfrom perdure.handles import sync")
    return top


def write(top: Path, module: str, text: str) -> Path:
    path = top / "perdure" / (module.replace(".", "/") + ".py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_control_the_way_upward_is_free(small: Path) -> None:
    assert lint(small)[0] == 0


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("model.values", "from perdure.log import fold"),
        ("log.late", "def f():\n    from perdure.handles.aio import store"),
        ("planes.turns", "from ..cli import main"),
        ("cli.kit", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import perdure_evaluate"),
        ("upkeep.kit", "def f():\n    from perdure_files import store"),
        ("handles.aio.store", "from perdure.handles.sync import store"),
        ("handles.sync.session", "from .. import aio"),
        ("planes.surface", "import perdure"),
        ("planes.surface", "from perdure import open"),
        ("planes.query", "import apsw"),
        ("cli.query", "def f():\n    from psycopg import sql"),
        ("log.query", "import sqlite3"),
        ("planes.audit.late", "from perdure.planes.memory import early"),
        ("nowhere.a", "x = 1"),
    ],
)
def test_control_a_trespass_is_caught(small: Path, module: str, text: str) -> None:
    path = write(small, module, text)
    (path.parent / "__init__.py").touch()
    try:
        code, said = lint(small)
    finally:
        path.unlink()
        if module.startswith("nowhere"):
            (path.parent / "__init__.py").unlink()
            path.parent.rmdir()
    assert code == 1, said


# Modules that are named in text -----------------------------------------------------------------------------


def named_in_text(tree: ast.Module) -> Iterator[str]:
    """Every module that `lazily("package", "module", …)` promises."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazily":
            package, *names = [ast.literal_eval(argument) for argument in node.args]
            yield from (f"{package}.{name}" for name in names)


def imported(tree: ast.Module) -> set[str]:
    """Everything that is imported by its full name."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}


def unseen(text: str) -> set[str]:
    """The modules that are named in text, and are imported nowhere beside it."""
    tree = ast.parse(text)
    return {*named_in_text(tree)} - imported(tree)


def test_the_linter_sees_every_module_that_is_named_in_text() -> None:
    texts = {module_name(path): path.read_text("utf-8") for path in sources(".py")}
    names = {name for text in texts.values() for name in named_in_text(ast.parse(text))}
    assert len(names) > 30
    assert {name for name in names if name not in texts and f"{name}.__init__" not in texts} == set()
    assert {module: names for module, text in texts.items() if (names := unseen(text))} == {}


def test_control_a_name_without_its_import_is_seen() -> None:
    twin = "if TYPE_CHECKING:\n    from perdure.boot import checking\nelse:\n    "
    assert unseen(f'{twin}checking, stale = lazily("perdure.boot", "checking", "stale")') == {"perdure.boot.stale"}


# The surface ------------------------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after the statement, beyond its own."""
    return {name.partition(".")[0] for name in modules_of(statement)}


def modules_of(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the statement, beyond its own."""
    path = f"import json, sys; sys.path.insert(0, {str(PACKAGES[0].parent)!r}); before = set(sys.modules)"
    program = f"{path}; {statement}; print(json.dumps(sorted(set(sys.modules) - before)))"
    command = [sys.executable, "-I", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(ran.stdout))


DRIVEN = """
import perdure

@perdure.tool(kind="idempotent")
def send(number):
    return number

@perdure.agent
def loads(run):
    return run.act(send, run.step(abs, -1))

with perdure.open("memory:") as store:
    store.drive(loads)
"""
UNTOUCHED = (
    "boot", "effects.adopting", "effects.child_process", "effects.envelope", "interchange", "planes.audit.verify",
    "planes.execution.tasks", "planes.memory.search", "planes.retention", "runtime.workspace", "stores.git",
    "stores.user_query", "upkeep",
)  # fmt: skip


def untouched_in(loaded: set[str]) -> set[str]:
    return {name for name in loaded if any(f"{name}.".startswith(f"perdure.{each}.") for each in UNTOUCHED)}


def test_a_driven_run_loads_no_plane_that_it_does_not_touch() -> None:
    """Each of them is paid for by every process that resumes a run (decision 0055)."""
    loaded = modules_of(f"exec({DRIVEN!r})")
    assert "perdure.runtime.driver" in loaded
    assert untouched_in(loaded) == set()
    assert untouched_in({"perdure.upkeep.backup", "perdure.boot"}) == {"perdure.upkeep.backup", "perdure.boot"}


def test_importing_perdure_is_light() -> None:
    assert loaded_by("import perdure") & HEAVY == set()


def test_control_a_heavy_import_is_seen() -> None:
    assert "unittest" in loaded_by("import unittest.mock") & HEAVY


@pytest.fixture
def surface() -> ModuleType:
    perdure = pytest.importorskip("perdure")
    if not hasattr(perdure, "__all__"):
        pytest.skip("perdure/__init__.py has no __all__ yet")
    return perdure


def unlisted(surface: Any) -> set[str]:
    """Public names that stand in the module and not in `__all__`; submodules are no names of the surface."""
    named = {name for name, it in vars(surface).items() if not name.startswith("_") and not isinstance(it, ModuleType)}
    return named - set(surface.__all__) - {"annotations"}


def test_the_surface_is_what_all_says(surface: ModuleType) -> None:
    assert [name for name in surface.__all__ if not hasattr(surface, name)] == []
    assert len(set(surface.__all__)) == len(surface.__all__)
    assert unlisted(surface) == set()
    assert set(surface.__all__) >= PROMISED


def test_control_a_name_beside_all_is_seen() -> None:
    leaky = ModuleType("leaky")
    vars(leaky).update(__all__=["a"], a=1, b=2, _c=3, json=json)
    assert unlisted(leaky) == {"b"}
