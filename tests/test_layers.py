"""The folder list is the architecture (DESIGN §4): a package imports only from those above.

Imports inside functions and under TYPE_CHECKING count too: knowing a layer is depending on it.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "perdure"
ORDER = (
    "errors", "model", "log", "artifacts", "stores", "planes", "effects", "privacy", "runtime", "telemetry", "boot", "upkeep",
    "interchange", "remote", "handles", "adapters", "testing", "evaluation", "doors",
)  # fmt: skip
STRANGERS = [("handles.aio", "handles.sync")]  # neither imports the other
USES_THE_SURFACE = ORDER[ORDER.index("adapters") :]  # may say `import perdure`, as users do
HEAVY = {
    "anyio", "asyncio", "click", "cryptography", "jinja2", "multiprocessing", "numpy", "obstore", "opentelemetry", "psycopg",
    "pydantic", "pytest", "redis", "rich", "starlette", "unittest", "uvicorn",
}  # fmt: skip
PROMISED = {"open", "aopen", "Session", "AsyncSession", "Call"}  # names of DESIGN §8 that users rely on


def modules() -> dict[str, str]:
    """Every module below `perdure` by its dotted name, with its text."""
    paths = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in PACKAGE.rglob("*.py")}
    return {name.replace("/", "."): path.read_text("utf-8") for name, path in paths.items()}


def imported(module: str, text: str) -> Iterator[tuple[int, str]]:
    """The modules of Perdure that a module imports, relative ones resolved; `` is the surface itself."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = ["perdure", *module.split(".")][: -node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == "perdure":
                yield node.lineno, name.partition(".")[2]


def layer(module: str) -> str:
    return module.partition(".")[0]


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def trespass(module: str, target: str) -> str:
    """Why this import is not allowed; nothing if it is."""
    own, other = layer(module), layer(target)
    if other not in ORDER:
        return "" if own in USES_THE_SURFACE else "only doors and what is below them use the surface"
    for pair in (*STRANGERS, *((right, left) for left, right in STRANGERS)):
        if within(module, pair[0]) and within(target, pair[1]):
            return f"{pair[0]} and {pair[1]} do not know each other"
    return "" if ORDER.index(other) <= ORDER.index(own) else f"{other} stands below {own}"


def trespasses(texts: dict[str, str]) -> list[str]:
    return [
        f"perdure/{module.replace('.', '/')}.py:{line}: imports {target or 'perdure'}: {why}"
        for module, text in texts.items()
        if module not in ("__init__", "__main__")
        for line, target in imported(module, text)
        if (why := trespass(module, target))
    ]


def test_every_package_has_its_place() -> None:
    assert {layer(module) for module in modules()} - {"__init__", "__main__"} <= set(ORDER)


def test_a_package_imports_only_from_those_above_it() -> None:
    found = trespasses(modules())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("model.values", "from perdure.log import fold"),
        ("log.fold", "import perdure.stores.sqlite"),
        ("errors", "from perdure.model.limits import X"),
        ("planes.turns", "def f():\n    from perdure.handles.aio.store import AsyncStore"),
        ("planes.turns", "from ..doors import cli"),
        ("planes.turns.deep", "from ...doors import cli"),
        ("stores.__init__", "from ..planes import turns"),
        ("artifacts.disk", "from perdure.stores import store"),
        ("handles.aio.store", "from perdure.handles.sync import store"),
        ("handles.sync.store", "from ..aio import store"),
        ("planes.turns", "import perdure"),
        ("planes.turns", "from perdure import open"),
        ("planes.turns", "from perdure import doors"),
        ("testing.kit", "if TYPE_CHECKING:\n    from perdure.evaluation import X"),
    ],
)
def test_control_a_trespass_is_caught(module: str, text: str) -> None:
    assert len(trespasses({module: text})) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("log.fold", "from perdure.model.values import X\nfrom perdure import errors"),
        ("log.fold", "from . import change\nfrom .change import X\nfrom ..model import ids"),
        ("planes.turns", "from perdure.stores.store import X\nfrom perdure.artifacts import place"),
        ("handles.sync.store", "from .session import Session\nfrom perdure.handles.sync import x"),
        ("doors.cli.main", "import perdure\nfrom perdure import open"),
        ("__init__", "from perdure.handles import sync"),
        ("model.ids", "import perdure_other\nimport os.path"),
    ],
)
def test_control_the_way_upward_is_free(module: str, text: str) -> None:
    assert trespasses({module: text}) == []


# The surface ------------------------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after the statement, beyond its own."""
    return {name.partition(".")[0] for name in modules_of(statement)}


def modules_of(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the statement, beyond its own."""
    path = f"import json, sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); before = set(sys.modules)"
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
    return {name for name in loaded if any(within(name.removeprefix("perdure."), each) for each in UNTOUCHED)}


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
