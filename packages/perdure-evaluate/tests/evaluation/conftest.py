"""The tiny peer, installed once for all tests of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation import tiny
from perdure_evaluate import peers


@pytest.fixture(scope="session")
def tiny_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is installed."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny.wheel(folder)
    with pytest.MonkeyPatch.context() as patched:
        tiny.known(patched, folder)
        told: list[str] = []
        peers.install(tiny.NAME, told.append)
        assert "done once" in told[0]
    return folder


@pytest.fixture
def tiny_peer(tiny_place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """It is there, and no other peer is."""
    tiny.known(monkeypatch, tiny_place)
    return tiny.NAME
