"""Makes a sample with Codex itself: sessions with a model that is played, one gone on with, one forked. Needs node and npm.

python make_codex.py FOLDER NPM    installs Codex into NPM (outside of any repository), writes rollout files, and
                                   expected.json: what the model was asked last in each session, and what it answered
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from programs import Event, environment, install, keep_lines, model, scrubbed, write_expected

PACKAGE = "@openai/codex"
PATCH = "*** Begin Patch\n*** Update File: auth.py\n@@\n-SameSite=None\n+SameSite=Lax\n*** End Patch\n"

Item = dict[str, Any]


def says(text: str) -> Item:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def thinks(text: str) -> Item:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "c2VjcmV0"}


def calls(call: str, name: str, **arguments: Any) -> Item:
    return {"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(arguments)}


def patches(call: str, patch: str) -> Item:
    return {"type": "custom_tool_call", "call_id": call, "name": "apply_patch", "input": patch}


ANSWERS: list[list[Item]] = [
    [thinks("**Listing files**"), says("Let me look."), calls("call_1", "exec_command", cmd="ls"),
     calls("call_2", "exec_command", cmd="cat missing.py"), calls("call_3", "no_such_tool", why="ünï 🦉")],
    [patches("call_4", PATCH)],
    [says("There is auth.py, and it is mended.")],
    [says("Yes.")],  # the first session goes on
    [says("No.")],  # its fork
]  # fmt: skip


class Played:
    """A model that says one answer after the other, and keeps each request with its answer, by session."""

    def __init__(self) -> None:
        self._answers = iter(ANSWERS)
        self.told: dict[str, list[Item]] = {}

    def answer(self, asked: dict[str, Any]) -> Iterator[Event]:
        items = [{"id": f"item_{number}", **item} for number, item in enumerate(next(self._answers))]
        self.told[asked["prompt_cache_key"]] = [*asked["input"], *items]
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        for item in items:
            yield {"type": "response.output_item.done", "item": item}
        usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}


class Codex:
    """The program, in a folder to work in."""

    def __init__(self, npm: Path, address: str) -> None:
        self._program = npm / "node_modules" / ".bin" / "codex"
        self._work, self.home = npm / "shop", npm / "home"
        for old in (self._work, self.home):
            shutil.rmtree(old, ignore_errors=True)
        self._work.mkdir()
        (self._work / "auth.py").write_text("SameSite=None\n")
        self._env = environment(self.home, PLAYED_KEY="none")
        provider = f'{{name="played",base_url="{address}/v1",wire_api="responses",env_key="PLAYED_KEY"}}'
        self._options = ["-m", "gpt-5.5", "-c", "model_provider=played", "-c", f"model_providers.played={provider}"]

    def run(self, *arguments: str) -> None:
        command = [self._program, "exec", "-s", "workspace-write", "--skip-git-repo-check", *self._options, *arguments]
        subprocess.run(
            command, cwd=self._work, env=self._env, stdin=subprocess.DEVNULL, check=True, capture_output=True
        )

    def rollouts(self) -> list[Path]:
        return sorted(self.home.glob(".codex/sessions/*/*/*/rollout-*.jsonl"))

    def names(self) -> dict[str, str]:
        return {str(self._work): "/srv/shop", str(self.home): "/srv/ann"}


def main(folder: Path, npm: Path) -> None:
    made_with, played = install(PACKAGE, npm), Played()
    with model(played.answer) as address:
        codex = Codex(npm, address)
        codex.run("Which files are here?")
        (session,) = played.told
        codex.run("resume", session, "Sure?")
        codex.run("fork", session, "Really?")
    for rollout in codex.rollouts():
        keep_lines(rollout, folder / rollout.name, codex.names())
    write_expected(folder, {"made with": made_with, "sessions": scrubbed(played.told, codex.names())})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
