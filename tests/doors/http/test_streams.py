"""The feed over HTTP: cut anywhere, nothing is lost and nothing comes twice; after a restore it is 410."""

from __future__ import annotations

import json
import random

import pytest

import perdure
from doors.http.serving_kit import LiveServer, bearer, make_token


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def blocks(response):
    """The events of a stream: id and data; data is None for what only moves the position."""
    at, data = None, None
    for line in response.iter_lines():
        if line.startswith("id: "):
            at = line[4:]
        elif line.startswith("data: "):
            data = json.loads(line[6:])
        elif not line:
            yield at, data
            data = None


def test_a_stream_that_is_cut_a_hundred_times_has_everything_once(url) -> None:
    text = make_token(url, role="viewer")
    dice = random.Random(7)
    with perdure.open(url) as store, LiveServer(url) as server:
        start = store.feed_end()
        session = store.session("s")
        seen, at, cuts = [], start, 0
        while cuts < 100 or len(seen) < 150:
            for _ in range(dice.randrange(3)):
                session.emit("deploy.step", {"n": 1})
            wanted, got = dice.randrange(1, 6), 0
            with server.stream("/v1/stream", {**bearer(text), "Last-Event-ID": at}) as response:
                assert response.status_code == 200
                for place, event in blocks(response):
                    if event is not None:
                        seen.append((event["uid"], event["seq"]))
                        got += 1
                    at = place
                    if got >= wanted or (event is None and got == 0 and dice.random() < 0.5):
                        break
            cuts += 1
        rest = store.feed(after=at, limit=1000)
        everything = [(each.uid, each.seq) for each in store.feed(after=start, limit=1000)]
    assert seen + [(each.uid, each.seq) for each in rest] == everything
    assert len(set(seen)) == len(seen)
