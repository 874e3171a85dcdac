"""The programs in examples/ do what they say, against a model behind HTTP that follows a script, and killed on the way.

They are run as a newcomer runs them: copied into an empty folder, with nothing but the settings that their text shows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked
from runtime.crew import until
from scripted import Outside, complaint, serving

EXAMPLES = Path(__file__).parent.parent / "examples"
TASK = "Write about tides and publish it"
SCRIPTS = {
    "the moon?": [("", [("read_note", {"name": "moon"})]), ("The moon pulls.", [])],
    "tides?": [("Nothing.", [])],
    "Write": [
        ("I begin.", [("write_note", {"name": "tides", "text": "first"}), ("fly", {}), ("write_note", {"name": "../x"})]),
        ("Better.", [("write_note", {"name": "tides", "text": "second"}), ("read_note", {"name": "tides"})]),
        ("Out with it.", [("publish", {"title": "Tides", "text": "second"}), ("write_note", {"name": "log", "text": "out"})]),
        ("It is out.", []),
    ],
}  # fmt: skip
MODEL_CALLS = 7  # three of the researchers, four of the writer
DYING = 40  # more deaths than requests: it never comes to its end


class Place:
    """A folder in which an example runs, and what it finds outside."""

    def __init__(self, folder: Path, outside: Outside, store: str = "sqlite:///agent.db") -> None:
        self.folder = folder
        self.outside = outside
        self.env = {
            **os.environ, "PERDURE_STORE": store, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "MODEL_URL": outside.url, "MODEL_NAME": "scripted", "PUBLISH_URL": f"{outside.url}/articles",
        }  # fmt: skip
        for program in EXAMPLES.glob("*.py"):
            shutil.copy(program, folder)

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def shell(self, line: str) -> tuple[int, str]:
        """Run a line as a newcomer types it; how it ended, and what it said."""
        process = self.start("sh", "-c", line)
        said, complained = process.communicate(timeout=120)
        return process.returncode, said + complained

    def perdure(self, *words: str) -> tuple[int, str]:
        """Run our own command."""
        return self.run("-m", "perdure", *words)

    def run(self, *words: str) -> tuple[int, str]:
        """Start an example. Gives how it ended, and its output. A test that kills it at some request does so itself."""
        with (
            tempfile.TemporaryFile("w+") as said,
            tempfile.TemporaryFile("w+") as complained,
            forked.Program(*words, cwd=self.folder, env=self.env, held=True,
                           stdin=subprocess.DEVNULL, stdout=said, stderr=complained) as process,
        ):  # fmt: skip
            self.outside.victim = process.pid
            process.go()
            code = process.wait(120)
            said.seek(0)
            complained.seek(0)
            return code, said.read() + complained.read()

    def until_done(self, program: str, *args: str) -> str:
        """Start it again whenever it was killed, answer it when it asks; what it said in the end."""
        for _ in range(DYING):
            code, said = self.run(program, *args)
            if code == 0:
                return said
            if code != -signal.SIGKILL:
                assert "Publish 'Tides'?" in said, said
                self.approve()
        raise AssertionError("it comes to no end")

    def approve(self) -> None:
        (ask,) = self.asks()
        assert self.perdure("answer", ask["id"], "approve", "--by", "ada")[0] == 0

    def asks(self) -> list[Any]:
        return json.loads(self.perdure("asks", "--json")[1])["items"]

    def check(self) -> None:
        """What is there in the end, whatever died: all of it, once."""
        assert self.outside.refused == []
        assert [each["title"] for each in self.outside.published.values()] == ["Tides"]
        notes = {each.name: each.read_text() for each in (self.folder / "notes").iterdir()}
        assert notes == {"tides": "second", "log": "out"}
        code, said = self.perdure("verify")
        assert code == 0, said


@pytest.fixture
def placed(tmp_path: Path) -> Any:
    opened: list[Any] = []

    def place(outside: Outside, store: str = "sqlite:///agent.db") -> Place:
        opened.append(serving(outside))
        return Place(tmp_path, opened[-1].__enter__(), store)

    yield place
    for each in opened:
        each.__exit__(None, None, None)


Placing = Callable[..., Place]


def shown(program: str) -> list[str]:
    """The commands that the first lines of a program show; what follows a # is for people."""
    text = (EXAMPLES / program).read_text().split('"""')[1]
    return [line.partition(" #")[0].strip() for line in text.splitlines() if line.startswith("    ")]


def test_the_commands_that_an_agent_shows_work_as_they_stand(placed: Placing) -> None:
    place = placed(Outside(SCRIPTS))
    del place.env["PERDURE_STORE"]
    exports, lines = [
        [line for line in shown("agent.py") if line.startswith("export ") is wanted] for wanted in (True, False)
    ]
    assert set(re.findall(r"(\w+)=", " ".join(exports))) == {"MODEL_URL", "MODEL_NAME", "MODEL_KEY", "PUBLISH_URL"}
    code, said = place.shell(lines[0])
    assert (code, "Publish 'Tides'?" in said) == (1, True), said
    (ask,) = place.asks()
    code, said = place.shell(lines[1].replace("ASK", ask["id"]))
    assert code == 0, said
    assert place.shell(lines[2]) == (0, f"It is out.\n{5 * MODEL_CALLS} tokens\n")
    place.check()


