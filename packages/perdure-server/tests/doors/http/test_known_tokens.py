"""Tokens that a server knows: each request asks whether they still open anything; a session that went is missed at once (P11)."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

import perdure
from doors.http.serving_kit import bearer, client, make_token
from perdure.errors import Unauthenticated
from perdure.planes.access import known_tokens, tokens
from perdure.planes.access.known_tokens import KnownTokens
from perdure.planes.access.tokens import CONTROL, TokenRole
from perdure.runtime.callers import caller_of
from perdure.stores.glances import Glances
from perdure_server.http.places import url_of

TURN = {"role": "user", "content": "hello"}


@pytest.fixture(params=["one file", "a file for each", "postgres"])
def url(request, tmp_path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/{'a' if request.param == 'one file' else '{tenant}'}.db"


@contextmanager
def control(url):
    """The tenant of the tokens, opened beside the server: as another process has it."""
    with perdure.open(url_of(url, CONTROL), tenant=CONTROL) as store:
        yield caller_of(store)


def revoke(url, text):
    with control(url) as caller:
        assert caller.write(tokens.revoke, text.split("_")[1])


def say(http, text, session="s"):
    return http.post(f"/v1/sessions/{session}/turns", json=TURN, headers=bearer(text)).status_code


def _revoked_between_two_requests(url):
    """The answers before, after it, and those of a token that was not revoked."""
    first, second = make_token(url), make_token(url, actor="bob")
    with client(url) as http:
        http.put("/v1/sessions/s", json={})
        before = [say(http, first) for _ in range(3)]
        revoke(url, first)
        return before, say(http, first), say(http, second)


def test_a_token_that_was_revoked_opens_nothing_from_then_on(url) -> None:
    assert _revoked_between_two_requests(url) == ([201] * 3, 401, 201)


def test_control_without_a_look_at_the_head_it_would_be_let_in(tmp_path, monkeypatch) -> None:
    def any_head(self, _seen, text):
        record, _ = self._as_of[1].get(tokens.digest(text), (None, None))
        return record

    monkeypatch.setattr(KnownTokens, "find", any_head)
    assert _revoked_between_two_requests(f"sqlite:///{tmp_path}/a.db") == ([201] * 3, 201, 201)


def test_a_token_that_expires_opens_nothing_from_then_on(url) -> None:
    with control(url) as caller:
        known = KnownTokens()
        text = caller.write(tokens.create, "default", TokenRole.WRITER, "bot", "1h")[0]
        [found] = caller.read(known.find_each, [text])
        seen = caller.read(known_tokens.look)
        assert seen is not None
        assert known.find(seen, text) == found
        assert known.find(seen._replace(now_us=seen.now_us + 3_590_000_000), text) == found
        assert known.find(seen._replace(now_us=seen.now_us + 3_600_000_000), text) is None


def test_a_token_opens_its_own_tenant_alone(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/{{tenant}}.db"
    ours, theirs = make_token(url, "default"), make_token(url, "globex")
    with client(url) as http:
        http.put("/v1/sessions/s", json={})
        assert [say(http, each) for each in (ours, theirs, ours, theirs)] == [201, 404, 201, 404]


def _revoked_while_it_is_read(url, monkeypatch):
    """A token that is revoked after it was read, before it is known; then it is asked for again."""
    with control(url) as caller:
        text = caller.write(tokens.create, "default", TokenRole.WRITER, "bot")[0]
        plain = tokens.find_with_expiry

        def revoked_meanwhile(reads, given):
            found = plain(reads, given)
            monkeypatch.setattr(tokens, "find_with_expiry", plain)
            revoke(url, given)
            return found

        monkeypatch.setattr(tokens, "find_with_expiry", revoked_meanwhile)
        known = KnownTokens()
        return [type(caller.read(known.find_each, [text])[0]) for _ in range(2)]


def test_a_token_that_was_revoked_while_it_was_read(url, monkeypatch) -> None:
    assert _revoked_while_it_is_read(url, monkeypatch) == [tokens.TokenRecord, Unauthenticated]


def test_control_a_look_after_the_read_would_keep_it_open(tmp_path, monkeypatch) -> None:
    def looked_too_late(self, reads, texts):
        [text] = texts
        found = self.find(known_tokens.look(reads), text)
        if found is None:
            found, ends = tokens.find_with_expiry(reads, text)
            self._as_of = (known_tokens.look(reads).head, {tokens.digest(text): (found, ends)})
        return [found]

    monkeypatch.setattr(KnownTokens, "find_each", looked_too_late)
    found = _revoked_while_it_is_read(f"sqlite:///{tmp_path}/a.db", monkeypatch)
    assert found == [tokens.TokenRecord, tokens.TokenRecord]


def test_so_many_tokens_are_known(url, monkeypatch) -> None:
    monkeypatch.setattr(known_tokens, "KNOWN_MAX", 2)
    with control(url) as caller:
        texts = [caller.write(tokens.create, "default", TokenRole.WRITER, "bot")[0] for _ in range(5)]
        known = KnownTokens()
        assert all(isinstance(each, tokens.TokenRecord) for each in caller.read(known.find_each, texts))
        assert len(known._as_of[1]) <= 2
        assert texts[0] not in str(known._as_of), "digests are kept, no texts"


def test_without_any_token_nothing_is_open(tmp_path) -> None:
    with control(f"sqlite:///{tmp_path}/a.db") as caller:
        assert isinstance(caller.read(KnownTokens().find_each, ["pdr_x"])[0], Unauthenticated)


# -- sessions ----------------------------------------------------------------------------------------------------------


def _gone_between_two_requests(url):
    """A session that another process takes out of the file between two requests: no verb does that, a restore may."""
    text = make_token(url)
    with client(url) as http:
        made_later = say(http, text, "late")
        http.put("/v1/sessions/s", json={})
        with perdure.open(url) as store:
            store.session("late")
            before = [say(http, text) for _ in range(3)]
            writer = caller_of(store).core.engine.connect()
            writer.raw.execute("UPDATE streams SET name = 'elsewhere' WHERE kind = 'session' AND name = 's'")
            writer.close()
        return made_later, say(http, text, "late"), before, say(http, text)


def test_a_session_that_came_or_went_is_noticed_at_once(tmp_path) -> None:
    assert _gone_between_two_requests(f"sqlite:///{tmp_path}/a.db") == (404, 201, [201] * 3, 404)


def test_control_what_was_found_must_be_read_again(tmp_path, monkeypatch) -> None:
    plain, kept = Glances.find, {}

    def remembered(self, verb, args, tenant):
        found = kept.get((verb, args, tenant)) or plain(self, verb, args, tenant)
        if found is not None:
            kept[verb, args, tenant] = found
        return found

    monkeypatch.setattr(Glances, "find", remembered)
    assert _gone_between_two_requests(f"sqlite:///{tmp_path}/a.db") == (404, 201, [201] * 3, 201)
