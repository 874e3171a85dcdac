"""The claim protocol, verb by verb: fenced, safe to repeat, and the engine's own rules for doubt and replay (P2-P4, P7, P13)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

import perdure
from doors.http.matrix import body_of
from doors.http.serving_kit import bearer, make_token
from perdure.runtime.callers import caller_of
from perdure.verbs.declaring import Right
from perdure_server.http.app import TABLE, make_app
from perdure_server.http.serving import Serving

GIVEN, SEND, PROBE, REST, END = "given", "send", "probe", "rest", "end"
PLAIN = {"digest": "d", "name": "look"}


class Hand:
    """A worker by hand: it sends what a test tells it to."""

    def __init__(self, http: TestClient, text: str, holder: str = "w1") -> None:
        self.http, self.headers, self.holder = http, bearer(text), holder
        self.run, self.token = "", 0

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = self.http.post(path, json={"holder": self.holder, **body}, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def claim(self, status: int = 200, **more: Any) -> Any:
        found = self.post("/v1/work/claim", status, **{"agents": {"fix": "v1"}, **more})
        if found:
            self.run, self.token = found["run"], found["token"]
        return found

    def say(self, verb: str, status: int = 200, **body: Any) -> Any:
        return self.post(f"/v1/runs/{self.run}/{verb}", status, **{"token": self.token, **body})

    def again(self, verb: str, **body: Any) -> Any:
        """The request twice: the answer is the same."""
        first = self.say(verb, **body)
        assert self.say(verb, **body) == first
        return first

    def effect(self, place: str = "0//1", status: int = 200, **more: Any) -> Any:
        return self.say("effects", status, **{"place": place, "tool": "mail", "args": {"to": "bob"}, **more})


class Served:
    """A server over a store, which can be opened anew, and a store handle beside it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.worker = make_token(url, role="worker", actor="w")
        self.other = make_token(url, role="worker", actor="x")
        self.admin = make_token(url, role="admin", actor="boss")
        self.store = perdure.open(url)

    @contextmanager
    def up(self) -> Iterator[TestClient]:
        with TestClient(make_app(Serving(self.url)), raise_server_exceptions=False) as http:
            yield http

    def start(self, http: TestClient, agent: str = "fix", **more: Any) -> str:
        made = http.post("/v1/runs", json={"agent": agent, **more}, headers=bearer(self.admin))
        assert made.status_code == 201, made.text
        return made.json()["id"]

    def lapse(self, hand: Hand) -> None:
        """The heartbeat of a worker lapses: nobody waits for that."""
        caller_of(self.store).write(_lapse, hand.holder)

    def hand(self, http: TestClient, holder: str = "w1", text: str = "") -> Hand:
        return Hand(http, text or self.worker, holder)


def _lapse(tx: Any, holder: str) -> None:
    from perdure.planes.execution import workers
    from perdure.planes.tables import HOLDERS

    for found in tx.query(workers.Q.holders_of_runs, tenant=tx.tenant):
        if found[0].endswith(f"-{holder}"):
            row = tx.own_row(HOLDERS, found[0])
            values = {name: row[name] for name in ("actor", "host", "started_at")}
            tx.touch(HOLDERS, {"holder": found[0]}, {**values, "expires_at": 1})


@pytest.fixture(params=["sqlite", "postgres"])
def served(request, tmp_path) -> Iterator[Served]:
    on_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/a.db" if on_sqlite else request.getfixturevalue("postgres_store")
    made = Served(url)
    yield made
    made.store.close()


@pytest.fixture
def local(tmp_path) -> Iterator[Served]:
    made = Served(f"sqlite:///{tmp_path}/a.db")
    yield made
    made.store.close()


def sound(served: Served) -> None:
    assert not served.store.verify().problems


# -- from the claim to the end -----------------------------------------------------------------------------------------


