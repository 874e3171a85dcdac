"""An answer that ends before it is whole is none, whichever byte was its last: the request is sent again under its key (P1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hostile_http import ENDS, WHOLE, RawServer, cuts
from perdure.errors import Error, Unavailable
from perdure.remote.asking import get, post, under_a_key
from perdure.remote.connection import Connections

KINDS = [kind for kind in WHOLE if kind != "503"]


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with RawServer() as running:
        yield running


def answered(server: RawServer, *answers: bytes) -> Any:
    """The status and body that a write gets, or the text of its error."""
    server.answers = [*answers]
    connections = Connections(server.url, "a-token", 10.0)
    try:
        answer = connections.send(under_a_key(post("/v1/x", Any)))
        return answer.status, answer.body
    except Error as error:
        return error.message
    finally:
        connections.close()
        assert server.answers == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_answer_is_asked_for_again_at_every_byte(server: RawServer, kind: str) -> None:
    whole = answered(server, WHOLE[kind])
    assert all(answered(server, each, WHOLE[kind]) == whole for each in cuts(WHOLE[kind]))


@pytest.mark.parametrize("kind", ENDS)
def test_an_answer_of_unknown_length_is_asked_for_again(server: RawServer, kind: str) -> None:
    assert answered(server, ENDS[kind], WHOLE["200"]) == (200, b'{"n":1}')


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_cannot_reach_the_server_is_asked_again_under_the_key(status: int) -> None:
    refusal = b"HTTP/1.1 %d No\r\nContent-Length: 3\r\n\r\nno!" % status
    with RawServer() as server:
        assert answered(server, refusal, refusal, WHOLE["200"]) == (200, b'{"n":1}')
        keys = {line for each in server.requests for line in each.split(b"\r\n") if line.startswith(b"Idempotency-Key")}
        assert (len(server.requests), len(keys)) == (3, 1)


def test_an_answer_that_is_not_the_last_one_is_no_answer(server: RawServer) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    assert answered(server, early, WHOLE["200"]) == (200, b'{"n":1}')


def test_a_gateway_that_never_reaches_it_is_what_the_error_tells(server: RawServer) -> None:
    server.answers = [WHOLE["503"]] * 1_000
    connections = Connections(server.url, "a-token", 0.3)
    with pytest.raises(Unavailable, match="503: busy"):
        connections.send(get("/v1/x", Any))
    connections.close()
