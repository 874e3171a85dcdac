"""The demo: killed again and again, our side did each thing once; the twins on session files, the controls, did not."""

# ruff: noqa: E402 - the demo is a package of the examples

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from perdure import errors

DEMO = Path(__file__).parents[3] / "examples" / "demo"
sys.path.insert(0, str(DEMO.parent))
from demo.__main__ import demo
from demo.fair import RenamedFile
from demo.naive import SessionFile
from demo.proof import LedgerLine, Proof
from demo.scene import DemoTally, Scene
from demo.script import ACTIONS, answer
from demo.story import ActionKind, Round, Side, StoryEnding, StoryPart
from demo.strikes import EARLY, GIT, LATE, WORST, Strike, StrikeMoment, strikes
from demo.view import BAD, FIGURES, GOOD, NAMES, DemoLines, Screen, phrases, say_ending

ONES = ["commits", "pull requests", "comments", "changelog entries", "times a person was asked"]
README = Path(__file__).parents[3] / "README.md"


def played(*words: str) -> Result:
    return CliRunner().invoke(demo, words)


def figures(text: str) -> dict[str, tuple[int, ...]]:
    """The three columns at the end."""
    names = "|".join(name for name, _ in FIGURES)
    found = re.findall(rf"(?m)^({names}) +(\d+) +(\d+) +(\d+)$", text)
    return {name: tuple(map(int, counts)) for name, *counts in found}


def test_killed_again_and_again_it_does_everything_once_and_its_twins_do_not() -> None:
    result = played()
    assert result.exit_code == 0, result.output
    counted = figures(result.stdout)
    assert [counted[name][0] for name in ONES] == [1] * len(ONES)
    assert all(counted[name][1] > 1 for name in ONES)  # the control: the same kills, without a ledger
    assert sum(counted[name][2] > 1 for name in ONES) >= 3  # the fair one: a file that is never torn
    assert all(counted[name][0] <= counted[name][2] <= counted[name][1] for name in counted)
    lives = result.stdout.split("life ")[1:]
    assert sum(life.partition(", ")[2].startswith("killed at ") for life in lives) == len(strikes(1))
    assert not any("redid" in line or "nothing" in line for line in lines_of("Perdure", result.stdout))
    assert any("remembers nothing" in line for line in lines_of("JSON file", result.stdout))
    assert not any("remembers nothing" in line for line in lines_of("JSON + rename", result.stdout))
    assert any("redid" in line for line in lines_of("JSON + rename", result.stdout))
    assert "Its model is a script" in result.stdout
    assert re.search(r"✓ verify: \d+ events and \d+ rows are exactly what was written", result.stdout)
    assert re.search(r"✓ a forger who changes one word in a copy of it is caught: run \w+, event \d+", result.stdout)
    assert figures(README.read_text()) == counted


def lines_of(name: str, text: str) -> list[str]:
    """What is told of one agent, life by life."""
    return re.findall(rf"(?m)^  {re.escape(name)} {{2,}}(.*)$", text)


