# Generated from testing/contract/aio/handles.py by tools/unasync.py: edit that one.
"""The contract of handles themselves: what they show of themselves, and what cannot be set on them."""

from __future__ import annotations

import pytest

from perdure.stores.url import without_password
from perdure.testing.contract.sync.feed import emit_some
from perdure.testing.openers import Opener


class HandlesContract:
    """What a person sees in a debugger or a log."""

    def test_a_handle_says_what_it_is(self, opener: Opener) -> None:
        with opener(actor="ann") as store:
            session = store.session("issue-42")
            turn = session.say("user", "hi")
            kind, store_kind = type(session).__name__, type(store).__name__
            assert repr(store) == f"{store_kind}({without_password(opener.url)!r}, actor='ann')"
            assert repr(session) == f"{kind}('issue-42')"
            assert repr(session.at(turn.seq)) == f"{kind}('issue-42', at={turn.seq})"
            assert repr(session.fork(name="f")) == f"{kind}('f')"
            emit_some(store, 1)
            batch = (store.subscribe("reader")).next()
            assert len(batch) > 1
            assert repr(batch) == f"{type(batch).__name__}({len(batch)} events)"

    def test_records_of_sessions_are_one_line(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a", title="A\ntitle" * 100)
            (header,) = store.sessions()
            for record in (header, session.info()):
                shown = repr(record)
                assert shown.startswith(f"{type(record).__name__}('a', 'A\\ntitle")
                assert "active, 1 event, last 20" in shown
                assert "\n" not in shown
                assert len(shown) < 200

    def test_what_does_not_exist_cannot_be_set(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            task = session.task("t")
            decision = session.decide("d", because="b")
            artifact = session.attach("f", b"x")
            lock, batch = session.lock("l"), (store.subscribe("r")).next()
            for handle in (store, session, store.scope("s"), task, decision, artifact, lock, batch):
                with pytest.raises(AttributeError):
                    setattr(handle, "gaol", "x")  # noqa: B010 - a checker would see it
                assert not hasattr(handle, "__dict__")
