"""tools/near.py: the tests that are nearest to a file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


def near(file: str) -> tuple[list[str], list[str]]:
    spec = importlib.util.spec_from_file_location("near", TOP / "tools" / "near.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _, found, more = module.near(Path(file))
    return [str(path.relative_to(TOP)) for path in found], more


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("packages/perdure/src/perdure/log/fold.py", "packages/perdure/tests/log/test_fold.py"),
        ("packages/perdure-files/src/perdure_files/kind.py", "packages/perdure-files/tests"),
        ("tests/forked.py", "tests/test_forked.py"),
        ("tools/near.py", "tests/tools/test_near.py"),
        ("tests/test_docs.py", "tests/test_docs.py"),
        ("docs/guide/memory.md", "tests/test_docs.py"),
    ],
)
def test_the_nearest_tests_of_a_file(file: str, test: str) -> None:
    assert test in near(file)[0]


def test_a_module_without_a_test_of_its_path_has_those_that_import_it_and_not_all() -> None:
    found, _ = near("packages/perdure/src/perdure/cli/worker.py")
    assert 0 < len(found) < 10


def test_of_the_checks_of_pages_those_that_concern_the_page_run() -> None:
    assert near("docs/guide/memory.md")[1][1].startswith("memory or ")


def test_each_module_has_tests_near_to_it() -> None:
    modules = sorted(TOP.glob("packages/*/src/*/model/*.py"))
    assert len(modules) > 20
    assert [str(path) for path in modules[:20:5] if not near(str(path.relative_to(TOP)))[0]] == []