def test_a_life_that_asked_a_person_is_one_life_and_has_nothing_to_remember(run, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/kept.db"
    shown = played("--no-kill", "--store", url).stdout
    assert "life 1, nobody kills it\n" in shown
    did = [line for name in NAMES for line in lines_of(name, shown)]
    assert did == [f"did {' '.join(ACTIONS[:-1])} ask merge"] * 3
    for command in re.findall(r"(?m)^  perdure (.*)$", shown):  # what it says to look with can be pasted
        assert run(*command.split()).exit_code == 0, command


def test_nobody_killed_all_do_everything_once_and_the_store_keeps_it(ask, run, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/kept.db"
    told = json.loads(played("--no-kill", "--store", url, "--json").stdout)
    assert told["held"]
    assert (told["kills"], told["strikes"]) == (0, [])
    for side in told["counts"].values():
        assert [side[name.replace(" ", "_")] for name in ONES] == [1] * len(ONES)
    assert [entry["attempts"] for entry in told["ledger"]] == [1] * len(ACTIONS)
    kept = ask("effects", "--store", url)["items"]
    assert {each["tool"] for each in kept} == {entry["tool"] for entry in told["ledger"]}
    assert run("verify", "--store", url).exit_code == 0
    assert list(tmp_path.glob("*.py")) == []


def test_a_run_that_is_interrupted_leaves_nothing_behind(tmp_path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen([sys.executable, DEMO], stdout=subprocess.PIPE, env=env, text=True)
    assert demo.stdout is not None
    assert any(line.startswith("life 1") for line in demo.stdout)
    folder = next(tmp_path.glob("perdure-demo-*"))
    demo.send_signal(signal.SIGINT)
    demo.stdout.read()
    assert demo.wait(60) != 0
    demo.stdout.close()
    assert not folder.exists()
    assert processes_in(tmp_path) == []


def test_what_is_being_started_while_the_scene_is_left_ends_too(tmp_path, monkeypatch) -> None:
    entered, go_on, started = threading.Event(), threading.Event(), []

    def slowly(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        entered.set()
        assert go_on.wait(60)
        started.append(process := subprocess.Popen(*given, **named))
        return process

    found = Scene(tmp_path)
    monkeypatch.setattr("demo.scene.subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": slowly}))
    with ThreadPoolExecutor(2) as threads:
        starting = threads.submit(found.start, "agent")
        assert entered.wait(60)
        stopping = threads.submit(found.stop)
        with pytest.raises(TimeoutError):
            stopping.result(0.2)
        go_on.set()
        stopping.result(60)
        assert starting.result() is started[0]
    assert started[0].poll() is not None
    with pytest.raises(errors.Unavailable, match="over"):
        found.start("agent")


def processes_in(folder: Path) -> list[str]:
    """The command lines that name something below the folder."""
    found = [read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    return [line for line in found if str(folder) in line]


def read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("words", [("--seed", "x"), ("--store", "nonsense"), ("--store", "memory:"), ("--rounds", "3")])
def test_wrong_arguments(words) -> None:
    said = subprocess.run([sys.executable, DEMO, *words], capture_output=True, text=True, check=False)
    assert said.returncode == errors.Invalid.exit_code
    assert "Traceback" not in said.stderr


def test_the_command_that_once_was_says_where_the_demo_is(run) -> None:
    refused = run("demo")
    assert refused.exit_code == errors.Invalid.exit_code
    assert "make demo" in refused.stderr


# -- the verdict: it would notice ----------------------------------------------------------------------------------------


def ending(**changed: object) -> StoryEnding:
    ours = Side(DemoTally(commits=1, pulls=1, comments=1, entries=1, requests=5), asked=1, model_calls=10)
    entry = LedgerLine("run:a/4", "shell", "probed", 1, "committed", "")
    given = StoryEnding(8, 8, ours, ours, ours, [entry], [Proof("verify", held=True)], "a", 1.0)
    return msgspec.structs.replace(given, **changed)


def test_control_one_of_each_holds() -> None:
    assert ending().held


@pytest.mark.parametrize("what", ["commits", "pulls", "comments", "entries"])
@pytest.mark.parametrize("count", [0, 2])
def test_something_twice_or_not_at_all_is_noticed(what, count) -> None:
    ours = ending().ours
    wrong = msgspec.structs.replace(ours, tally=msgspec.structs.replace(ours.tally, **{what: count}))
    assert not ending(ours=wrong).held
    assert ending(naive=wrong, fair=wrong).held  # the twins' figures are shown, and are no verdict
    assert wrong.extra == max(count - 1, 0)


def test_doubt_a_strike_that_missed_and_a_proof_that_failed_are_noticed() -> None:
    doubted = LedgerLine("run:a/4", "shell", "probed", 1, "in_doubt", "")
    assert not ending(ledger=[doubted]).held
    assert not ending(proofs=[Proof("verify", held=False)]).held
    assert not ending(kills=7).held
    assert not ending(ours=msgspec.structs.replace(ending().ours, asked=2)).held


# -- strikes -------------------------------------------------------------------------------------------------------------


def test_the_seed_decides() -> None:
    assert strikes(7) == strikes(7)
    assert len({tuple(strikes(seed)) for seed in range(50)}) > 10


@pytest.mark.parametrize("seed", range(50))
def test_whatever_the_seed_the_plan_can_be_played(seed) -> None:
    """In the order of the actions, an early strike before a late one, and never a git that has to be waited for."""
    plan = strikes(seed)
    order = [(ACTIONS.index(each.action), each.moment in LATE) for each in plan]
    assert order == sorted(set(order))
    assert {Strike(action, moment) for action, moment in WORST.items()} <= set(plan)
    assert Strike("merge", StrikeMoment.BEFORE) in plan
    assert not {Strike(action, StrikeMoment.INTENT) for action in GIT} & set(plan)
    assert set(EARLY) | set(LATE) == set(StrikeMoment)


# -- parts ---------------------------------------------------------------------------------------------------------------


def test_the_model_says_the_same_again() -> None:
    done = [{"sha": "a", "number": 3}] * len(ACTIONS)
    calls = [answer(done[:count]) for count in range(len(ACTIONS) + 1)]
    assert [call.get("call") for call in calls] == [*ACTIONS, None]
    assert calls == [answer(done[:count]) for count in range(len(ACTIONS) + 1)]


def test_a_torn_session_file_is_a_new_beginning(tmp_path) -> None:
    session = SessionFile(tmp_path / "session.json")
    assert session.load() == []
    session.save([{"green": True}])
    assert session.load() == [{"green": True}]
    (tmp_path / "session.json").write_text("")
    assert session.load() == []


def test_a_renamed_one_is_never_torn(tmp_path, monkeypatch) -> None:
    session = RenamedFile(tmp_path / "session.json")
    session.save([{"green": True}])

    def die(point: str) -> None:
        if point == "lane.before_commit":
            raise KeyboardInterrupt

    monkeypatch.setattr("demo.fair.reach", die)
    with pytest.raises(KeyboardInterrupt):
        session.save([{"green": True}, {"path": "x"}])
    assert session.load() == [{"green": True}]


def lived(strike: Strike | None, *actions: tuple[int, str], before: frozenset[int | str] = frozenset()) -> StoryPart:
    part = StoryPart(before)
    part.remembered = len(before)
    for number, action in actions:
        part.begin(number, action)
    part.end("killed" if strike else "done", strike)
    return part


def test_what_was_done_again_is_known_by_what_was_done() -> None:
    """A kill after the call leaves the action done; a kill before it does not."""
    late = lived(Strike("fix", StrikeMoment.DONE), (0, "test"), (1, "fix"))
    early = lived(Strike("fix", StrikeMoment.BEFORE), (0, "test"), (1, "fix"))
    assert (late.done, early.done) == ({0, 1}, {0})
    again = lived(None, (0, "test"), (1, "fix"), (2, "note"), before=late.done)
    assert [how for *_, how in again.deeds] == [ActionKind.AGAIN, ActionKind.AGAIN, ActionKind.NEW]
    assert [how for *_, how in lived(None, (1, "fix"), before=early.done).deeds] == [ActionKind.NEW]


def test_each_phrase_has_the_colour_of_what_it_says() -> None:
    part = lived(None, (0, "test"), (1, "fix"), before=frozenset({0}))
    part.begin(2, "note", is_open=True)
    part.finish()
    part.remembered = 0
    assert phrases(part, first=False) == [
        ("remembers nothing", BAD), ("checked note", GOOD), ("redid test", BAD), ("did fix", GOOD),
    ]  # fmt: skip
    assert [text for text, _ in phrases(StoryPart(), first=True)] == ["starting …"]  # never what it may yet remember


def told() -> Round:
    one = Round(2, Strike("pull", StrikeMoment.DONE), [lived(None, (0, "test"))] * 3)
    for part, number in zip(one.parts, (1, 0, 0), strict=True):
        part.remembered = number
        part.begin(number, ("test", "fix")[number])
        part.end("killed", one.strike)
    one.extra = [0, 2, 1]
    return one


def test_the_lines_show_all_agents(capsys) -> None:
    DemoLines().end(told())
    assert capsys.readouterr().out == (
        "life 2, killed at pull: done, not saved yet\n"
        "  Perdure        remembers 1; did fix\n"
        "  JSON file      remembers nothing; redid test\n"
        "  JSON + rename  remembers nothing; redid test\n"
    )


def test_the_screen_shows_all_agents_and_the_duplicates(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    one = told()
    with Screen().shown() as screen:
        screen.begin(one)
        screen.end(one)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["life", "what", "happens", "Perdure", "JSON", "file", "JSON", "+", "rename"]
    assert lines[-1].split() == ["duplicates", "so", "far", "0", "2", "1"]


def test_the_table_that_matters_has_the_colours(monkeypatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("demo.view.say_table", lambda columns, rows: drawn.append((columns, rows)))
    twice = msgspec.structs.replace(ending().ours, asked=2)
    say_ending(ending(naive=twice))
    columns, rows = drawn[-1]
    asked = next(row for row in rows if row[0] == "times a person was asked")
    assert [column.style(asked) for column in columns[1:]] == [GOOD, BAD, GOOD]
