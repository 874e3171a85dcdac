"""Reading over HTTP: what the handles say, as JSON; what is wrong, as problems with the path of it."""

from __future__ import annotations

import pytest

import perdure
from doors.http.serving_kit import client
from perdure_server.http.app import TABLE

SESSION = "team/issue 42"
QUOTED = "team%2Fissue%2042"


@pytest.fixture
def url(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, actor="bob") as store:
        session = store.session(SESSION, title="Fix login", goal="It works")
        session.say("user", "Login fails on Safari", key="m1")
        session.set("branch", {"name": "fix", "raw": b"\x00\xff"})
        decision = session.decide("Use A", because="B breaks")
        session.task("Write the test", priority=2)
        session.remember("Tests run with make test", source=[decision])
        session.checkpoint({"cursor": 7})
        session.attach("build.log", b"all good", media_type="text/plain")
        session.ask("Merge?", choices=["yes", "no"])
        effect = session.begin("open_pr", {"repo": "acme"}, kind="keyed", key="pr-1")
        effect.dispatch()
        session.emit("deploy.finished", {"sha": "1a2b"})
    return url


@pytest.fixture
def http(url):
    with client(url) as found:
        yield found


def good(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_session_and_what_it_holds(http) -> None:
    session = good(http.get(f"/v1/sessions/{QUOTED}"))
    assert (session["name"], session["goal"]) == (SESSION, "It works")
    turns = good(http.get(f"/v1/sessions/{QUOTED}/turns"))["items"]
    assert [(turn["role"], turn["content"], turn["actor"]) for turn in turns] == [
        ("user", "Login fails on Safari", "bob")
    ]
    assert good(http.get(f"/v1/sessions/{QUOTED}/decisions"))["items"][0]["because"] == "B breaks"
    assert good(http.get(f"/v1/sessions/{QUOTED}/tasks?ready=true"))["items"][0]["title"] == "Write the test"
    seq = good(http.get(f"/v1/sessions/{QUOTED}/checkpoints"))["items"][0]["seq"]
    assert good(http.get(f"/v1/sessions/{QUOTED}/checkpoints/{seq}/state")) == {"cursor": 7}


def test_values_that_json_has_not_come_as_the_log_writes_them(http) -> None:
    value = good(http.get(f"/v1/sessions/{QUOTED}/values/branch"))["value"]
    assert value["name"] == "fix"
    assert perdure.model.values.from_plain(value)["raw"] == b"\x00\xff"


def test_what_needs_a_person(http) -> None:
    (ask,) = good(http.get("/v1/asks"))["items"]
    assert (ask["question"], ask["choices"]) == ("Merge?", ["yes", "no"])
    assert good(http.get("/v1/asks/" + ask["id"].replace("/", "%2F")))["id"] == ask["id"]
    (effect,) = good(http.get("/v1/effects?in_doubt=true"))["items"]
    assert (effect["tool"], effect["state"], effect["left"]) == ("open_pr", "dispatched", True)
    assert good(http.get("/v1/effects/" + effect["id"].replace("/", "%2F")))["sent_key"]


def test_the_past_and_differences(http) -> None:
    assert good(http.get(f"/v1/sessions/{QUOTED}?at=2"))["last_seq"] == 2
    changed = good(http.get(f"/v1/sessions/{QUOTED}/diff?at=2"))
    assert [each["name"] for each in changed["values"]] == ["branch"]


def test_the_log_is_read_page_by_page(http) -> None:
    first = good(http.get("/v1/events?limit=3"))
    then = good(http.get(f"/v1/events?limit=1000&after={first['next']}"))
    fed = good(http.get("/v1/feed?limit=1000"))
    assert len(first["items"]) == 3
    assert {(each["uid"], each["seq"]) for each in first["items"] + then["items"]} <= {
        (each["uid"], each["seq"]) for each in fed["items"]
    }


def test_the_store_is_looked_after(http) -> None:
    assert good(http.get("/v1/doctor"))["sound"]
    assert good(http.get("/v1/verify"))["problems"] == []
    assert good(http.get("/v1/whoami"))["actor"] == "alice"
    assert good(http.get("/v1/workers"))["workers"] == []
    assert good(http.get("/healthz"))["status"] == "ok"


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/v1/sessions/nobody", 404, "path.session"),
        ("/v1/sessions?limit=0", 422, "query.limit"),
        ("/v1/sessions?limit=x", 422, "query.limit"),
        ("/v1/sessions?limit=1&limit=2", 422, "query.limit"),
        ("/v1/sessions?lmit=1", 422, "query.lmit"),
        ("/v1/sessions?since=yesterday", 422, "since"),
        ("/v1/sessions?after=xx", 422, "query.after"),
        ("/v1/sessions?after=7.MQ", 410, "query.after"),
        ("/v1/feed?after=xx", 422, "after"),
        ("/v1/runs/none", 404, "run"),
        ("/v1/effects/none", 422, "effect"),
        (f"/v1/sessions/{QUOTED}/tasks/x", 422, "path.task"),
        (f"/v1/sessions/{QUOTED}/turns?after=-1", 422, "query.after"),
        ("/v1/sessions/%ff", 422, "path.session"),
        ("/v1/sessions/%00", 422, "name"),
        ("/v1/scopes/requests%2F0/values", 404, "path.scope"),
        ("/v1/nothing", 404, None),
    ],
)
def test_what_is_wrong_is_a_problem_with_its_path(http, path, status, where) -> None:
    answer = http.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert where is None or problem["path"] == where
    if problem["type"] != "about:blank":
        assert good(http.get(problem["type"]))["title"] == problem["title"]


def test_every_route_has_a_name_of_its_own_and_says_what_it_does() -> None:
    assert len({each.name for each in TABLE}) == len(TABLE)
    assert all(each.about.endswith(".") for each in TABLE)
    assert len({(each.method, each.path) for each in TABLE}) == len(TABLE)
