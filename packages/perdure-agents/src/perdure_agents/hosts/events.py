"""The event of a host as its hook reads it from stdin: a few fields, whatever else is there. Hostile until it is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Invalid
from perdure_agents.importers.names import name_of

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
        event = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"no JSON: {error}", path="stdin") from error
    if not isinstance(event, dict):
        raise Invalid("no JSON object", path="stdin")
    roots = event.get("workspace_roots")
    place = _text(event, "cwd") or (roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else "")
    transcript = _text(event, "transcript_path")
    name = _text(event, "hook_event_name")
    return HostEvent(
        name, _text(event, "session_id") or _text(event, "conversation_id"), Path(place) if place else folder,
        Path(transcript) if transcript else None, _text(event, "source") or _text(event, "trigger"), _act(event, name),
    )  # fmt: skip


def _act(event: dict[str, Any], name: str) -> Act | None:
    """The edit or the command of an event, if it is one."""
    tool_input = event.get("tool_input")
    arguments: dict[str, Any] = tool_input if isinstance(tool_input, dict) else event
    tool = _text(event, "tool_name") or name
    call = _text(event, "tool_use_id") or _text(event, "generation_id")
    failed = name == "PostToolUseFailure" or bool(event.get("error"))
    path = next(
        filter(None, (_text(arguments, name) for name in ("file_path", "filePath", "path", "notebook_path"))), ""
    )
    if (tool in EDITS or name == "afterFileEdit") and (path or tool == "apply_patch"):
        return Act("edited", path or _command(arguments), tool, call, failed)
    if tool in COMMANDS or name == "afterShellExecution":
        command = _command(arguments)
        return Act("ran", command, tool, call, failed) if command else None
    return None


def _command(arguments: dict[str, Any]) -> str:
    command = arguments.get("command") or arguments.get("input") or arguments.get("cmd")
    text = " ".join(map(str, command)) if isinstance(command, list) else command if isinstance(command, str) else ""
    return text[:COMMAND_MAX_CHARS]


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def transcript_session(host: str, event: HostEvent) -> str:
    """The name under which the importers keep the transcript of a host's session."""
    return name_of(host, event.session) if event.session else ""
