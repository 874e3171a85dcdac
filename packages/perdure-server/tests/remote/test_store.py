"""A store over the network: broken connections, errors, refusals, options. The verbs themselves are in the contract."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec
import pytest

import perdure
from doors.http.serving_kit import LiveServer, make_token
from hostile_http import ANSWER_IS_LOST, IS_LOST, PASSES, Fate, HostileProxy
from perdure.errors import Conflict, Invalid, NotFound, Refused, Unauthenticated, Unavailable
from perdure.model.ids import new_uid
from perdure.model.records.effects import Declined
from perdure.remote import asking, connection
from perdure_server.http.inputs import Input


def port_of(server: LiveServer) -> int:
    return int(address_of(server).rpartition(":")[2])


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@pytest.fixture
def server(url) -> Iterator[LiveServer]:
    with LiveServer(url) as found:
        yield found


def address_of(server: LiveServer) -> str:
    return str(server.http.base_url).rstrip("/")


def written(store: perdure.Store) -> None:
    """A write of every kind: with a key of its own, by a mark, by its nature."""
    session = store.session("s")
    session.say("user", "hello")
    session.decide("A", because="b")
    session.set("n", 1)
    session.task("t")
    session.emit("deploy.done")
    session.attach("f", b"content")
    session.fork(name="other")
    store.scope("x").remember("m")
    store.start(perdure.agent(fix), 1)


def fix(run: object, number: int) -> None: ...


def kinds(url: str) -> list[str]:
    with perdure.open(url, read_only=True) as store:
        return sorted(each.kind for each in store.feed(limit=1_000))


@pytest.mark.parametrize(
    "trouble", [IS_LOST, ANSWER_IS_LOST, Fate(upto=60), Fate(status=502), Fate(arrives=False, status=503)]
)
def test_every_write_is_done_once_whatever_breaks(url, tmp_path, server, trouble) -> None:
    text = make_token(url)
    plain = f"sqlite:///{tmp_path}/plain.db"
    with LiveServer(plain) as other, perdure.open(address_of(other), token=make_token(plain)) as store:
        written(store)
    fates = HostileProxy(port_of(server), lambda number, _: trouble if number % 3 == 2 else PASSES)
    with fates as way, perdure.open(way.url, token=text) as store:
        written(store)
    assert way.count > 15
    assert kinds(url) == kinds(plain)


def test_control_without_keys_a_lost_answer_writes_twice(url, server, monkeypatch) -> None:
    """Each repetition gets another key: then what was carried out is carried out again."""
    kept = connection.Connections._exchange

    def renewed(self, method, target, body, headers):
        if "Idempotency-Key" in headers:
            headers = {**headers, "Idempotency-Key": new_uid().hex()}
        return kept(self, method, target, body, headers)

    monkeypatch.setattr(connection.Connections, "_exchange", renewed)
    text = make_token(url)
    fates = HostileProxy(port_of(server), lambda number, _: ANSWER_IS_LOST if number % 3 == 2 else PASSES)
    with fates as way, perdure.open(way.url, token=text) as store:
        session = store.session("s")
        for _ in range(6):
            session.emit("deploy.done")
        assert len(session.events(emitted=True)) > 6


def test_an_idle_connection_that_the_server_closed_is_replaced(url) -> None:
    text = make_token(url)
    with LiveServer(url) as first:
        port = first.http.base_url.port
        store = perdure.open(f"http://127.0.0.1:{port}", token=text)
        store.session("s").say("user", "one")
        taken = store._caller.core._connections._idle
        assert taken
        for each in taken:
            each.sock.shutdown(socket.SHUT_RDWR)
        store.session("s").say("user", "two")
        assert [turn.content for turn in store.session("s").turns()] == ["one", "two"]
        store.close()


def test_errors_are_those_of_the_tree(url, server) -> None:
    with perdure.open(address_of(server), token=make_token(url)) as store:
        session = store.session("s")
        session.set("n", 1)
        with pytest.raises(Conflict) as conflict:
            session.set("n", 2, expect=5)
        assert (conflict.value.path, conflict.value.facts) == ("expect", {"version": 1, "value": 1})
        with pytest.raises(NotFound):
            session.decision(99)
        with pytest.raises(Invalid) as invalid:
            session.decide("", because="b")
        assert invalid.value.path == "text"
        decision = session.decide("A", because="b")
        decision.supersede("B", because="c")
        with pytest.raises(Conflict):
            decision.supersede("C", because="c")


def test_what_cannot_be_had_is_refused_with_where_to_do_it(url, server, tmp_path) -> None:
    with perdure.open(address_of(server), token=make_token(url)) as store:
        session = store.session("s")
        before = len(store.runs())
        for verb in (
            lambda: store.drive(perdure.agent(fix), 1),
            lambda: session.act(fix, 1),
            lambda: store.atomic(lambda tx: None),
            lambda: session.once("k", lambda tx: None),
            lambda: store.query("SELECT 1"),
            store.collect,
            lambda: store.backup(tmp_path / "b"),
            store.recover,
            lambda: session.lock("l").__enter__(),
            lambda: session.prune_checkpoints(keep=1),
            lambda: store.as_("bob").session("s").say("user", "x"),
        ):
            with pytest.raises(Refused) as refused:
                verb()
            assert refused.value.hint
        assert len(store.runs()) == before


def test_options_of_the_server_cannot_be_chosen(url, server) -> None:
    at, text = address_of(server), make_token(url)
    for options in ({"actor": "bob"}, {"tenant": "other"}, {"read_only": True}, {"lease": 5.0}):
        with pytest.raises(Invalid) as invalid:
            perdure.open(at, token=text, **options)
        assert invalid.value.path == next(iter(options))
    with pytest.raises(Invalid):
        perdure.open(url, token=text)


def test_only_a_token_opens_a_server(url, server, monkeypatch) -> None:
    at = address_of(server)
    monkeypatch.delenv("PERDURE_TOKEN", raising=False)
    for text in (None, "", "wrong", "pdr_" + "0" * 60):
        with pytest.raises(Unauthenticated):
            perdure.open(at, token=text)
    monkeypatch.setenv("PERDURE_TOKEN", make_token(url, actor="carol"))
    with perdure.open(at) as store:
        assert store.actor == "carol"


@pytest.mark.parametrize(
    "wrong", ["https://", "http://u:p@localhost", "https://host:0", "https://host/?a=1", "https://host:x"]
)
def test_an_address_that_is_none(wrong) -> None:
    with pytest.raises(Invalid):
        perdure.open(wrong, token="pdr_x")


def test_a_token_does_not_cross_a_network_in_the_clear() -> None:
    with pytest.raises(Refused, match="in the clear"):
        perdure.open("http://192.0.2.1:8930", token="pdr_x")


def test_a_server_that_does_not_answer(url) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unavailable, match="does not answer"):
        perdure.open(f"http://127.0.0.1:{port}", token="pdr_x", timeout=0.1)


# -- what a body says --------------------------------------------------------------------------------------------------


def test_another_name_than_the_tokens_is_refused_and_not_dropped(server, url) -> None:
    """A server believes its tokens alone, so the audit would say another name than the caller."""
    with perdure.open(server.address, token=make_token(url)) as store:
        asked = store.session("s").ask("Really?")
        with pytest.raises(Refused, match="acts as 'alice', not as 'zoe'"):
            store.answer(asked.id, "yes", by="zoe")
        effect = store.session("s").begin("mail", {}, key="k")
        with pytest.raises(Refused, match="not as 'zoe'"):
            effect.settle(Declined("no"), by="zoe")
        assert store.answer(asked.id, "yes", by="alice").met_by == "alice"


def test_an_older_server_is_not_sent_what_says_nothing() -> None:
    """It refuses a field that it does not know, and `None`, `False` and an empty list mostly mean that nothing was said."""
    assert asking.given({"text": "a", "importance": None, "force": False, "labels": []}) == {"text": "a"}
    assert asking.given({"value": None, "tags": [], "priority": 0}) == {"value": None, "tags": [], "priority": 0}


def bodies(of: type = Input) -> Iterator[type]:
    for body in of.__subclasses__():
        yield body
        yield from bodies(body)


def takes(field: msgspec.structs.FieldInfo, value: object) -> bool:
    try:
        msgspec.convert(value, field.type)
    except msgspec.ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("nothings", "said"), [((None,), asking.NULL_IS_SAID), (([], False), asking.EMPTY_IS_SAID)], ids=["null", "empty"]
)
def test_no_field_whose_nothing_means_something_is_left_out(nothings, said) -> None:
    """Of every body but those of PATCH, which say each field that they have."""
    fields = [field for body in set(bodies()) for field in msgspec.structs.fields(body)]
    assert len(fields) > 150
    differs = set()
    for field in fields:
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if default is msgspec.UNSET:
            continue
        differs |= {
            field.name for each in nothings if takes(field, each) and (type(each), each) != (type(default), default)
        }
    assert differs == said
