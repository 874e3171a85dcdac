"""Turns: what is kept with them besides what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.errors import Invalid
from perdure.planes.conversation import sessions, turns
from perdure.stores.tx import Tx


def test_an_origin_is_kept_as_data_and_is_no_part_of_what_a_key_stands_for(tmp_path: Path) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("s")
        origin = {"format": "x", "at": "2020-01-01"}

        def say(tx: Tx) -> None:
            stream, _ = sessions.open_session(tx, "s")
            said = turns.say(tx, stream, "assistant", "hi", key="k", calls=[perdure.Call("c", "t")], origin=origin)
            assert said.origin == origin
            assert turns.say(tx, stream, "assistant", "hi", key="k", calls=[perdure.Call("c", "t")]).origin == origin
            assert turns.result(tx, stream, "c", 1, origin=origin).origin == origin

        store._caller.write(say)
        assert [turn.origin for turn in session.fork(at=session.info().last_seq, name="f").turns()] == [origin, origin]
        assert session.say("user", "here").origin is None
        assert store.verify().ok
        with pytest.raises(Invalid, match="origin"):
            store._caller.write(lambda tx: turns.say(tx, session._stream, "user", "x", origin={"a": object()}))
