"""Artifacts: memory does not grow with the content, and stores without a place keep it inside."""

from __future__ import annotations

import tracemalloc

import pytest

from perdure.errors import TooLarge
from perdure.handles.opening import open as open_store
from perdure.planes.conversation import artifacts

PIECE = bytes(range(256)) * 1024  # 256 KiB
MIB = 1024 * 1024


def test_a_large_artifact_never_stands_in_memory(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        tracemalloc.start()
        record = session.attach("big", (PIECE for _ in range(128)))
        size = sum(len(piece) for piece in session.artifact("big").open())
        session.artifact("big").save(tmp_path / "big")
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert record.size == size == 32 * MIB == (tmp_path / "big").stat().st_size
        assert peak_bytes < 8 * MIB


def test_without_a_place_it_lies_in_the_database(monkeypatch):
    with open_store("memory:") as store:
        assert store._caller.core.blobs.place is None
        session = store.session("a")
        session.attach("x", [PIECE] * 4)
        assert session.artifact("x").read() == PIECE * 4
        monkeypatch.setattr(artifacts, "VALUE_MAX_BYTES", len(PIECE))
        with pytest.raises(TooLarge) as caught:
            session.attach("x", [PIECE] * 4)
        assert caught.value.path == "data"
        assert "artifacts=" in caught.value.hint


def test_the_pin_is_gone_when_the_artifact_is_there(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        store.session("a").attach("x", PIECE)
        pins = store._caller.core.lane.borrow(
            lambda connection: connection.raw.execute("SELECT count(*) FROM blob_pins").get
        )
        assert pins == 0


@pytest.mark.parametrize("name", ["a.tar.gz", "x.TXT", "noext", ".bashrc", "a.b/c", "x."])
def test_a_guessed_type_is_always_one(name):
    assert "/" in artifacts.describe(name, b"", None, ()).media_type