def test_a_run_from_its_claim_to_its_end_each_request_twice(served) -> None:
    with served.up() as http:
        served.start(http, args=[1], kwargs={"b": 2}, session="s")
        hand = served.hand(http)
        claimed = hand.claim()
        assert (claimed["args"], claimed["kwargs"], claimed["token"], claimed["journal"]["items"]) == (
            [1],
            {"b": 2},
            1,
            [],
        )
        step = hand.again("steps", place="0//1", name="look", digest="d1", value={"n": 3})
        assert step["step"]["value"] == {"n": 3}
        begun = hand.again("effects", place="0//2", tool="mail", args={"to": "bob"}, kind="keyed")
        assert begun["next"] == SEND
        assert begun["effect"]["attempt"] == 1
        assert begun["effect"]["sent_key"]
        seq = begun["effect"]["seq"]
        told = hand.again(f"effects/{seq}/outcome", attempt=1, outcome="happened", result={"id": 7})
        assert told["effect"]["state"] == "committed"
        assert hand.effect("0//2", kind="keyed")["effect"]["result"] == {"id": 7}
        asked = hand.again("asks", place="0//3", question="Merge?", choices=["yes", "no"])
        assert asked["next"] == REST
        assert asked["awaited"] == [asked["wait"]["seq"]]
        waiting = hand.again("rest", reason="ask", awaited=asked["awaited"])
        assert waiting["status"] == "waiting"
        served.store.answer(asked["wait"]["id"], "yes", by="alice")
        second = hand.claim()
        assert second["token"] == 2
        assert [each["what"] for each in second["journal"]["items"]] == [
            "step",
            "effect",
            "ask",
        ]
        answered = hand.again("asks", place="0//3", question="Merge?", choices=["yes", "no"])
        assert (answered["next"], answered["wait"]["answer"]) == (GIVEN, "yes")
        done = hand.again("finish", result={"ok": True})
        assert (done["status"], done["result"]) == ("completed", {"ok": True})
        hand.claim(204)
    sound(served)


def test_the_same_answers_from_a_server_that_was_started_anew(served) -> None:
    with served.up() as http:
        served.start(http)
        hand = served.hand(http)
        hand.claim()
        step = hand.say("steps", place="0//1", name="look", digest="d1", value=1)
        begun = hand.effect("0//2")
        asked = hand.say("asks", place="0//3", question="Merge?")
        slept = hand.say("sleeps", place="0//4", duration="1d")
        child = hand.say("children", place="0//5", agent="other", args=[1])
    with served.up() as http:
        hand.http = http
        assert hand.say("steps", place="0//1", name="look", digest="d1", value=1) == step
        assert hand.effect("0//2") == begun
        assert hand.say("asks", place="0//3", question="Merge?") == asked
        assert hand.say("sleeps", place="0//4", duration="1d") == slept
        assert hand.say("children", place="0//5", agent="other", args=[1]) == child
        hand.say(f"effects/{begun['effect']['seq']}/outcome", attempt=1, outcome="happened", result=1)
        finished = hand.say("finish", result=2)
    with served.up() as http:
        hand.http = http
        assert hand.say("finish", result=2) == finished
    sound(served)


def test_a_lost_claim_is_given_again_under_a_new_token(served) -> None:
    with served.up() as http:
        run = served.start(http)
        hand = served.hand(http)
        first = hand.claim()
        again = hand.claim()
        assert (again["run"], again["token"]) == (run, first["token"] + 1)
        hand.token = first["token"]
        assert "taken over" in hand.say("finish", 409)["detail"]
        hand.claim(204, held=[run])  # the run that it names is not given again
    sound(served)


def test_a_claim_waits_for_a_run(local) -> None:
    with local.up() as http:
        hand = local.hand(http)
        hand.claim(204, wait=0)
        local.start(http)
        assert hand.claim(wait=30)["token"] == 1


# -- the fence ---------------------------------------------------------------------------------------------------------

VERBS: list[tuple[str, dict[str, Any]]] = [
    ("steps", {"place": "0//1", **PLAIN}),
    ("effects", {"place": "0//1", "tool": "mail"}),
    ("effects/1/probe", {"attempt": 1, "verdict": "absent", "asked_at": 1}),
    ("asks", {"place": "0//1", "question": "?"}),
    ("sleeps", {"place": "0//1", "duration": "1s"}),
    ("waits", {"place": "0//1", "name": "go"}),
    ("children", {"place": "0//1", "agent": "other"}),
    ("checkpoints", {"cut": 0, "state": {}}),
    ("finish", {}),
    ("fail", {"code": "Broken"}),
    ("park", {"reason": "broken", "message": "?"}),
    ("rest", {"reason": "ask", "awaited": [1]}),
    ("release", {}),
]


