"""The event of a host as its hook reads it from stdin: a few fields, whatever else is there. Hostile until it is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Invalid
from perdure_agents.importers.naming import named

STDIN_MAX_BYTES = 16 * 1024 * 1024
COMMAND_MAX_CHARS = 2_000
EDITS = frozenset({
    "Edit", "MultiEdit", "Write", "NotebookEdit", "apply_patch", "edit_file", "write_file", "replace", "edit", "write",
})  # fmt: skip
COMMANDS = frozenset({"Bash", "shell", "local_shell", "run_shell_command", "exec_command", "bash"})


class Act(NamedTuple):
    """A call of a tool that changed something, or may have: an edit of a file, or a command."""

    kind: str
    what: str
    tool: str
    id: str
    failed: bool


class HostEvent(NamedTuple):
    """One event of a host. source: why a context begins. session: the host's own id."""

    name: str
    session: str
    folder: Path
    transcript: Path | None
    source: str
    act: Act | None


def read_event(data: bytes, folder: Path) -> HostEvent:
    """The event that a host wrote to stdin. folder: where the hook runs, if the host does not say. Invalid if it is none."""
    if len(data) > STDIN_MAX_BYTES:
        raise Invalid(f"more than {STDIN_MAX_BYTES} bytes", path="stdin")
    try:
        found = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"no JSON: {error}", path="stdin") from error
    if not isinstance(found, dict):
        raise Invalid("no JSON object", path="stdin")
    roots = found.get("workspace_roots")
    place = _text(found, "cwd") or (roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else "")
    transcript = _text(found, "transcript_path")
    name = _text(found, "hook_event_name")
    return HostEvent(
        name, _text(found, "session_id") or _text(found, "conversation_id"), Path(place) if place else folder,
        Path(transcript) if transcript else None, _text(found, "source") or _text(found, "trigger"), _act(found, name),
    )  # fmt: skip


def _act(found: dict[str, Any], name: str) -> Act | None:
    """The edit or the command of an event, if it is one."""
    given = found.get("tool_input")
    asked: dict[str, Any] = given if isinstance(given, dict) else found
    tool = _text(found, "tool_name") or name
    call = _text(found, "tool_use_id") or _text(found, "generation_id")
    failed = name == "PostToolUseFailure" or bool(found.get("error"))
    path = next(filter(None, (_text(asked, name) for name in ("file_path", "filePath", "path", "notebook_path"))), "")
    if (tool in EDITS or name == "afterFileEdit") and (path or tool == "apply_patch"):
        return Act("edited", path or _command(asked), tool, call, failed)
    if tool in COMMANDS or name == "afterShellExecution":
        command = _command(asked)
        return Act("ran", command, tool, call, failed) if command else None
    return None


def _command(asked: dict[str, Any]) -> str:
    said = asked.get("command") or asked.get("input") or asked.get("cmd")
    text = " ".join(map(str, said)) if isinstance(said, list) else said if isinstance(said, str) else ""
    return text[:COMMAND_MAX_CHARS]


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def transcript_session(host: str, event: HostEvent) -> str:
    """The name under which the importers keep the transcript of a host's session."""
    return named(host, event.session) if event.session else ""
