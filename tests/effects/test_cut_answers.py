"""An answer that ends before it is whole is doubt for the tool and Unknown for its probe, whichever byte was its last (P4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hostile_http import ENDS, JSON, WHOLE, RawServer, cuts
from perdure.errors import Error
from perdure.model.records.effects import Absent, Happened, Unknown, Verdict
from perdure_agents.ready.http_tool import http_probe, http_request


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with pytest.MonkeyPatch.context() as patch, RawServer() as running:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        yield running


def called(server: RawServer, answer: bytes) -> Any:
    """The result of the tool, or the class of its error."""
    server.answers = [answer]
    try:
        return http_request("POST", server.url, key="k", body="x")
    except Error as error:
        return type(error).__name__


def probed(server: RawServer, answer: bytes, **options: Any) -> Verdict:
    server.answers = [answer]
    return http_probe(server.url, **options)()


@pytest.mark.parametrize("kind", WHOLE)
def test_a_cut_answer_is_doubt_at_every_byte(server: RawServer, kind: str) -> None:
    passed = [each for each in cuts(WHOLE[kind]) if called(server, each) != "InDoubt"]
    assert passed == []


@pytest.mark.parametrize("kind", WHOLE)
def test_a_cut_answer_tells_a_probe_nothing_at_every_byte(server: RawServer, kind: str) -> None:
    passed = [each for each in cuts(WHOLE[kind]) if not isinstance(probed(server, each), Unknown)]
    assert passed == []


MEANS = {
    "302": "InDoubt",
    "404": "Failed",
    "404 with a body": "Failed",
    "410": "Failed",
    "500": "InDoubt",
    "503": "InDoubt",
}


@pytest.mark.parametrize("kind", WHOLE)
def test_control_a_whole_answer_is_taken_by_its_status(server: RawServer, kind: str) -> None:
    result = called(server, WHOLE[kind])
    assert (result["length_unknown"] if isinstance(result, dict) else result) == MEANS.get(kind, False)


def not_called(body: object) -> object:
    raise AssertionError(f"{body!r} is no answer")


@pytest.mark.parametrize("kind", WHOLE)
def test_a_probe_takes_a_whole_answer_that_says_something(server: RawServer, kind: str) -> None:
    says = kind in ("200", "200 in chunks", "200 in chunks, with a trailer", "201")
    verdict = probed(server, WHOLE[kind], found=(lambda body: body["n"]) if says else not_called)
    expected = Happened if says else Absent if kind[:3] in ("404", "410") else Unknown
    assert type(verdict) is expected, verdict
    assert not isinstance(verdict, Happened) or verdict.result == 1


@pytest.mark.parametrize("kind", ENDS)
def test_a_body_that_lasts_until_the_end_has_an_unknown_length(server: RawServer, kind: str) -> None:
    """The tool takes it by its status and says so; to a probe it says nothing."""
    head = ENDS[kind].index(b"\r\n\r\n") + 4
    for answer in (*cuts(ENDS[kind]), ENDS[kind]):
        assert isinstance(probed(server, answer, found=not_called), Unknown), answer
        result = called(server, answer)
        if len(answer) < head:
            assert result == "InDoubt", answer
        elif kind == "404":
            assert result == "Failed", answer
        else:
            assert (result["status"], result["length_unknown"]) == (200, True), answer


ODD = {
    "two lengths": b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nContent-Length: 4\r\n\r\nnone",
    "a coding that is not read here": b"HTTP/1.1 404 No\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 4\r\n\r\nnone",
    "a part": b'HTTP/1.1 206 Part\r\n%sContent-Range: bytes 0-6/9\r\nContent-Length: 7\r\n\r\n{"n":1}' % JSON,
}


@pytest.mark.parametrize("kind", ODD)
def test_an_answer_that_may_be_a_part_tells_a_probe_nothing(server: RawServer, kind: str) -> None:
    assert isinstance(probed(server, ODD[kind], found=not_called), Unknown)