def test_a_worker_that_lost_its_lease_writes_nothing(local) -> None:
    with local.up() as http:
        run = local.start(http)
        old, new = local.hand(http, "old"), local.hand(http, "new")
        old.claim()
        local.lapse(old)
        assert new.claim()["token"] == 2
        before = local.store.run(run).timeline()
        for verb, body in VERBS:
            told = old.say(verb, 409, **body)
            assert (told["title"], told["facts"]["token"]) == ("Stale", "2"), verb
            assert "taken over" in told["detail"]
        assert local.store.run(run).timeline() == before
        new.say("finish", result=1)
        for verb, body in VERBS:  # and after the end, too
            assert old.say(verb, 409, **body)["title"] == "Stale"
    sound(local)


def test_a_holder_belongs_to_its_token_of_the_door(local) -> None:
    with local.up() as http:
        local.start(http)
        mine, thief = local.hand(http), local.hand(http, text=local.other)
        mine.claim()
        thief.run, thief.token = mine.run, mine.token
        for verb, body in VERBS:
            assert thief.say(verb, 409, **body)["title"] == "Stale", verb
        assert thief.post("/v1/work/heartbeat")["runs"] == []
        thief.post("/v1/work/leave")
        assert [each["run"] for each in mine.post("/v1/work/heartbeat")["runs"]] == [mine.run]
        assert mine.say("finish")["status"] == "completed"


def test_another_thing_at_a_place_is_a_changed_program(local) -> None:
    with local.up() as http:
        run = local.start(http)
        hand = local.hand(http)
        hand.claim()
        hand.say("steps", place="0//1", name="look", digest="d1", value=1)
        for verb, body in (
            ("steps", {"name": "look", "digest": "d2"}), ("steps", {"name": "peek", "digest": "d1"}),
            ("effects", {"tool": "mail"}), ("asks", {"question": "?"}),
        ):  # fmt: skip
            told = hand.say(verb, 409, place="0//1", **body)
            assert told["title"] == "Changed"
            assert told["facts"]["place"] == "0//1"
        parked = hand.again("park", reason="changed", message="it does not do what it did")
        assert (parked["status"], parked["reason"]) == ("parked", "changed")
        assert local.store.run(run).record.status == "parked"


@pytest.mark.parametrize("place", ["x", "1//1", "0/1", "//", "0//1\n", "9" * 400])
def test_a_place_that_is_none(local, place) -> None:
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        answer = http.post(
            f"/v1/runs/{hand.run}/steps",
            json={"holder": "w1", "token": 1, "place": place, **PLAIN},
            headers=hand.headers,
        )
        assert answer.status_code in (409, 413, 422)
        assert "place" in answer.json()["path"]


HOSTILE: list[Any] = [
    None, True, -1, 2**70, 1.5, "", "x" * 5_000, "0//1\x00", [], {}, [[[]]], {"$": ["bytes", "!"]}, {"$": ["nothing", 1]},
    "\ud800",
]  # fmt: skip
EVERY = 1 if "PERDURE_ROUNDS" in os.environ else 5
ROUTES = [each for each in TABLE if each.right is Right.WORK and each.body is not None]


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: each.name)
def test_hostile_bodies_are_refused(local, route) -> None:
    """Each field of each body with what does not belong there: never a failure of the server, and the run can still end."""
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        good = {
            "holder": "w1",
            "token": 1,
            "place": "0//1",
            "agents": {"fix": "v1"},
            "held": [hand.run],
            "concurrency": 1,
        }
        fields = [each.name for each in msgspec.structs.fields(route.body)]
        fitting = {**body_of(route), **{name: good[name] for name in fields if name in good}}
        path = route.path.format(run=hand.run, seq=3)
        for at, name in enumerate((*fields, "unknown")):
            for value in HOSTILE[at % EVERY :: EVERY]:
                body = json.dumps({**fitting, name: value})
                headers = {**hand.headers, "content-type": "application/json"}
                answer = http.post(path, content=body.encode(errors="surrogatepass"), headers=headers)
                assert answer.status_code < 500, f"{name}={value!r}: {answer.text}"
    sound(local)


# -- effects and doubt -------------------------------------------------------------------------------------------------


