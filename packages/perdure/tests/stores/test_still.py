"""A file in a folder that may not be written is read as one that does not change, and only as long as it does not."""

from __future__ import annotations

import perdure
from perdure.stores import sqlite


def test_a_file_that_changes_after_all_is_read_as_one_that_does(tmp_path, monkeypatch):
    """The reader may not write the folder; somebody else may, and opens the store later."""
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        store.session("a").say("user", "one")
    writable = sqlite._is_writable
    monkeypatch.setattr(sqlite, "_is_writable", lambda folder: False)
    with perdure.open(url, read_only=True) as reader:
        session = reader.session("a")
        assert len(session.turns()) == 1  # through a connection that takes the file for immutable
        monkeypatch.setattr(sqlite, "_is_writable", writable)
        with perdure.open(url) as writer:
            for number in range(50):
                writer.session("a").say("user", f"{number} " * 2000)
            monkeypatch.setattr(sqlite, "_is_writable", lambda folder: False)
            assert len(session.turns()) == 51  # beside the writer
        assert len(session.turns()) == 51  # after its checkpoint
        assert reader.verify().ok
