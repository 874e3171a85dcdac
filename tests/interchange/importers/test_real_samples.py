"""Samples that the real libraries and programs made: every turn and every call is there, in order, as these tell it themselves.

The samples in fixtures/foreign were made by the programs in `makers/`, with the versions that their expected.json names; what is
expected is what the library reads back itself, or what the program's model was asked and answered. Where a peer's environment is
there (`perdure evaluate --install-peers`), a new sample is made with it and compared too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from import_fixtures import FOREIGN, Take
from interchange.importers.telling import Told, ours, text
from perdure_evaluate import peers

MAKERS = Path(__file__).parent / "makers"


def of_openai_agents(items: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for item in items:
        if item.get("type") == "function_call":
            yield "call", item["call_id"], item["name"], json.loads(item["arguments"])
        elif item.get("type") == "function_call_output":
            yield "result", item["call_id"], text(item["output"])
        else:
            yield item["role"], text(item["content"])


def of_langgraph(messages: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    roles = {"human": "user", "ai": "assistant", "system": "system"}
    for message in messages:
        if message["type"] == "tool":
            yield "result", message["call"], text(message["content"])
            continue
        if message["content"]:
            yield roles[message["type"]], text(message["content"])
        yield from (("call", *call) for call in message["calls"])


def of_google_adk(session: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for event in session["events"]:
        yield from (("result", call, repr(value)) for call, value in event["results"])
        if event["text"]:
            yield "user" if event["author"] == "user" else "assistant", "\n".join(event["text"])
        yield from (("call", *call) for call in event["calls"])


def of_codex(items: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for item in items:
        if item["type"] == "reasoning":
            yield "assistant", text([{"type": "thinking", "thinking": text(item["summary"])}])
        elif item["type"] == "custom_tool_call":
            yield "call", item["call_id"], item["name"], item["input"]
        elif item["type"] == "custom_tool_call_output":
            yield "result", item["call_id"], text(item["output"])
        else:
            yield from of_openai_agents([item | ({"role": "system"} if item.get("role") == "developer" else {})])


def of_claude_code(messages: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for message in messages:
        for part in message["content"]:
            if part["type"] == "tool_use":
                yield "call", part["id"], part["name"], part["input"]
            elif part["type"] == "tool_result":
                yield "result", part["tool_use_id"], text(part["content"])
            else:
                yield message["role"], text([part])


LIBRARIES = ("openai-agents", "langgraph", "google-adk")
TELL: dict[str, Callable[[Any], Iterator[tuple[Any, ...]]]] = {
    "openai-agents": of_openai_agents, "langgraph": of_langgraph, "google-adk": of_google_adk,
    "codex": of_codex, "claude-code": of_claude_code,
}  # fmt: skip
SAMPLES = [
    ("openai-agents", "sessions.db", "expected.json"),
    ("langgraph", "checkpoints.sqlite", "expected.json"),
    ("google-adk", "sessions.db", "expected.json"),
    ("google-adk", "database.db", "expected-database.json"),
    ("codex", "made", "made/expected.json"),
    ("claude-code", "made", "made/expected.json"),
]


def expected(folder: Path, name: str, file: str) -> dict[str, Told]:
    told = json.loads((folder / file).read_text())["sessions"]
    return {f"{name}/{session}": list(TELL[name](found)) for session, found in told.items()}


def imported(store: Any, names: Any) -> dict[str, Told]:
    return {name: whole(store, name) for name in names}


def whole(store: Any, name: str) -> Told:
    """A session with what its origin names: Codex keeps its first instructions there, and where the beginning of a fork is."""
    origin = store.session(name).get("origin") or {}
    told = ours(store.session(name))
    if "history_base" in origin:
        return [*whole(store, f"codex/{origin['history_base']['thread_id']}"), *told]
    first = origin.get("base_instructions")
    return [("system", first["text"]), *told] if first else told


@pytest.mark.parametrize(("name", "file", "told"), SAMPLES)
def test_every_turn_and_call_is_there_in_order(store: Any, take: Take, name: str, file: str, told: str) -> None:
    report = take(FOREIGN / name / file)
    assert report.ok, report.left_out
    assert set(report.files) == {name}
    wanted = expected(FOREIGN / name, name, told)
    assert set(report.sessions) == set(wanted)
    assert sum(map(len, wanted.values())) > 5
    assert imported(store, wanted) == wanted
    assert store.verify().ok


@pytest.mark.parametrize(("name", "file", "told"), SAMPLES)
def test_importing_again_adds_nothing(store: Any, take: Take, name: str, file: str, told: str) -> None:
    first = take(FOREIGN / name / file)
    before = [event.seq for event in store.events(limit=1000)]
    again = take(FOREIGN / name / file)
    assert again.added == {}
    assert again.standing == first.added
    assert [event.seq for event in store.events(limit=1000)] == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("name", "file", "told"), SAMPLES)
def test_nothing_is_left_beside_their_files(tmp_path: Path, take: Take, name: str, file: str, told: str) -> None:
    own = Path(shutil.copytree(FOREIGN / name, tmp_path / "theirs"))
    before = contents(own)
    take(own / file)
    assert contents(own) == before


DELETE = {
    "openai-agents": "DELETE FROM agent_messages WHERE id = 4",
    "google-adk": "DELETE FROM events WHERE rowid = 3",
    "langgraph": "DELETE FROM checkpoints WHERE thread_id = 'forgets'",
}


def lose_something(name: str, sample: Path) -> None:
    """Take one thing out of a sample: a row of a database, or of a session's file the last answer."""
    if name in DELETE:
        connection = apsw.Connection(str(sample))
        connection.execute(DELETE[name])
        connection.close()
        return
    file = min(sample.glob("*.jsonl"))
    lines = file.read_text().splitlines(keepends=True)
    answers = [at for at, line in enumerate(lines) if '"role":"assistant"' in line]
    file.write_text("".join(line for at, line in enumerate(lines) if at != answers[-1]))


