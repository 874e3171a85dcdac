"""Whole numbers that Python does not print: refused as new values, and shown where an older version let them in (P15)."""

from __future__ import annotations

import pytest

import perdure
from perdure import errors
from perdure.model import values
from perdure.model.limits import INT_SHOWN_MAX_BITS

LONG = 10**5_000
LONGEST = 2**INT_SHOWN_MAX_BITS - 1


@perdure.tool(kind="idempotent")
def doubled(number: int) -> int:
    return number * 2


@perdure.agent
def counting(run: perdure.Run, number: int) -> object:
    made = run.act(doubled, number)
    run.ask("And now?", detail=[made, (number,)])
    return made


@pytest.fixture
def older(tmp_path, monkeypatch) -> str:
    """A store of a version that took numbers of any length: a run that waits, its effect, a turn, an event and a value."""
    url = f"sqlite:///{tmp_path}/older.db"
    with monkeypatch.context() as patched, perdure.open(url) as store:
        patched.setattr(values._Writer, "INT_MAX_BITS", 2**30)
        session = store.session("main")
        session.say("user", {"number": LONG})
        session.set("number", [LONG])
        session.emit("numbers.counted", {"number": (LONG,)})
        with pytest.raises(perdure.Waiting):
            store.drive(counting, LONG, key="one", session="main")
    return url


@pytest.mark.parametrize("as_json", [(), ("--json",)])
@pytest.mark.parametrize("command", ["runs", "effects", "events", "sessions", "tail", "show", "export"])
def test_commands_show_what_an_older_version_kept(run, older, command, as_json):
    words = {"tail": ["--from-start", "--once"], "show": ["main"], "export": ["main", "--format", "json"]}
    if command == "export" and as_json:
        words["export"] = ["main", "--format", "markdown"]
    shown = run(command, *words.get(command, []), *(() if command == "export" else as_json), "--store", older)
    assert shown.exit_code == 0, shown.output
    assert "damaged" not in shown.output


def test_a_run_that_holds_one_goes_on(older):
    with perdure.open(older) as store:
        (ask,) = store.asks()
        store.answer(ask.id, "go on")
        assert store.drive(counting, LONG, key="one", session="main") == 2 * LONG


@pytest.mark.parametrize("number", [LONG, -LONG, LONGEST + 1], ids=["long", "negative", "one more"])
def test_new_ones_are_refused_with_their_path(tmp_path, number):
    with perdure.open(f"sqlite:///{tmp_path}/new.db") as store:
        session = store.session("main")
        with pytest.raises(errors.TooLarge, match="bits") as told:
            session.set("number", {"deep": [1, number]})
        assert told.value.path == "value.deep[1]"
        with pytest.raises(errors.TooLarge) as told:
            store.start(counting, number)
        assert told.value.path == "args[0]"
        session.set("number", LONGEST)
        assert session.get("number") == LONGEST
        assert str(LONGEST)