@pytest.mark.parametrize("program", ["agent.py", "loop.py"])
def test_what_is_not_set_is_said_before_anything_is_begun(placed: Placing, program: str) -> None:
    place = placed(Outside(SCRIPTS))
    del place.env["MODEL_URL"], place.env["PUBLISH_URL"]
    said = "MODEL_URL and PUBLISH_URL must be set: the first lines of agent.py show how\n"
    assert place.run(program, "a", "b", "c") == (1, said)
    assert not (place.folder / "agent.db").exists()


def test_an_agent_with_tools(placed: Placing) -> None:
    place = placed(Outside(SCRIPTS, busy=1))
    said = place.until_done("agent.py", TASK)
    assert said == f"It is out.\n{5 * MODEL_CALLS} tokens\n"
    assert Counter(place.outside.asked) == {"the moon?": 2, "tides?": 1, "Write": 4}
    place.check()


def test_the_model_is_told_what_there_is(placed: Placing) -> None:
    """What the ledger hands in is not the model's to choose."""
    place = placed(Outside(SCRIPTS))
    place.until_done("agent.py", TASK)
    described = {each["function"]["name"]: each["function"] for each in place.outside.offered}
    assert [*described] == ["read_note", "write_note", "publish"]
    assert described["publish"]["parameters"] == {
        "type": "object", "properties": {"title": {"type": "string"}, "text": {"type": "string"}},
        "required": ["title", "text"],
    }  # fmt: skip


@pytest.mark.parametrize("moments", ["before each", "after each", "after each second"])
def test_an_agent_that_is_killed_whenever_it_asks_somebody(placed: Placing, moments: str) -> None:
    """A death before its answer is heard costs one more request of the same; a death costs nothing else."""
    deaths = {
        "before each": [-number for number in range(1, DYING, 2)],
        "after each": range(1, DYING, 2),
        "after each second": range(2, DYING, 3),
    }
    outside = Outside(SCRIPTS, deaths=[*deaths[moments]])
    place = placed(outside)
    assert place.until_done("agent.py", TASK).startswith("It is out.\n")
    assert len(outside.asked) <= outside.requests <= 2 * (MODEL_CALLS + 1)
    place.check()


@pytest.mark.parametrize("deaths", [(), (1, 3, 5), (-2, 4, -6, 7)], ids=str)
def test_a_loop_of_ones_own(placed: Placing, deaths: tuple[int, ...]) -> None:
    outside = Outside(SCRIPTS, deaths=deaths)
    place = placed(outside)
    assert place.until_done("loop.py", "issue-42", "m1", TASK) == "It is out.\n"
    assert len(outside.asked) <= 4 + len(deaths)
    place.check()
    before = outside.requests
    assert (
        place.until_done("loop.py", "issue-42", "m1", TASK) == "It is out.\n"
    )  # the same message: nothing is done again
    assert outside.requests == before


LONG_TALK = """
import loop, perdure
with perdure.open(loop.STORE) as store:
    session = store.session("chat")
    for number in range(42):
        session.say("user", "hello", key=str(number))
        loop.answer(session)
        loop.shorten(session)
    print(len(session.turns()), len(session.covers()), len(session.transcript()))
"""


def test_a_long_conversation_is_shortened(placed: Placing) -> None:
    """When there are 80 turns a summary stands for the first 40. It is asked for once."""
    place = placed(Outside({"hello": [("Well.", [])] * 60}))
    assert place.run("-c", LONG_TALK) == (0, "84 1 45\n")
    assert place.outside.refused == []
    assert len(place.outside.asked) == 43


@pytest.mark.parametrize("killed", [False, True], ids=["in peace", "killed"])
def test_a_team_with_workers(placed: Placing, killed: bool, postgres_store: str) -> None:
    outside = Outside(SCRIPTS, deaths=[4] if killed else [])
    place = placed(outside, postgres_store)
    crew = [place.start("perdure", "worker", "team:agents", "--processes", "2")]
    desk = place.start(sys.executable, "team.py", TASK)
    outside.victim = crew[0].pid
    try:
        if killed:
            assert crew[0].wait(120) == -signal.SIGKILL
            crew.append(place.start("perdure", "worker", "team:agents", "--processes", "2"))
        until(place.asks)
        place.approve()
        assert desk.communicate(timeout=120)[0] == "It is out.\n"
    finally:
        for process in (*crew, desk):
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)
    assert MODEL_CALLS <= len(outside.asked) <= MODEL_CALLS + 2
    place.check()


def test_control_a_provider_refuses_a_call_without_its_result() -> None:
    made = {"role": "assistant", "tool_calls": [{"id": "c1"}]}
    assert complaint([made, {"role": "tool", "tool_call_id": "c1"}]) is None
    assert complaint([made]) == "there is no result of ['c1']"
    assert complaint([made, {"role": "user"}]) == "message 1 comes before the results of ['c1']"
    assert complaint([{"role": "tool", "tool_call_id": "c1"}]) == "message 0 is the result of a call that nobody made"