@pytest.mark.parametrize(("name", "file", "told"), SAMPLES)
def test_control_a_sample_that_lacks_something_is_seen(
    store: Any, take: Take, tmp_path: Path, name: str, file: str, told: str
) -> None:
    broken = Path(shutil.copytree(FOREIGN / name, tmp_path / "theirs")) / file
    lose_something(name, broken)
    take(broken)
    wanted = expected(FOREIGN / name, name, told)
    assert imported(store, wanted) != wanted


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_a_file_that_has_grown_adds_what_is_new(store: Any, take: Take, tmp_path: Path, name: str) -> None:
    """A session that was gone on with, imported before and after."""
    own = Path(shutil.copytree(FOREIGN / name / "made", tmp_path / "theirs"))
    file = min(own.glob("*.jsonl"))
    lines = file.read_text().splitlines(keepends=True)
    again = next(at for at, line in enumerate(lines) if "Sure?" in line)
    file.write_text("".join(lines[:again]))
    assert take(file).ok
    file.write_text("".join(lines))
    grown = take(own)
    assert grown.ok
    assert grown.added["turns"] > 0
    wanted = expected(own, name, "expected.json")
    assert imported(store, wanted) == wanted


def test_what_a_session_is_from_is_kept(store: Any, take: Take) -> None:
    """Each session of Claude Code has its folder, also where records that do not name it stand first, or in another's file."""
    for session in take(FOREIGN / "claude-code" / "made").sessions:
        assert store.session(session).get("origin")["cwd"] == "/srv/shop"
        kinds = [event.kind for event in store.session(session).events(emitted=True)]
        assert set(kinds) <= {"claude-code.attachment", "claude-code.cost-state"}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_new_sample_of_the_library_itself(store: Any, take: Take, tmp_path: Path, name: str) -> None:
    if not peers.installed(name):
        pytest.skip(f"{name} is not installed; `perdure evaluate --install-peers` gets it")
    maker = MAKERS / f"make_{name.replace('-', '_')}.py"
    subprocess.run([peers.python(name), maker, tmp_path], check=True, env=peers.environment(), capture_output=True)
    for _, file, told in (sample for sample in SAMPLES if sample[0] == name and (tmp_path / sample[1]).exists()):
        with_own_name = expected(tmp_path, name, told)
        assert take(tmp_path / file).ok
        if file != "database.db":  # the same sessions once more, with other events: only looked at alone
            assert imported(store, with_own_name) == with_own_name
