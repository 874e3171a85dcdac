"""Logs: every event once, with its fields; never a body; and nothing unless somebody asks."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import perdure
from perdure.log.actors import NAMED
from perdure.runtime import logs

CANARY = "canary-7f3a"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """Everything that is logged, at debug, as JSON lines; the loggers are left as they were."""
    root = logging.getLogger(logs.ROOT)
    before = (list(root.handlers), root.level, root.propagate)
    stream = io.StringIO()
    logs.configure("debug", as_json=True, stream=stream)
    yield stream
    root.handlers[:], root.level, root.propagate = before


def lines(out: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def write_everything(store: perdure.Store, secret: str) -> None:
    """Every verb that writes, with a secret wherever content goes."""
    session = store.session("s", title=secret, goal=secret, labels=["l"])
    session.pin(model=secret, prompt=secret, tools={secret: secret}, commit=secret)
    turn = session.say("user", secret, key=secret, about=[secret])
    session.say("assistant", secret * 2000, calls=[perdure.Call("c1", "tool", {secret: secret})])
    session.result("c1", {secret: secret})
    session.summarise(upto=turn.seq, text=secret)
    session.goal = secret
    session.label("other")
    session.unlabel("other")
    session.set("name", secret)
    session.update("name", lambda value: value + secret)
    with session.lock("lock", ttl="30s"):
        pass
    session.unset("name")
    store.scope("user:x").set("name", secret)
    first = session.decide(secret, because=secret, then=secret, tags=["t"])
    first.supersede(secret, because=secret).close("worked", note=secret)
    task = session.task("task", detail={secret: secret})
    task.claim()
    task.block(secret)
    session.emit("thing.done", {secret: secret}, about=[secret])
    session.attach("file", secret.encode() * 20_000)
    session.checkpoint({secret: secret})
    session.fork(name="fork").say("user", secret)
    store.atomic(lambda tx: tx.session("s").say("user", secret))
    session.mark_waiting()
    session.mark_active()
    session.close("completed")
    session.reopen()
    store.anchor()
    for wrong in (lambda: session.say(secret, "x"), lambda: session.set("x", {secret: object()})):
        with pytest.raises(perdure.Error):
            wrong()


def test_no_body_is_ever_logged(out, tmp_path) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="alice") as store:
        write_everything(store, CANARY)
        store.collect(dry_run=False)
        store.backup(tmp_path / "b.bak")
    assert len(lines(out)) > 40
    assert CANARY not in out.getvalue()


def test_control_a_body_in_a_log_would_be_found(out) -> None:
    logging.getLogger("perdure.event").debug("recorded", extra={"stream": "s", "kind": CANARY})
    assert CANARY in out.getvalue()


def test_every_event_is_logged_once_with_its_fields(out, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, actor="alice") as store:
        write_everything(store, CANARY)
        fed = {(event.uid, event.seq, event.kind) for event in store.feed(limit=1000)}
        known = {each.actor: each.name for each in store.actors()}
    recorded = headers(tmp_path / "a.db")
    told = [line for line in lines(out) if line["logger"] == "perdure.event"]
    assert Counter((line["stream"], line["seq"], line["kind"], line["actor"]) for line in told) == recorded
    assert max(recorded.values()) == 1
    assert {line[:3] for line in recorded if line[2] != NAMED} == fed
    assert {line["store"] for line in told} == {url}
    assert {known[line["actor"]] for line in told} == {"alice"}


def test_a_log_outlives_no_name_of_a_person(out, tmp_path) -> None:
    """A log stays when an actor is forgotten: it names the actor as the header does, and the directory says who that is."""
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="alice") as store:
        store.session("s").say("user", "x")
        assert [each.name for each in store.actors()] == ["alice"]
        store.forget_actor("alice")
    assert "alice" not in out.getvalue()


def headers(path: Path) -> Counter[tuple[str, int, str, str]]:
    """What the headers of all events say."""
    text = "SELECT lower(hex(s.uid)), e.seq, e.kind, e.actor FROM events e JOIN streams s ON s.id = e.stream"
    connection = apsw.Connection(str(path))
    found = Counter(connection.execute(text))
    connection.close()
    return found


def test_a_batch_says_how_much_it_held(out) -> None:
    with perdure.open("memory:") as store:
        store.session("s")
        before = len(lines(out))
        store.atomic(lambda tx: (tx.session("s").say("user", "a"), tx.session("t").say("user", "b")))
    batches = [line for line in lines(out)[before:] if line["logger"] == "perdure.commit"]
    assert [(line["message"], line["jobs"], line["events"], line["streams"]) for line in batches] == [
        ("committed", 1, 3, 2)
    ]


def test_a_password_is_not_logged(out) -> None:
    from perdure.stores.commit_logging import CommitLogger

    CommitLogger("postgresql://me:hunter2@host/db").committed([], 1)
    assert "hunter2" not in out.getvalue()


# -- the forms -----------------------------------------------------------------------------------------


def record(message: str = "hello", **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("perdure.commit", logging.INFO, "", 1, message, (), None)
    vars(made).update(fields)
    return made


def test_a_line_for_people() -> None:
    line = logs.LogLines().format(record(stream="abc", seq=7, unknown="x"))
    assert line.endswith("Z INFO    perdure.commit: hello stream=abc seq=7")


def test_a_line_commands_no_terminal() -> None:
    assert "\x1b" not in logs.LogLines().format(record("a\x1b[31m\nb", actor="\x9b31m"))
    assert logs.JsonLines().format(record("a\x1b[31m\nb", actor="\x9b31m")).isascii()


def test_a_trace_is_kept() -> None:
    made = record()
    try:
        int("boom")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "boom" in json.loads(logs.JsonLines().format(made))["trace"]
    assert "boom" in logs.LogLines().format(made)


def test_configuring_twice_says_nothing_twice(out) -> None:
    again = io.StringIO()
    logs.configure("info", stream=again)
    logging.getLogger("perdure.commit").info("once")
    assert (out.getvalue(), again.getvalue().count("once")) == ("", 1)


# -- from outside --------------------------------------------------------------------------------------


def test_the_library_configures_nothing_and_says_nothing(tmp_path) -> None:
    program = f"""
import logging, perdure
with perdure.open("sqlite:///{tmp_path}/a.db") as store:
    store.session("s").say("user", "x")
    try: perdure.open("sqlite:///{tmp_path}/a.db", read_only=True).session("new")
    except perdure.Error: pass
logging.getLogger("perdure.commit").warning("nobody listens")
print(logging.getLogger().handlers, [type(h).__name__ for h in logging.getLogger("perdure").handlers])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("[] ['NullHandler']\n", "")


@pytest.mark.parametrize(
    "words",
    [("--log-json", "--log-level", "debug", "anchor"), ("anchor", "--log-level", "debug", "--log-json")],
)
def test_the_command_line_logs_to_stderr_on_demand(tmp_path, words) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        store.session("s")
    command = [
        sys.executable,
        "-m",
        "perdure",
        *words,
        "--unsigned",
        "-o",
        "-",
        "--store",
        url,
        "--actor",
        "bob",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in ran.stderr.splitlines()]
    with perdure.open(url, read_only=True) as store:
        known = {each.actor: each.name for each in store.actors()}
    assert [(line["kind"], known[line["actor"]]) for line in told if line["logger"] == "perdure.event"] == [
        (NAMED, "bob"),
        ("store.tenants_named", "bob"),
        ("store.anchored", "bob"),
    ]
    assert json.loads(ran.stdout)["format"] == 1