def test_an_effect_that_a_dead_worker_sent_is_doubt(served) -> None:
    """Its kind decides: keyed is called again with its key, unsafe waits for a person, probed asks the other side."""
    with served.up() as http:
        served.start(http)
        old, new = served.hand(http, "old"), served.hand(http, "new")
        old.claim()
        sent = {
            kind: old.effect(f"0//{number}", kind=kind, can_probe=kind == "probed")
            for number, kind in enumerate(("keyed", "unsafe", "probed"), 1)
        }
        served.lapse(old)
        assert len(new.claim()["journal"]["items"]) == 3
        keyed = new.effect("0//1", kind="keyed")
        assert (keyed["next"], keyed["effect"]["attempt"]) == (SEND, 2)
        assert keyed["effect"]["sent_key"] == sent["keyed"]["effect"]["sent_key"]
        unsafe = new.effect("0//2")
        assert (unsafe["next"], unsafe["why"], unsafe["effect"]["state"]) == (REST, "doubt", "in_doubt")
        probed = new.effect("0//3", kind="probed", can_probe=True)
        assert (probed["next"], probed["effect"]["state"]) == (PROBE, "in_doubt")
        seq, now = probed["effect"]["seq"], probed["now"]
        # Its sender may live, on another machine: "absent" is not final, and nothing is sent.
        absent = new.again(f"effects/{seq}/probe", attempt=1, verdict="absent", asked_at=now)
        assert (absent["next"], absent["effect"]["state"]) == (REST, "in_doubt")
        assert absent["wake_at"]
        told = new.again(f"effects/{seq}/probe", attempt=1, verdict="happened", asked_at=now, result=5)
        assert told["effect"]["result"] == 5
        new.say(f"effects/{keyed['effect']['seq']}/outcome", attempt=2, outcome="happened")
        rested = new.say("rest", reason="doubt", doubts=[unsafe["effect"]["seq"]])
        assert (rested["status"], rested["reason"]) == ("waiting", "doubt")
        served.store.effect(unsafe["effect"]["id"]).settle(perdure.Happened("yes"), by="alice")
        assert new.claim()["token"] == 3
        assert new.effect("0//2")["effect"]["result"] == "yes"
    sound(served)


def test_the_word_of_a_worker_that_lost_its_lease_settles_its_own_doubt(local) -> None:
    with local.up() as http:
        local.start(http)
        old, new = local.hand(http, "old"), local.hand(http, "new")
        old.claim()
        seq = old.effect()["effect"]["seq"]
        local.lapse(old)
        new.claim()
        assert new.effect()["next"] == REST
        new.say("rest", reason="doubt", doubts=[seq])
        told = old.say(f"effects/{seq}/outcome", 409, attempt=1, outcome="happened", result="sent")
        assert told["title"] == "Stale"
        assert "late word" in told["detail"]
        new.claim()
        assert new.effect()["effect"]["result"] == "sent"
        stranger = local.hand(http, "stranger")
        stranger.run, stranger.token = old.run, old.token
        refused = stranger.say(f"effects/{seq}/outcome", 409, attempt=1, outcome="failed")
        assert "late word" not in refused["detail"]
    sound(local)


def test_a_worker_that_takes_its_own_run_again_does_not_send_again(local) -> None:
    """The process is the same, the lease is not: the call of before may be under way. Only the very lease may repeat it."""
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        assert hand.effect()["next"] == hand.effect()["next"] == SEND
        assert hand.claim()["token"] == 2
        assert hand.effect()["next"] == REST


@pytest.mark.parametrize(
    ("kind", "outcome", "state", "following"),
    [
        ("keyed", "failed", "failed", GIVEN),
        ("unsafe", "unknown", "in_doubt", REST),
        ("keyed", "unknown", "in_doubt", SEND),
        ("unsafe", "unsent", "planned", SEND),
        ("idempotent", "unknown", "in_doubt", SEND),
    ],
)
def test_outcomes_by_kind(local, kind, outcome, state, following) -> None:
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        seq = hand.effect(kind=kind, retries=2)["effect"]["seq"]
        told = hand.again(f"effects/{seq}/outcome", attempt=1, outcome=outcome, code="Broken", message="it broke")
        assert told["effect"]["state"] == state
        begun = hand.effect(kind=kind, retries=2)
        assert begun["next"] == following
        assert begun["effect"]["attempt"] == (2 if following == SEND else 1)


def test_an_effect_that_must_be_approved(local) -> None:
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        asked = hand.effect(approve="Really?")
        assert (asked["next"], asked["why"], asked["effect"]["state"]) == (REST, "approval", "planned")
        hand.say("rest", reason="approval", awaited=asked["awaited"])
        (question,) = local.store.asks()
        local.store.answer(question.id, "approve", by="alice")
        hand.claim()
        assert hand.effect(approve="Really?")["next"] == SEND


# -- waits, children, checkpoints --------------------------------------------------------------------------------------


