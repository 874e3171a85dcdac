"""Whether a host will really use Perdure: its program, its configuration, the server, trust and permissions.

Reads files and runs two programs with a deadline; changes nothing. Callers: `perdure doctor --hosts` and `perdure install`.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Error
from perdure.model import programs
from perdure_agents.hosts import installation, plans
from perdure_agents.hosts.catalog import HOSTS, Host
from perdure_agents.hosts.workspace import workspace_of

VERSION_SECONDS = 20
SERVER_SECONDS = 30
HELLO = (
    {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


class HostFinding(NamedTuple):
    """One look at a host: ok, warning or error, and the way out."""

    host: str
    check: str
    severity: str
    says: str
    fix: str = ""


def examine(root: Path, home: Path, only: str = "") -> list[HostFinding]:
    """All hosts that were installed in a workspace, or one of them."""
    chosen = [HOSTS[only]] if only else [*HOSTS.values()]
    records = [(host, installation.read_record(host, root, home)) for host in chosen]
    findings: list[HostFinding] = []
    for host, record in records:
        if record is not None:
            findings += _of_host(host, root, home, record)
        elif only:
            fix = f"perdure install --for {host.name}"
            findings.append(
                HostFinding(host.name, "configured", "error", "it was not installed in this workspace", fix)
            )
    return findings


def _of_host(host: Host, root: Path, home: Path, record: installation.InstallRecord) -> list[HostFinding]:
    findings = [_version(host), _configured(host, root, record), *_connected(host, root)]
    match host.name:
        case "claude-code":
            findings += [_claude_trusted(root, home), _claude_allowed(root)]
        case "codex":
            findings += _codex_trusted(root, home)
    return findings


def _version(host: Host) -> HostFinding:
    if not host.program:
        return HostFinding(host.name, "version", "ok", "no program of its own")
    program = programs.find(host.program)
    if program is None:
        return HostFinding(
            host.name, "version", "warning", f"no program {host.program!r} on the PATH", f"install {host.title}"
        )
    try:
        ended = programs.run([program, "--version"], env=os.environ, seconds=VERSION_SECONDS)
    except OSError as error:
        return HostFinding(host.name, "version", "warning", f"{host.program} --version: {error}")
    if ended.timed_out:
        return HostFinding(host.name, "version", "warning", f"{host.program} --version did not end in time")
    lines = str(ended.out).strip().splitlines()
    return HostFinding(host.name, "version", "ok", lines[0][:80] if lines else "unknown")


def _configured(host: Host, root: Path, record: installation.InstallRecord) -> HostFinding:
    fix = f"perdure install --for {host.name}"
    try:
        missing = [path for path in record.files if installation.is_changed(root, path, record.files[path])]
    except Error as error:
        return HostFinding(host.name, "configured", "error", str(error), fix)
    if missing:
        return HostFinding(host.name, "configured", "warning", f"changed since the install: {', '.join(missing)}", fix)
    return HostFinding(host.name, "configured", "ok", f"{len(record.files)} files as they were written")


def _connected(host: Host, root: Path) -> list[HostFinding]:
    """Start the server as the host would, and greet it."""
    command = _server_of(host, root)
    if command is None:
        fix = f"perdure install --for {host.name}"
        return [HostFinding(host.name, "connected", "error", "the configuration names no server", fix)]
    greeting = "".join(f"{json.dumps(message)}\n" for message in HELLO).encode()
    try:
        ended = programs.run(command, cwd=str(root), env=os.environ, seconds=SERVER_SECONDS, stdin=greeting)
    except OSError as error:
        return [
            HostFinding(
                host.name, "connected", "error", f"the server did not answer: {error}", "pip install 'perdure[mcp]'"
            )
        ]
    answered = b'"serverInfo"' in bytes(ended.out)
    error = ["it did not end in time"] if ended.timed_out else str(ended.err).strip().splitlines()
    says = "the server answers" if answered else f"the server did not answer: {error[-1][:200] if error else 'no word'}"
    return [HostFinding(host.name, "connected", "ok" if answered else "error", says)]


def _server_of(host: Host, root: Path) -> list[str] | None:
    """The command line of our server, as the host's configuration has it."""
    try:
        if host.name == "codex":
            entry = tomllib.loads((root / ".codex/config.toml").read_text())["mcp_servers"][plans.NAME]
        elif host.name == "opencode":
            return [str(word) for word in _json(root / "opencode.json")["mcp"][plans.NAME]["command"]]
        else:
            files = {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json"}
            entry = _json(root / files.get(host.name, "mcp.json"))["mcpServers"][plans.NAME]
        return plans.expanded([str(entry["command"]), *map(str, entry["args"])], Path.home())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _claude_trusted(root: Path, home: Path) -> HostFinding:
    fix = "start `claude` once in this folder and trust it"
    try:
        projects = _json(home / ".claude.json").get("projects", {})
    except (OSError, ValueError, AttributeError):
        return HostFinding("claude-code", "trusted", "warning", "Claude Code has not been started by this user", fix)
    trusted = isinstance(projects, dict) and any(
        isinstance(projects.get(str(folder)), dict) and projects[str(folder)].get("hasTrustDialogAccepted")
        for folder in (root, *root.parents)
    )
    if trusted:
        return HostFinding("claude-code", "trusted", "ok", "the workspace is trusted")
    return HostFinding("claude-code", "trusted", "warning", "not trusted yet: hooks and permissions wait for that", fix)


def _claude_allowed(root: Path) -> HostFinding:
    fix = "perdure install --for claude-code"
    try:
        settings = _json(root / ".claude/settings.local.json")
        enabled = plans.NAME in settings.get("enabledMcpjsonServers", [])
        denied = plans.NAME in settings.get("disabledMcpjsonServers", []) or settings.get("disableAllHooks")
    except (OSError, ValueError, AttributeError, TypeError):
        return HostFinding("claude-code", "allowed", "error", "no settings", fix)
    if denied or not enabled:
        return HostFinding("claude-code", "allowed", "error", "the server or the hooks are switched off here", fix)
    return HostFinding("claude-code", "allowed", "ok", "the server is enabled, and tools that only read are allowed")


def _codex_trusted(root: Path, home: Path) -> list[HostFinding]:
    try:
        projects = tomllib.loads((home / ".codex/config.toml").read_text()).get("projects", {})
        trusted = projects.get(str(root), {}).get("trust_level") == "trusted"
    except (OSError, ValueError, AttributeError):
        trusted = False
    fix = f"start `codex` once in this folder and trust it (projects.{json.dumps(str(root))}.trust_level)"
    project = (
        HostFinding("codex", "trusted", "ok", "the workspace is trusted")
        if trusted
        else HostFinding(
            "codex", "trusted", "warning", "not trusted yet: Codex does not read the configuration here", fix
        )
    )
    says = "Codex skips hooks that were not trusted, without a word, and every install changes them"
    return [project, HostFinding("codex", "hooks", "warning", says, "start `codex` and look at /hooks")]


def for_doctor(folder: Path) -> list[HostFinding]:
    """The entry point `hosts` of the group `perdure.doctor`."""
    return examine(workspace_of(folder).root, Path.home())
