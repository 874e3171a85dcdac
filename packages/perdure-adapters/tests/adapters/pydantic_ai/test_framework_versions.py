"""A missing or unsupported Pydantic AI gives one line, with the pip command."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from perdure_adapters import framework_versions


def missing(_package: str) -> str:
    raise PackageNotFoundError


@pytest.mark.parametrize(
    ("found", "says", "command"),
    [
        (missing, "pydantic-ai-slim is not installed", "pip install 'perdure[pydantic-ai]'"),
        (lambda _: "2.30.0", "2.30.0 is installed", "pip install 'pydantic-ai-slim>=2.40,<3'"),
    ],
)
def test_a_framework_that_does_not_do_is_named(monkeypatch: Any, found: Any, says: str, command: str) -> None:
    monkeypatch.setattr(framework_versions, "version", found)
    monkeypatch.delitem(sys.modules, "perdure_adapters.pydantic_ai", raising=False)
    with pytest.raises(ImportError) as caught:
        __import__("perdure_adapters.pydantic_ai")
    assert says in str(caught.value)
    assert command in str(caught.value)
    assert "\n" not in str(caught.value)


def test_conversations_need_a_newer_one(monkeypatch: Any) -> None:
    adapter = pytest.importorskip(
        "perdure_adapters.pydantic_ai", reason="pip install 'perdure[pydantic-ai]'", exc_type=ImportError
    )
    monkeypatch.setattr(framework_versions, "version", lambda _: "2.50.0")
    with pytest.raises(ImportError, match=r"pip install 'pydantic-ai-slim>=2\.66,<3'"):  # the extra takes 2.40, too
        _ = adapter.PerdureConversationStore


def test_a_package_that_no_extra_brings_is_named_by_itself(monkeypatch: Any) -> None:
    monkeypatch.setattr(framework_versions, "version", missing)
    with pytest.raises(ImportError, match=r"^langchain is not installed \(pip install 'langchain>=1.0,<2'\)$"):
        framework_versions.need("langchain", (1, 0), (2,))
