"""Writing over HTTP: each verb, once for its key, under its conditions, in the name of the token's actor (P1, P5)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import perdure
from doors.http.serving_kit import client
from perdure.planes.access import limits
from perdure.planes.access.tokens import CONTROL
from perdure.runtime.callers import caller_of
from perdure_server.http import inputs


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@pytest.fixture
def http(url):
    with client(url) as found:
        found.put("/v1/sessions/s", json={"title": "Fix login"})
        yield found


def made(answer, status=201):
    assert answer.status_code == status, answer.text
    return answer.json()


def quoted(name: str) -> str:
    return name.replace("/", "%2F")


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def test_a_session_is_made_changed_and_forked(http) -> None:
    changed = made(
        http.patch("/v1/sessions/s", json={"goal": "It works", "labels": ["a", "b"], "status": "waiting"}), 200
    )
    assert (changed["goal"], changed["labels"], changed["status"]) == ("It works", ["a", "b"], "waiting")
    assert made(http.patch("/v1/sessions/s", json={"labels": ["b", "c"]}), 200)["labels"] == ["b", "c"]
    assert made(http.patch("/v1/sessions/s", json={"status": "completed", "archived": True}), 200)["archived_at"]
    assert made(http.post("/v1/sessions/s/forks", json={"name": "t"}))["name"] == "t"
    assert http.post("/v1/sessions/s/forks", json={"name": "t"}).status_code == 409


def test_a_conversation(http, url) -> None:
    call = {"id": "c1", "tool": "grep", "args": {"q": "Safari"}}
    turn = made(http.post("/v1/sessions/s/turns", json={"role": "assistant", "content": "Look", "calls": [call]}))
    assert turn["calls"][0]["args"] == {"q": "Safari"}
    made(http.put("/v1/sessions/s/calls/c1/result", json={"value": {"hits": 3}}), 200)
    made(http.post("/v1/sessions/s/summaries", json={"upto": turn["seq"] + 1, "text": "It looked."}))
    with perdure.open(url) as store:
        assert {each.actor for each in store.session("s").turns()} == {"alice"}
        assert store.verify().ok


def test_plan_decisions_and_memories(http) -> None:
    decision = made(http.post("/v1/sessions/s/decisions", json={"text": "A", "because": "B breaks"}))
    path = f"/v1/sessions/s/decisions/{decision['seq']}"
    new = made(http.post(f"{path}/supersede", json={"text": "C", "because": "better"}))
    assert new["supersedes"] == decision["seq"]
    path = f"/v1/sessions/s/decisions/{new['seq']}/close"
    assert made(http.post(path, json={"outcome": "worked"}), 200)["outcome"] == "worked"
    first = made(http.post("/v1/sessions/s/tasks", json={"title": "Test"}))
    second = made(http.post("/v1/sessions/s/tasks", json={"title": "Ship", "needs": [first["id"]]}))
    claimed = made(http.post("/v1/sessions/s/claims", json={"ttl": "1h"}), 200)
    assert claimed["id"] == first["id"]
    done = {"move": "done", "token": claimed["token"]}
    assert made(http.post(f"/v1/sessions/s/tasks/{first['id']}/moves", json=done), 200)["status"] == "done"
    assert made(http.post("/v1/sessions/s/claims", json={"ttl": "1h"}), 200)["id"] == second["id"]
    assert made(http.post("/v1/sessions/s/claims", json={"ttl": "1h"}), 200) is None
    ref = decision["ref"]
    memory = made(http.post("/v1/sessions/s/memories", json={"text": "Use make", "source": [ref, "file:Makefile"]}))
    assert memory["refs"] == [ref]
    path = f"/v1/sessions/s/memories/{memory['seq']}"
    made(http.post(f"{path}/confirm"), 200)
    newer = made(http.post(f"{path}/supersede", json={"text": "Use tox", "because": "it moved"}))
    forget = http.post(f"/v1/sessions/s/memories/{newer['seq']}/forget", json={"because": "wrong"})
    assert made(forget, 200)["status"] == "forgotten"


# Bodies that become no record with words of their own: the reason of each.
WITHOUT_SUBJECTS = {
    "SessionMoveInput": "holds no text", "LabelsInput": "holds labels", "SubjectsInput": "is the subjects",
    "PinsInput": "names versions", "NativeInput": "stands in its turn", "StartInput": "holds no text",
    "BatchInput": "holds no text", "SubscriptionInput": "names a reader of the feed", "TakeInput": "names a reader of the feed",
    "ClaimInput": "names a task", "ForkInput": "is about whom its parent is", "RunForkInput": "is about whom its parent is",
    "WhyInput": "stands in its run", "ResumeInput": "holds no text", "PinInput": "holds no text", "TokenInput": "holds no text",
    "RuleInput": "is about whom the decision is", "WorkflowInput": "is about whom the run is",
}  # fmt: skip


def test_every_body_that_becomes_a_record_takes_subjects() -> None:
    bodies = {each.__name__: each for each in subclasses(inputs.Input)}
    silent = {name for name, each in bodies.items() if "about" not in each.__struct_fields__}
    assert silent == WITHOUT_SUBJECTS.keys()


def subclasses(kind: type) -> list[type]:
    return [each for one in kind.__subclasses__() for each in (one, *subclasses(one))]


def test_records_are_about_whom_their_bodies_say(http, url) -> None:
    of = {"about": ["user:bo"]}
    task = made(http.post("/v1/sessions/s/tasks", json={"title": "Call Bo", **of}))
    made(http.post(f"/v1/sessions/s/tasks/{task['id']}/moves", json={"move": "done", "about": ["user:al"]}), 200)
    made(http.post("/v1/sessions/s/decisions", json={"text": "A", "because": "Bo said so", **of}))
    made(http.put("/v1/sessions/s/values/phone", json={"value": 7, **of}), 200)
    made(http.post("/v1/sessions/s/checkpoints", json={"state": {"n": 1}, **of}))
    made(http.post("/v1/sessions/s/asks", json={"question": "Call Bo?", **of}))
    made(http.post("/v1/sessions/s/effects", json={"tool": "mail", **of}, headers=keyed("m")))
    made(http.post("/v1/runs", json={"agent": "fix", **of}, headers=keyed("r")))
    with perdure.open(url) as store:
        session = store.session("s")
        for found in (session.decisions, session.entries, session.checkpoints, session.effects, store.runs, store.asks):
            assert len(found(about="user:bo")) == 1, found
            assert not found(about="user:al") or found == session.checkpoints
        assert [each.title for each in store.tasks(about="user:bo")] == ["Call Bo"]
        assert "task.done" in [each.kind for each in session.events(about="user:al")]
        assert store.verify().ok


def test_scopes(http) -> None:
    assert http.put("/v1/scopes/user%3Aalice/values/theme", json={"value": "dark"}).status_code == 404
    made(http.put("/v1/scopes/user%3Aalice"), 200)
    made(http.put("/v1/scopes/user%3Aalice/values/theme", json={"value": "dark"}), 200)
    assert made(http.get("/v1/scopes/user%3Aalice/values/theme"), 200)["value"] == "dark"
    made(http.post("/v1/scopes/user%3Aalice/memories", json={"text": "Prefers dark", "kind": "preference"}))


def test_runs_are_started_signalled_and_cancelled(http) -> None:
    asked = {"agent": "fix", "args": [42], "session": "s"}
    run = made(http.post("/v1/runs", json=asked, headers=keyed("issue-42")))
    assert made(http.post("/v1/runs", json=asked, headers=keyed("issue-42")))["id"] == run["id"]
    other = http.post("/v1/runs", json={**asked, "args": [43]}, headers=keyed("issue-42"))
    assert (other.status_code, other.json()["title"]) == (422, "KeyReused")
    made(http.post(f"/v1/runs/{run['id']}/signals", json={"name": "ci.done", "payload": 1}))
    assert http.get(f"/v1/runs/{run['id']}/result?wait=0").status_code == 204
    assert made(http.post(f"/v1/runs/{run['id']}/cancel", json={"why": "no"}), 200)["status"] == "cancelled"
    assert made(http.get(f"/v1/runs/{run['id']}/result"), 200)["ended"]
    assert made(http.post(f"/v1/runs/{run['id']}/retry"), 200)["status"] == "ready"
    assert made(http.put(f"/v1/runs/{run['id']}/pin", json={"program": "abc"}), 200)["pinned"]


def test_a_question_is_answered_once(http) -> None:
    ask = made(http.post("/v1/sessions/s/asks", json={"question": "Merge?", "choices": ["yes", "no"]}))
    path = f"/v1/asks/{quoted(ask['id'])}"
    assert http.post(f"{path}/answer", json={"value": "maybe"}).status_code == 422
    answered = made(http.post(f"{path}/answer", json={"value": "yes"}, headers=keyed("k")), 200)
    assert (answered["answer"], answered["met_by"]) == ("yes", "alice")
    assert made(http.post(f"{path}/answer", json={"value": "yes"}, headers=keyed("k")), 200) == answered
    second = http.post(f"{path}/answer", json={"value": "no"})
    assert second.status_code == 409
    assert "alice" in second.text


def test_an_effect_of_a_client(http) -> None:
    asked = {"tool": "open_pr", "args": {"repo": "acme"}, "kind": "keyed"}
    effect = made(http.post("/v1/sessions/s/effects", json=asked, headers=keyed("pr-1")))
    assert made(http.post("/v1/sessions/s/effects", json=asked, headers=keyed("pr-1")))["id"] == effect["id"]
    path = f"/v1/effects/{quoted(effect['id'])}"
    sent = made(http.post(f"{path}/dispatch", headers=keyed("d1")), 200)
    assert sent["state"] == "dispatched"
    assert made(http.post(f"{path}/dispatch", headers=keyed("d1")), 200) == sent
    assert http.post(f"{path}/dispatch").status_code == 409
    ended = made(http.post(f"{path}/outcome", json={"outcome": "happened", "result": {"number": 7}}), 200)
    assert (ended["state"], ended["result"]) == ("committed", {"number": 7})


@pytest.mark.parametrize(
    ("settled", "state"),
    [
        ({"verdict": "happened", "force": True}, "committed"),
        ({"verdict": "absent", "force": True}, "planned"),
        ({"verdict": "declined", "force": True}, "failed"),
        ({"outcome": "happened", "result": 7}, "committed"),
    ],
    ids=["happened", "absent", "declined", "its own outcome"],
)
def test_a_dispatch_that_was_settled_is_not_answered_again(http, settled, state) -> None:
    """A client that lost the answer and asks again would send what a person has spoken about meanwhile (P3, P4)."""
    effect = made(http.post("/v1/sessions/s/effects", json={"tool": "mail"}, headers=keyed("m")))
    path = f"/v1/effects/{quoted(effect['id'])}"
    made(http.post(f"{path}/dispatch", headers=keyed("d1")), 200)
    made(http.post(f"{path}/{'settle' if 'verdict' in settled else 'outcome'}", json=settled), 200)
    again = http.post(f"{path}/dispatch", headers=keyed("d1"))
    assert (again.status_code, again.json()["facts"]["state"]) == (409, state)


def test_a_dispatch_that_another_one_followed_is_not_answered_again(http) -> None:
    effect = made(http.post("/v1/sessions/s/effects", json={"tool": "mail"}, headers=keyed("m")))
    path = f"/v1/effects/{quoted(effect['id'])}"
    made(http.post(f"{path}/dispatch", headers=keyed("d1")), 200)
    made(http.post(f"{path}/settle", json={"verdict": "absent", "force": True}), 200)
    second = made(http.post(f"{path}/dispatch", headers=keyed("d2")), 200)
    assert (second["state"], second["attempt"]) == ("dispatched", 2)
    assert http.post(f"{path}/dispatch", headers=keyed("d1")).status_code == 409
    assert made(http.post(f"{path}/dispatch", headers=keyed("d2")), 200) == second


def test_doubt_is_settled_by_one(http) -> None:
    effect = made(http.post("/v1/sessions/s/effects", json={"tool": "mail"}, headers=keyed("m")))
    path = f"/v1/effects/{quoted(effect['id'])}"
    made(http.post(f"{path}/dispatch"), 200)
    refused = http.post(f"{path}/settle", json={"verdict": "happened"})
    assert refused.status_code == 409  # its sender lives: it is no doubt yet


def test_versions_are_expected(http) -> None:
    path = "/v1/sessions/s/values/branch"
    assert http.put(path, json={"value": 1}, headers={"If-None-Match": "*"}).headers["etag"] == '"1"'
    assert http.put(path, json={"value": 1}, headers={"If-None-Match": "*"}).status_code == 412
    assert http.put(path, json={"value": 2}, headers={"If-Match": '"1"'}).status_code == 200
    stale = http.put(path, json={"value": 3}, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["facts"]["version"]) == (412, "2")
    tag = http.get(path).headers["etag"]
    assert http.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert made(http.delete(path, headers={"If-Match": '"2"'}), 200) == {"changed": True}
    assert made(http.delete(path), 200) == {"changed": False}


def test_a_session_that_moved_on_is_not_written_to(http) -> None:
    tag = http.get("/v1/sessions/s").headers["etag"]
    task = {"title": "Test"}
    made(http.post("/v1/sessions/s/tasks", json=task, headers={"If-Match": tag}))
    assert http.post("/v1/sessions/s/tasks", json=task, headers={"If-Match": tag}).status_code == 412
    assert http.get("/v1/sessions/s", headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/sessions/s/turns", {"role": "user", "content": "hello"}),
        ("/v1/sessions/s/decisions", {"text": "A", "because": "b"}),
        ("/v1/sessions/s/tasks", {"title": "t"}),
        ("/v1/sessions/s/events", {"kind": "deploy.done", "data": {"a": 1}}),
        ("/v1/sessions/s/memories", {"text": "m"}),
        ("/v1/sessions/s/checkpoints", {"state": {"a": 1}}),
        ("/v1/sessions/s/asks", {"question": "q?"}),
    ],
)
def test_the_same_key_at_once_makes_one_row_and_equal_answers(http, url, path, body) -> None:
    before = len(http.get("/v1/feed?limit=1000").json()["items"])
    count = 100 if path.endswith("/decisions") else 20
    with ThreadPoolExecutor(16) as threads:
        answers = [*threads.map(lambda _: http.post(path, json=body, headers=keyed("k")).json(), range(count))]
    assert all(answer == answers[0] for answer in answers)
    http.post(path, json=body)  # the control: without a key it is another one
    kind = body.get("kind") or http.get("/v1/feed?limit=1000").json()["items"][-1]["kind"]
    after = [each for each in http.get("/v1/feed?limit=1000").json()["items"] if each["kind"] == kind]
    assert len(after) == 2, before


def test_a_key_stands_for_one_request(http) -> None:
    made(http.post("/v1/sessions/s/tasks", json={"title": "a"}, headers=keyed("k")))
    other = http.post("/v1/sessions/s/tasks", json={"title": "b"}, headers=keyed("k"))
    assert (other.status_code, other.json()["title"]) == (422, "KeyReused")


def test_tokens_of_a_tenant(http) -> None:
    answer = made(http.post("/v1/tokens", json={"role": "viewer", "actor": "bob", "expires": "90d"}))
    bob = {"Authorization": f"Bearer {answer['token']}"}
    assert http.get("/v1/whoami", headers=bob).json()["role"] == "viewer"
    assert http.put("/v1/sessions/x", json={}, headers=bob).status_code == 403
    assert [each["actor"] for each in http.get("/v1/tokens").json()] == ["alice", "bob"]
    assert answer["token"] not in http.get("/v1/tokens").text
    made(http.delete(f"/v1/tokens/{answer['record']['id']}"), 200)
    assert http.get("/v1/whoami", headers=bob).status_code == 401


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b'{"role": "usr"}', "body.role"),
        (b'{"role": "user", "conten": 1}', "body.conten"),
        (b'{"role": "user", "content": {"$": ["no", 1]}}', None),
        (b'{"role": "user", "content": "\\u0000"}', None),
        (b'{"role": "user", "content": "\xff"}', "body"),
        (b'{"role": "user", "about": ["' + b"x" * 201 + b'"]}', "body.about[0]"),
        (b'{"role": "user", "content": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", None),
        (b'{"role": "user", "content": 1e999}', None),
        (b"", "body"),
    ],
)
def test_a_body_that_is_none_is_refused_with_its_path(http, body, where) -> None:
    answer = http.post("/v1/sessions/s/turns", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["path"]
    assert where is None or answer.json()["path"] == where
    assert http.get("/v1/sessions/s/turns").json()["items"] == []


def test_a_body_that_is_too_large_is_refused(http) -> None:
    headers = {"Content-Type": "application/json"}
    assert http.post("/v1/sessions/s/turns", content=b" " * 5_000_000, headers=headers).status_code == 413
    pieces = (b" " * 1_000_000 for _ in range(6))
    assert http.post("/v1/sessions/s/turns", content=pieces, headers=headers).status_code == 413
    assert http.post("/v1/sessions/s/turns", content=b"{}").status_code == 422


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ({"If-Match": "nonsense"}, "header.if-match"),
        ({"If-Match": '"1"'}, "header.if-match"),
        ({"If-None-Match": "*"}, "header.if-none-match"),
        ({"Idempotency-Key": ""}, "header.idempotency-key"),
        ({"Idempotency-Key": "x" * 201}, "header.idempotency-key"),
    ],
)
def test_headers_that_make_no_sense_are_refused(http, headers, path) -> None:
    answer = http.post("/v1/sessions/s/tasks", json={"title": "t"}, headers=headers)
    assert (answer.status_code // 100, answer.json()["path"]) == (4, path)


# -- artifacts, metrics, limits ------------------------------------------------------------------------------------


def test_the_bytes_of_an_artifact(http) -> None:
    data = bytes(range(256)) * 1_000
    headers = {"Content-Type": "application/x-test"}
    kept = made(http.put("/v1/sessions/s/artifacts/build.log", content=data, headers=headers), 200)
    assert made(http.put("/v1/sessions/s/artifacts/build.log", content=data, headers=headers), 200) == kept
    path = f"/v1/artifacts/{kept['hash']}/content"
    whole = http.get(path)
    assert (whole.content, whole.headers["content-type"]) == (data, "application/octet-stream")
    assert http.get(path, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    for asked, first, last in (("0-9", 0, 9), ("255990-", 255_990, 255_999), ("-5", 255_995, 255_999), ("5-5", 5, 5)):
        part = http.get(path, headers={"Range": f"bytes={asked}"})
        assert (part.status_code, part.content) == (206, data[first : last + 1])
        assert part.headers["content-range"] == f"bytes {first}-{last}/256000"
    for asked in ("bytes=9-1", "bytes=-", "bytes=256000-", "lines=1-2", "bytes=0-1,5-6"):
        assert http.get(path, headers={"Range": asked}).status_code == 416


def test_metrics_are_bounded_and_told_as_text(http) -> None:
    made(http.post("/v1/runs", json={"agent": 'odd "name"\\'}))
    made(http.post("/v1/sessions/s/asks", json={"question": "q?"}))
    told = http.get("/metrics").text
    assert 'perdure_runs{agent="odd \\"name\\"\\\\",status="ready"} 1' in told
    assert "perdure_asks_open 1" in told
    assert 'perdure_http_answers_total{status="2xx"}' in told


def test_a_tenant_is_limited_and_told_when_to_come_back(url) -> None:
    with perdure.open(url, tenant=CONTROL) as store:
        caller_of(store).write(limits.set_limits, "default", {"requests": 2, "runs": 1})
    with client(url) as http:
        now = [0.0]
        http.app.state.serving.admission._clock = lambda: now[0]
        assert http.post("/v1/runs", json={"agent": "a"}).status_code == 201
        full = http.post("/v1/runs", json={"agent": "a"})
        assert (full.status_code, full.json()["facts"]["limit"]) == (429, "runs")
        answers = [http.get("/v1/whoami").status_code for _ in range(4)]
        assert answers == [200, 200, 429, 429]  # two seconds' worth at once, two of which are used
        refused = http.get("/v1/whoami")
        assert (refused.status_code, int(refused.headers["retry-after"]) >= 1) == (429, True)
        now[0] = 60.0
        assert http.get("/v1/whoami").status_code == 200


def test_control_without_limits_nothing_is_refused(http) -> None:
    assert {http.get("/v1/whoami").status_code for _ in range(30)} == {200}
