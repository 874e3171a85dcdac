"""Makes a sample with Claude Code itself: a session with a model that is played, gone on with, and forked. Needs node and npm.

python make_claude_code.py FOLDER NPM    installs Claude Code into NPM (outside of any repository), writes session files, and
                                         expected.json: what the model was asked last in each session, and what it answered
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from programs import Event, environment, install, keep_lines, model, scrubbed, write_expected

PACKAGE = "@anthropic-ai/claude-code"
SESSION, FORK = "5a3b1e00-0000-4000-8000-000000000001", "5a3b1e00-0000-4000-8000-000000000002"
QUIET = dict.fromkeys(("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), "1")
REMINDER = "<system-reminder>"

Block = dict[str, Any]


def says(text: str) -> Block:
    return {"type": "text", "text": text}


def thinks(text: str) -> Block:
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}


def uses(call: str, name: str, **given: Any) -> Block:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


TASK = {
    "description": "Check",
    "prompt": "Check the tests",
    "subagent_type": "general-purpose",
    "run_in_background": False,
}
# what is said to whoever was asked this last
ANSWERS: dict[str, list[list[Block]]] = {
    "Which files are here?": [
        [thinks("Look first."), says("Let me look."), uses("toolu_01", "Bash", command="ls", description="List"),
         uses("toolu_02", "Read", file_path="missing.py")],
        [uses("toolu_03", "Agent", **TASK)],
        [says("There is auth.py. ünï 🦉")],
    ],
    "Check the tests": [[uses("toolu_11", "Bash", command="cat auth.py", description="Read")], [says("They fail.")]],
    "Sure?": [[says("Yes.")]],
    "Really?": [[uses("toolu_21", "Bash", command="rm auth.py", description="Remove")], [says("It was not allowed.")]],
}  # fmt: skip


class Played:
    """A model that says what stands in ANSWERS, and keeps each request with its answer, by what was asked first and last."""

    def __init__(self) -> None:
        self._answers = {asked: iter(answers) for asked, answers in ANSWERS.items()}
        self._given = 0
        self.told: dict[str, list[dict[str, Any]]] = {}

    def answer(self, asked: dict[str, Any]) -> Iterator[Event]:
        messages = [each for each in map(spoken, asked["messages"]) if each["content"]]
        question = [part["text"] for each in messages for part in each["content"] if asks(each, part)][-1]
        blocks = next(self._answers[question])
        self.told[question] = [*messages, {"role": "assistant", "content": blocks}]
        self._given += 1  # an id of its own for each: the program joins what has the same
        return streamed(blocks, {"id": f"msg_{self._given:02}", "model": asked["model"]})


def spoken(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what the program adds for the model: its reminders, and marks for caching."""
    content = message["content"] if message["role"] != "system" else []
    parts = [says(content)] if isinstance(content, str) else content
    kept = [part for part in parts if not str(part.get("text", "")).startswith(REMINDER)]
    return {
        "role": message["role"],
        "content": [{k: v for k, v in part.items() if k != "cache_control"} for part in kept],
    }


def asks(message: dict[str, Any], part: Block) -> bool:
    return message["role"] == "user" and part["type"] == "text"


def streamed(blocks: list[Block], about: dict[str, Any]) -> Iterator[Event]:
    usage, nothing = (
        {"input_tokens": 7, "output_tokens": 5},
        {"content": [], "stop_reason": None, "stop_sequence": None},
    )
    yield {
        "type": "message_start",
        "message": {"type": "message", "role": "assistant", **about, **nothing, "usage": usage},
    }
    for index, block in enumerate(blocks):
        begun, deltas = pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def pieces(block: Block) -> tuple[Block, list[Block]]:
    """A block as it begins, and what is added to it."""
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    thought, signature = block["thinking"], block["signature"]
    deltas = [{"type": "thinking_delta", "thinking": thought}, {"type": "signature_delta", "signature": signature}]
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


class Claude:
    """The program, in a folder to work in."""

    def __init__(self, npm: Path, address: str) -> None:
        (self._program,) = (npm / "node_modules" / "@anthropic-ai").glob("claude-code-*/claude")
        self._work, self._home = npm / "shop", npm / "home"
        for old in (self._work, self._home):
            shutil.rmtree(old, ignore_errors=True)
        self._work.mkdir()
        (self._work / "auth.py").write_text("SameSite=None\n")
        self._env = environment(self._home, ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="none", **QUIET)

    def run(self, *arguments: str) -> None:
        allowed = ["--tools", "Bash,Read,Agent", "--allowedTools", "Bash(ls),Bash(cat auth.py),Read,Agent"]
        command = [self._program, "-p", *arguments, *allowed]
        subprocess.run(
            command, cwd=self._work, env=self._env, stdin=subprocess.DEVNULL, check=True, capture_output=True
        )

    def project(self) -> Path:
        (found,) = (self._home / ".claude" / "projects").iterdir()
        return found

    def names(self) -> dict[str, str]:
        """What is of this machine: its folders (also as the program makes a name of one), and its kernel."""
        named = self.project().name
        return {
            str(self._work): "/srv/shop",
            str(self._home): "/srv/ann",
            named: "-srv-shop",
            platform.release(): "6.1.0",
        }


def sessions(played: Played, agents: list[Path]) -> dict[str, Any]:
    """What was told, by the names of the program's files."""
    (agent,) = agents
    return {
        SESSION: played.told["Sure?"],
        FORK: played.told["Really?"],
        f"{SESSION}/{agent.stem}": played.told["Check the tests"],
    }


def main(folder: Path, npm: Path) -> None:
    made_with, played = install(PACKAGE, npm), Played()
    with model(played.answer) as address:
        claude = Claude(npm, address)
        claude.run("Which files are here?", "--session-id", SESSION)
        claude.run("Sure?", "--resume", SESSION)
        claude.run("Really?", "--resume", SESSION, "--fork-session", "--session-id", FORK)
    files = sorted(claude.project().rglob("*.jsonl"))
    for file in files:
        keep_lines(file, folder / file.relative_to(claude.project()), claude.names())
    told = sessions(played, [file for file in files if file.parent.name == "subagents"])
    write_expected(folder, {"made with": made_with, "sessions": scrubbed(told, claude.names())})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
