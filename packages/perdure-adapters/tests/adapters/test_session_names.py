"""A framework's own name stands for a session of any name, once."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import Conflict, NotFound
from perdure_adapters import session_names


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


def bring(store, session, own):
    store.atomic(lambda tx: session_names.bring(tx, session, own))


def test_a_name_stands_for_its_own_session_until_another_one_is_brought(store):
    assert session_names.name_in(store, "adk/shop/alice/7") == "adk/shop/alice/7"
    store.session("order-7").say("user", "hello")
    bring(store, "order-7", "adk/shop/alice/7")
    bring(store, "order-7", "adk/shop/alice/7")
    assert session_names.name_in(store, "adk/shop/alice/7") == "order-7"
    store.atomic(lambda tx: session_names.let_go(tx, "adk/shop/alice/7"))
    assert session_names.name_in(store, "adk/shop/alice/7") == "adk/shop/alice/7"


def test_a_session_that_is_not_there_is_not_brought(store):
    with pytest.raises(NotFound, match="order-7"):
        bring(store, "order-7", "adk/shop/alice/7")
    assert not [each.name for each in store.sessions()]


def test_a_name_that_has_a_conversation_is_not_given_another(store):
    for name in ("order-7", "order-8"):
        store.session(name).say("user", name)
    store.session("adk/shop/alice/7").say("user", "mine")
    with pytest.raises(Conflict, match="already"):
        bring(store, "order-7", "adk/shop/alice/7")
    bring(store, "order-7", "adk/shop/alice/8")
    with pytest.raises(Conflict, match="order-7"):
        bring(store, "order-8", "adk/shop/alice/8")