def test_what_came_meanwhile_makes_a_run_ready_at_once(local) -> None:
    with local.up() as http:
        run = local.start(http)
        hand = local.hand(http)
        hand.claim()
        waited = hand.say("waits", place="0//1", name="go")
        assert waited["next"] == REST
        local.store.signal(run, "go", {"n": 1})
        assert hand.say("rest", reason="signal", awaited=waited["awaited"])["status"] == "ready"
        hand.claim()
        met = hand.again("waits", place="0//1", name="go")
        assert (met["next"], met["wait"]["answer"]) == (GIVEN, {"n": 1})
        told = hand.say("rest", 422, reason="signal")
        assert "never be woken" in told["detail"]


def test_children(local) -> None:
    with local.up() as http:
        local.start(http)
        hand, other = local.hand(http), local.hand(http, "w2")
        hand.claim()
        begun = hand.again("children", place="0//1", agent="other", args=[4])
        hand.say("rest", reason="child", awaited=begun["awaited"])
        child = other.claim(agents={"other": "v1"})
        assert (child["args"], child["run"]) == ([4], begun["wait"]["name"])
        other.say("finish", result=16)
        hand.claim()
        over = hand.say("children", place="0//1", agent="other", args=[4])
        assert over["wait"]["answer"] == {"status": "completed", "result": 16}


def test_checkpoints_cut_the_journal(served) -> None:
    with served.up() as http:
        served.start(http)
        hand = served.hand(http)
        hand.claim()
        hand.say("steps", place="0//1", **PLAIN, value=1)
        assert hand.again("checkpoints", cut=0, state={"done": 1})["cut"] == 1
        assert hand.say("steps", 409, place="0//2", **PLAIN)["facts"]["cut"] == "1"
        hand.again("steps", place="1//1", name="look", digest="d", value=2)
        served.lapse(hand)
        new = served.hand(http, "new")
        claimed = new.claim()
        assert (claimed["cut"], claimed["restored"], claimed["has_checkpoint"]) == (1, {"done": 1}, True)
        assert [each["place"] for each in claimed["journal"]["items"]] == ["1//1"]
        told = new.say("checkpoints", 409, cut=0, state={})  # another lease made that one
        assert told["title"] == "Conflict"
    sound(served)


def test_pages_of_a_journal(local) -> None:
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        for number in range(1, 8):
            hand.say("steps", place=f"0//{number}", **PLAIN, value=number)
        got, after = [], 0
        while after is not None:
            page = http.get(f"/v1/runs/{hand.run}/journal?limit=3&after={after}", headers=hand.headers).json()
            got += [each["step"]["value"] for each in page["items"]]
            after = page["next"]
        assert got == [1, 2, 3, 4, 5, 6, 7]


def test_the_call_of_a_model_keeps_its_input(local) -> None:
    with local.up() as http:
        run = local.start(http)
        hand = local.hand(http)
        hand.claim()
        answer = {"text": "hi", "usage": {"input_tokens": 3}}
        hand.again("steps", place="0//1", name="ask", digest="d", value=answer, model={"model": "m"}, args=["hello"])
        (step,) = local.store.run(run).steps()
        assert step.notes == {"model": {"model": "m"}, "usage": {"input_tokens": 3}}
        assert local.store.run(run).input_of(step.seq) == {"args": ["hello"], "kwargs": {}}


# -- ending ------------------------------------------------------------------------------------------------------------


def test_a_cancelled_run_is_told_and_ends(local) -> None:
    with local.up() as http:
        run = local.start(http)
        hand = local.hand(http)
        hand.claim()
        local.store.run(run).cancel()
        (held,) = hand.post("/v1/work/heartbeat")["runs"]
        assert held["cancelling"]
        assert hand.say("steps", place="0//1", **PLAIN)["cancelling"]  # what was done is kept
        assert hand.effect("0//2")["next"] == END
        assert hand.again("fail", code="Cancelled", message="it was cancelled")["status"] == "cancelled"


def test_a_run_that_ends_with_a_call_under_way_waits_for_its_outcome(local) -> None:
    with local.up() as http:
        local.start(http)
        hand = local.hand(http)
        hand.claim()
        hand.effect()
        ended = hand.again("finish", result=1)
        assert (ended["status"], ended["reason"]) == ("waiting", "doubt")


