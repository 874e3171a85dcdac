"""The real programs, offline, against a model on the loopback address: what arrives in their first request, and what is kept.

PERDURE_HOSTS names a folder in which `npm i` was run; with PERDURE_HOSTS=1 npm installs them into a cache of the user. Without it
the tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import perdure
from doors.hosts.loopback import Model
from perdure_agents.hosts import installation
from perdure_agents.hosts.catalog import HOSTS
from perdure_agents.hosts.plans import InstallOptions
from perdure_agents.hosts.workspace import workspace_of

PACKAGES = {
    "claude": "@anthropic-ai/claude-code@2.1.325", "codex": "@openai/codex", "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai", "mcp-inspector": "@modelcontextprotocol/inspector@2.12.0", "node": "node@22",
}  # fmt: skip
TIMEOUT_SECONDS = 300


def programs() -> str:
    """The folders with the programs; installs them if that was asked for. Skips, and says why, where they are not to be had."""
    asked = os.environ.get("PERDURE_HOSTS", "")
    if not asked:
        pytest.skip("the hosts of coding agents are run with PERDURE_HOSTS=1, or PERDURE_HOSTS=FOLDER of an `npm i`")
    folder = Path.home() / ".cache" / "perdure-hosts" if asked == "1" else Path(asked)
    if asked == "1" and not (folder / "node_modules" / ".bin" / "claude").exists():
        if shutil.which("npm") is None:
            pytest.skip("there is no npm")
        folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "i", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES.values()]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            pytest.skip("npm cannot install the hosts here")
    return f"{folder / 'node_modules' / 'node' / 'bin'}:{folder / 'node_modules' / '.bin'}:/usr/bin:/bin"


class Host:
    """One program in a workspace, with a home of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.home, self.root, self.name = folder / "home", folder / "ws", name
        self.home.mkdir()
        (self.root / ".git").mkdir(parents=True)
        self.url = f"sqlite:///{folder / 'a.db'}"
        self.env = {
            "HOME": str(self.home), "PATH": programs(), "TERM": "xterm", "LOOP_KEY": "x", "ANTHROPIC_API_KEY": "sk-test",
            "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }  # fmt: skip
        wanted = InstallOptions((sys.executable, "-m", "perdure"), self.url)
        changes = installation.planned(HOSTS[name], self.root, wanted)
        installation.install(HOSTS[name], self.root, changes, self.home)
        self.session = workspace_of(self.root).session
        with self.open() as store:
            session = store.session(self.session, labels=workspace_of(self.root).labels)
            session.remember("Never push to main", kind="rule")
            session.decide("Use approach A", because="B breaks Safari")

    def open(self) -> Any:
        return perdure.open(self.url, actor="me")

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        if shutil.which(command[0], path=self.env["PATH"]) is None:
            pytest.skip(f"there is no {command[0]}")
        return subprocess.run(
            command, cwd=self.root, env={**self.env, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip

    def kill_while_it_waits(self, model: Model, *command: str, **env: str) -> None:
        """Start it, and kill it and its children with SIGKILL when its model hangs and its call and result are in its transcript:
        a line that the host itself has not written yet dies with it.
        """
        if shutil.which(command[0], path=self.env["PATH"]) is None:
            pytest.skip(f"there is no {command[0]}")
        with subprocess.Popen(
            command, cwd=self.root, env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        ) as host:  # fmt: skip
            try:
                assert model.hung.wait(TIMEOUT_SECONDS)
                deadline = time.monotonic() + TIMEOUT_SECONDS
                while self._lines_with("in-the-middle") < 2 and time.monotonic() < deadline:
                    time.sleep(0.02)
            finally:
                os.killpg(host.pid, signal.SIGKILL)

    def _lines_with(self, text: str) -> int:
        files = [each for each in self.home.rglob("*.jsonl") if each.is_file()]
        return sum(text in line for each in files for line in each.read_text(errors="replace").splitlines())

    def turns(self) -> list[str]:
        """All turns of all its transcripts, as text."""
        with self.open() as store:
            found = [each.name for each in store.sessions() if each.name.startswith(f"{self.name}/")]
            return [json.dumps(turn.content) for name in found for turn in store.session(name).turns(last=1_000)]


def claude(folder: Path) -> Host:
    host = Host(folder, "claude-code")
    known = {"projects": {str(host.root): {"hasTrustDialogAccepted": True}}, "hasCompletedOnboarding": True}
    (host.home / ".claude.json").write_text(json.dumps(known))
    return host


def codex(folder: Path, model: Model) -> Host:
    host = Host(folder, "codex")
    (host.home / ".codex").mkdir()
    (host.home / ".codex" / "config.toml").write_text(
        f'model = "loop"\nmodel_provider = "loop"\n[model_providers.loop]\nname = "loop"\nbase_url = "{model.url}/v1"\n'
        f'wire_api = "responses"\nenv_key = "LOOP_KEY"\n[projects."{host.root}"]\ntrust_level = "trusted"\n'
    )
    return host


def test_claude_code_has_boot_and_tools_in_its_first_request(tmp_path: Path) -> None:
    host = claude(tmp_path)
    with Model(("mcp__perdure__decide", {"text": "Use C", "because": "it is small", "key": "k"})) as model:
        done = host.run("claude", "-p", "fix the login", "--dangerously-skip-permissions", ANTHROPIC_BASE_URL=model.url)
        assert done.returncode == 0, done.stderr
        first = model.asked()[0]
    text = json.dumps(first)
    assert "Never push to main" in text
    assert "Use approach A" in text
    assert "mcp__perdure__boot" in {tool["name"] for tool in first["tools"]}
    with host.open() as store:
        assert "Use C" in [each.text for each in store.session(host.session).decisions()]
    assert sum("fix the login" in each for each in host.turns()) == 1


def test_claude_code_gets_it_back_after_a_compaction_and_each_turn_once(tmp_path: Path) -> None:
    host = claude(tmp_path)
    with Model() as model:
        options = ("--dangerously-skip-permissions",)
        assert host.run("claude", "-p", "first question", *options, ANTHROPIC_BASE_URL=model.url).returncode == 0
        host.run("claude", "-p", "/compact", "--continue", *options, ANTHROPIC_BASE_URL=model.url)
        before = len(model.requests)
        host.run("claude", "-p", "second question", "--continue", *options, ANTHROPIC_BASE_URL=model.url)
        asked = [each for each in model.requests[before:] if each.get("tools")]
    assert "Never push to main" in json.dumps(asked[0])
    assert sum("first question" in each and "second" not in each for each in host.turns()) >= 1
    assert sum(each == '"second question"' for each in host.turns()) <= 1


def test_codex_has_boot_and_tools_in_its_first_request(tmp_path: Path) -> None:
    with Model(("mcp__perdure.decide", {"text": "Use C", "because": "it is small", "key": "k"})) as model:
        host = codex(tmp_path, model)
        options = (
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
        )
        done = host.run("codex", "exec", *options, "fix the login")
        assert done.returncode == 0, done.stderr
        first = model.asked()[0]
    text = json.dumps(first)
    assert "Never push to main" in text
    assert "mcp__perdure" in {tool.get("name") for tool in first["tools"]}
    with host.open() as store:
        assert "Use C" in [each.text for each in store.session(host.session).decisions()]
    assert sum("fix the login" in each for each in host.turns()) == 1


# -- killed ----------------------------------------------------------------------------------------------------------------

CLAUDE_OPTIONS = ("--dangerously-skip-permissions",)
CODEX_OPTIONS = (
    "--dangerously-bypass-hook-trust",
    "--dangerously-bypass-approvals-and-sandbox",
    "--skip-git-repo-check",
)


def check_kept(host: Host, *said: str) -> None:
    """All that the host's sessions wrote down is there, each turn once; they are of this workspace. Boots are kept by name."""
    turns = host.turns()
    for text in said:
        assert sum(text in each for each in turns) == 1, (text, turns)
    assert not any("## Position" in each for each in turns)
    with host.open() as store:
        found = [each.name for each in store.sessions(label=f"workspace:{host.session}")]
    assert len([name for name in found if name.startswith(f"{host.name}/")]) >= 2


def test_a_killed_claude_code_is_kept_by_the_next_session(tmp_path: Path) -> None:
    host = claude(tmp_path)
    call = ("Bash", {"command": "echo in-the-middle", "description": "say it"})
    with Model(call, hangs=True) as model:
        command = ("claude", "-p", "fix the login", *CLAUDE_OPTIONS)
        host.kill_while_it_waits(model, *command, ANTHROPIC_BASE_URL=model.url)
    assert not any("in-the-middle" in each for each in host.turns())  # nobody said Stop
    with Model() as model:
        done = host.run("claude", "-p", "look again", *CLAUDE_OPTIONS, ANTHROPIC_BASE_URL=model.url)
        assert done.returncode == 0, done.stderr
    check_kept(host, "fix the login", "in-the-middle", "look again")


def test_a_killed_codex_is_kept_by_the_next_session(tmp_path: Path) -> None:
    with Model(("exec_command", {"cmd": "echo in-the-middle"}), hangs=True) as model:
        host = codex(tmp_path, model)
        host.kill_while_it_waits(model, "codex", "exec", *CODEX_OPTIONS, "fix the login")
    assert not any("in-the-middle" in each for each in host.turns())
    with Model() as model:
        settings = host.home / ".codex" / "config.toml"
        settings.write_text(re.sub(r"http://127.0.0.1:[0-9]+", model.url, settings.read_text()))
        done = host.run("codex", "exec", *CODEX_OPTIONS, "look again")
        assert done.returncode == 0, done.stderr
    check_kept(host, "fix the login", "in-the-middle", "look again")


# -- Gemini CLI and opencode -----------------------------------------------------------------------------------------------


def gemini(folder: Path) -> Host:
    host = Host(folder, "gemini")
    (host.home / ".gemini").mkdir()
    (host.home / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(host.root): "TRUST_FOLDER"}))
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (host.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return host


def test_gemini_has_boot_and_tools_in_its_first_request(tmp_path: Path) -> None:
    host = gemini(tmp_path)
    with Model(("mcp_perdure_decide", {"text": "Use C", "because": "it is small", "key": "k"})) as model:
        env = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": model.url}
        for said in ("fix the login", "look again"):
            done = host.run("gemini", "-m", "gemini-2.5-pro", "-p", said, "--yolo", **env)
            assert done.returncode == 0, done.stderr
        first = json.dumps(model.asked()[0])
    assert "Never push to main" in first
    assert "mcp_perdure_boot" in first
    with host.open() as store:
        assert "Use C" in [each.text for each in store.session(host.session).decisions()]


def opencode(folder: Path, model: Model) -> Host:
    host = Host(folder, "opencode")
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{model.url}/v1", "apiKey": "x"}}
    settings = host.root / "opencode.json"
    ours = json.loads(settings.read_text())
    model_of = {"model": "loop/m", "small_model": "loop/m", "provider": {"loop": {**provider, "models": {"m": {}}}}}
    settings.write_text(json.dumps({**ours, **model_of}))
    return host


def test_opencode_has_boot_and_tools_in_its_first_request(tmp_path: Path) -> None:
    with Model(("perdure_decide", {"text": "Use C", "because": "it is small", "key": "k"})) as model:
        host = opencode(tmp_path, model)
        for said in ("login", "again"):
            done = host.run("opencode", "run", said, OPENCODE_DISABLE_AUTOUPDATE="1")
            assert done.returncode == 0, done.stderr
        first = next(json.dumps(each) for each in model.asked() if "perdure_decide" in json.dumps(each))
    assert "Never push to main" in first
    with host.open() as store:
        assert "Use C" in [each.text for each in store.session(host.session).decisions()]


def test_gemini_and_opencode_connect(tmp_path: Path) -> None:
    for name, program in (("gemini", "gemini"), ("opencode", "opencode")):
        folder = tmp_path / name
        folder.mkdir()
        host = Host(folder, name)
        (host.home / ".gemini").mkdir()
        (host.home / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(host.root): "TRUST_FOLDER"}))
        listed = host.run(program, "mcp", "list")
        assert "connected" in (listed.stdout + listed.stderr).lower()
        assert "perdure" in listed.stdout + listed.stderr


def test_the_inspector_finds_nothing_to_say(tmp_path: Path) -> None:
    host = Host(tmp_path, "generic")
    server = (sys.executable, "-m", "perdure", "mcp", "--store", host.url, "--session", "s")
    done = host.run("mcp-inspector", "--cli", *server, "--method", "tools/list", "--strict")
    assert done.returncode == 0, done.stderr
