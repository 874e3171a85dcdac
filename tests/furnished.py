"""A store with something in every table: what verify, backups and migrations are tried on. Deterministic but
for the salts."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perdure
from perdure.planes.recovery import keyed
from schemas import Image, Schemas

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

LARGE = bytes(range(256)) * 400  # above what is kept in the database


def furnish(store: Store, large: bytes = LARGE) -> None:
    """Fill a store through its public surface alone; `large` is the artifact that may lie outside."""
    session = store.session("main", title="Fix login", labels=["prod", "web"], goal="Login works")
    turn = session.say("user", "Login fails on Safari", key="m1", about=["customer:7"])
    session.say("assistant", "Let me look", calls=[perdure.Call("c1", "grep", {"q": "Safari"})])
    session.result("c1", {"hits": 3})
    session.say("user", "x" * 20_000)  # a document that becomes a blob
    session.summarise(upto=turn.seq, text="The user reports a fault")
    session.pin(model="m-1", prompt="be brief")
    _work(session, turn)
    _values(store, session)
    _states(session)
    _memories(store, session, turn)
    session.attach("build.log", b"all good", media_type="text/plain")
    session.attach("core.bin", large)
    _effects(store, session)
    session.emit("deploy.finished", {"sha": "abc"}, refs=[turn])
    session.fold(lambda count, _: (count or 0) + 1, name="count")
    fork = session.fork(name="try-b")
    fork.say("user", "And on Firefox?")
    fork.set("branch", "other")
    store.subscribe("indexer").next()
    assert store.recall("dark mode")
    store.anchor()


def _memories(store: Store, session: Any, turn: Any) -> None:
    old = session.remember("Tests run with make", kind="workflow", source=[turn, "file:Makefile"], tags=["ci"], key="m")
    old.supersede("Tests run with tox", because="the Makefile went", confidence=0.5).confirm("saw it work")
    scope = store.scope("user:alice")
    scope.remember("Prefers dark mode", kind="preference", about=["user:alice"], valid_from="2026-01-01")
    scope.remember("Lives in " + "x" * 20_000, about=["user:alice"]).forget("she asked")


def whole_feed(store: Store, count: int) -> list[Any]:
    """The feed once it has so many events: on a shared PostgreSQL it stops at anybody's transaction in flight."""
    for _ in range(6_000):
        found = store.feed(limit=1000)
        if len(found) >= count:
            return [*found]
        time.sleep(0.01)
    raise AssertionError(f"the feed shows {len(found)} events of {count}")


@perdure.tool(kind="keyed")
def _open_pr(title: str, *, key: str) -> dict[str, str]:
    return {"title": title, "key": key}


@perdure.tool(fails=[ValueError])
def _send(text: str) -> None:
    raise ValueError(text)


def _draft(issue: int) -> str:
    return f"Fix {issue}"


@perdure.agent(name="furnish")
def _fix(run: perdure.Run, issue: int) -> str:
    made = run.act(_open_pr, run.step(_draft, issue))
    run.wait("ci.done")
    return f"{made['title']}: {run.ask('Merge?', choices=['merge', 'hold'])}"


def _effects(store, session) -> None:
    session.act(_open_pr, "Login", key="pr-1")
    with contextlib.suppress(perdure.Failed):
        session.act(_send, "no", key="mail-1")
    planned = session.begin("deploy", {"to": "prod"}, key="deploy-1")
    planned.dispatch()
    run = store.start(_fix, 42, key="issue-42", session="main")
    run.signal("ci.done", {"ok": True})
    with contextlib.suppress(perdure.Waiting):
        store.drive(_fix, 42, key="issue-42", session="main")


def _work(session, turn) -> None:
    first = session.task("Write the test", labels=["test"], priority=1)
    second = session.task("Fix it", needs=[first], parent=first)
    first.claim(ttl="1h").done("works")
    second.block("waiting for CI")
    third = session.task("Deploy", key="deploy", labels=["ship"])
    third.claim(ttl="1h")
    decision = session.decide("Use A", because="B breaks", then="patch", refs=[turn], tags=["auth"])
    decision.supersede("Use C", because="A is slow")
    session.decide("Ship it", because="green", checks=[perdure.Age("30d")]).close("worked")


def _values(store, session) -> None:
    for version in range(3):
        session.set("branch", f"fix-{version}")
    session.set("gone", 1)
    session.boot()
    session.set("tests", "12 passed", checks=[perdure.Age("1d"), perdure.ValueIs("branch", "fix-2")])
    session.unset("gone")
    store.scope("user:alice").set("colour", {"name": "blue"}, ttl="1d")
    with session.lock("deploy"):
        pass


def _states(session) -> None:
    state = {"cursor": 0, "log": []}
    for step in range(4):
        state["cursor"] = step
        state["log"] += [f"entry {step} {number} " + "y" * 60 for number in range(30)]
        session.checkpoint(state)
    session.prune_checkpoints(keep=2)
    session.checkpoint({"cursor": 0}, name="line", key="a")
    session.checkpoint({"cursor": 1}, name="line", key="b", parent="a", document={"step": 1})
    session._write(keyed.write, "line", "b", "task", "path", [keyed.TaskWrite(0, "cursor", 2)])


class Models:
    """A store of each kind that something was written into once, and copies of it: blobs lie in `blobs`, beside it."""

    def __init__(self, folder: Path, write: Callable[[str, Path], None]) -> None:
        self._folder = folder
        self._write = write
        self._image: Image | None = None

    def file(self, folder: Path) -> str:
        """The URL of a copy in this folder."""
        model = self._folder / "file"
        if not model.exists():
            model.mkdir()
            self._write(f"sqlite:///{model}/a.db", model / "blobs")
        shutil.copytree(model, folder, dirs_exist_ok=True)
        return f"sqlite:///{folder}/a.db"

    @contextlib.contextmanager
    def schema(self, schemas: Schemas, folder: Path) -> Iterator[str]:
        """The URL of a copy on PostgreSQL."""
        model = self._folder / "schema"
        if self._image is None:
            self._image = schemas.image(lambda url: self._write(url, model / "blobs"))
        shutil.copytree(model, folder, dirs_exist_ok=True)
        with schemas.store(self._image) as url:
            yield url