def test_a_failed_run_can_be_tried_again_where_it_failed(local) -> None:
    with local.up() as http:
        run = local.start(http)
        hand = local.hand(http)
        hand.claim()
        hand.say("steps", place="0//1", **PLAIN, error={"code": "Broken", "message": "no"})
        failed = hand.again("fail", code="Broken", message="no", step="0//1")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "Broken")
        local.store.run(run).retry()
        assert hand.claim()["journal"]["items"] == []


def test_a_worker_that_leaves_gives_its_runs_back(local) -> None:
    with local.up() as http:
        run = local.start(http)
        hand, new = local.hand(http), local.hand(http, "new")
        hand.claim()
        shown = http.get("/v1/workers", headers=hand.headers).json()["workers"]
        assert [each["about"]["agents"] for each in shown if each["alive"]] == [["fix"]]
        hand.post("/v1/work/leave")
        hand.post("/v1/work/leave")
        assert new.claim()["run"] == run


def test_a_run_whose_worker_died_is_driven_alone(local) -> None:
    with local.up() as http:
        for _ in range(2):
            local.start(http)
        old, new = local.hand(http, "old"), local.hand(http, "new")
        suspect = old.claim()["run"]
        local.lapse(old)
        assert new.claim()["run"] == suspect
        new.claim(204, held=[suspect])
        new.say("finish")
        assert new.claim()["run"] != suspect


# -- versions ------------------------------------------------------------------------------------------------------------------

PINS = {"pins": {"fix": {"model": "m1", "tools": {"git": 2}}}}


def begun_under_pins(served: Served, http: TestClient, **more: Any) -> Hand:
    """A worker that claimed a run under versions, did something, and gave the run back."""
    hand = served.hand(http)
    served.start(http)
    hand.claim(**PINS, **more)
    hand.say("steps", place="0//1", value=1, **PLAIN)
    hand.say("release")
    return hand


def record_of(served: Served, hand: Hand) -> Any:
    return served.store.run(hand.run).record


def test_the_versions_of_a_remote_worker_are_recorded(served: Served) -> None:
    with served.up() as http:
        hand = begun_under_pins(served, http)
        assert record_of(served, hand).pins == {"model": "m1", "tools.git": "2"}
        hand.claim(**PINS)
        assert record_of(served, hand).pins_change is None
        listed = http.get("/v1/runs", params={"version": "tools.git=2"}, headers=bearer(served.admin)).json()["items"]
        assert [(each["id"], each["pins"]["model"]) for each in listed] == [(hand.run, "m1")]
        assert not http.get("/v1/runs", params={"version": "model=m2"}, headers=bearer(served.admin)).json()["items"]
        refused = http.get("/v1/runs", params={"version": "model"}, headers=bearer(served.admin))
        assert (refused.status_code, refused.json()["path"]) == (422, "version")


def test_a_remote_worker_without_versions_is_unknown_and_differs(served: Served) -> None:
    with served.up() as http:
        hand = begun_under_pins(served, http)
        assert hand.claim()
        change = record_of(served, hand).pins_change
        assert (change.moved, change.decision) == ({"model": ["m1", None], "tools.git": ["2", None]}, "continued")
        assert record_of(served, hand).pins == {}


def test_the_policy_of_a_run_holds_for_a_worker_that_says_nothing(served: Served) -> None:
    with served.up() as http:
        hand = begun_under_pins(served, http, on_change={"fix": "park"})
        hand.claim(204)
        assert (record_of(served, hand).status, record_of(served, hand).reason) == ("parked", "changed")
        served.store.run(hand.run).resume()
        assert hand.claim()["journal"]["items"]


def test_a_person_is_asked_for_a_remote_worker(served: Served) -> None:
    with served.up() as http:
        hand = begun_under_pins(served, http)
        asking = {"pins": {"fix": {"model": "m2"}}, "on_change": {"fix": "ask"}}
        hand.claim(204, **asking)
        (asked,) = served.store.asks()
        served.store.answer(asked.id, "continue", by="ann")
        assert hand.claim(**asking)
        assert record_of(served, hand).pins == {"model": "m2"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"pins": {"fix": {"model": "a\0"}}}, "body.pins.fix.model"),
        ({"pins": {"fix": 5}}, "body.pins"),
        ({"on_change": {"fix": "stop"}}, "body.on_change"),
    ],
)  # fmt: skip
def test_bad_versions_of_a_remote_worker_are_refused(local: Served, given: dict[str, Any], path: str) -> None:
    with local.up() as http:
        refused = local.hand(http).post("/v1/work/claim", 422, agents={"fix": "v1"}, **given)
        assert refused["path"].startswith(path)
