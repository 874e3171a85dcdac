"""The configuration of each host: a list of files, each with what is put into it. Pure: reads and writes nothing.

A piece of JSON is merged into what is there: our entries under our names, every other one as it was. Callers: `installation`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Invalid
from perdure_agents.hosts import skill
from perdure_agents.hosts.catalog import HOSTS, Host

# The folder of the user, as Claude Code and Gemini, and as Cursor expands it.
HOME, CURSORS_HOME = "${HOME}", "${userHome}"
NAME = "perdure"
BEGIN, END = "# >>> perdure", "# <<< perdure"
OPENCODE_PAGE = ".opencode/perdure.md"
READS = ("boot", "recall", "search", "ready", "get", "open_loops")  # allowed without a question
START_SECONDS = 20
KEEP_SECONDS = 30
CODEX_END_SECONDS = 3  # this host allows no more at the end


class InstallOptions(NamedTuple):
    """An install that is wanted: the command line of perdure, and the store; an empty one comes from the environment.

    home: the folder of the user, which no file that others may get names where its host can say it otherwise.
    """

    command: tuple[str, ...]
    store: str
    home: str = ""


class PlannedFile(NamedTuple):
    """One file, below the workspace, and what becomes of its text; None: there is no such file yet."""

    path: str
    change: Callable[[str | None], str]


def plan(host: Host, options: InstallOptions) -> list[PlannedFile]:
    """The files of a host."""
    return _PLANS[host.name](options)


# -- JSON ------------------------------------------------------------------------------------------------------------------


def merged(path: str, *changes: Callable[[dict[str, Any]], None]) -> PlannedFile:
    """A file of JSON, with these changes made."""

    def change(text: str | None) -> str:
        document = _read(text, path)
        before = json.dumps(document)
        for edit in changes:
            edit(document)
        if text is not None and json.dumps(document) == before:
            return text
        return json.dumps(document, indent=indent_of(text), ensure_ascii=False) + "\n"

    return PlannedFile(path, change)


def _read(text: str | None, path: str) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        document = json.loads(text)
    except ValueError as error:
        hint = "comments and trailing commas cannot be kept: add the entries by hand (--show), or make it plain JSON"
        raise Invalid(f"no plain JSON: {error}", path=path, hint=hint) from error
    if not isinstance(document, dict):
        raise Invalid("no JSON object", path=path)
    return document


def indent_of(text: str | None) -> int | str:
    """How a file of JSON is indented."""
    line = next((line for line in (text or "").splitlines() if line[:1] in (" ", "\t")), "")
    space = line[: len(line) - len(line.lstrip())]
    return "\t" if space.startswith("\t") else len(space) or 2


def _table(document: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        document = document.setdefault(name, {})
        if not isinstance(document, dict):
            raise Invalid(f"{name!r} is no object", path=name)
    return document


def _put(value: Any, *names: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        _table(document, *names[:-1])[names[-1]] = value

    return change


def _listed(values: list[str], *names: str) -> Callable[[dict[str, Any]], None]:
    """Add texts to a list, each once."""

    def change(document: dict[str, Any]) -> None:
        entries = _table(document, *names[:-1]).setdefault(names[-1], [])
        if not isinstance(entries, list):
            raise Invalid("no list", path=".".join(names))
        entries += [value for value in values if value not in entries]

    return change


def _hooked(event: str, entries: list[dict[str, Any]]) -> Callable[[dict[str, Any]], None]:
    """Hook entries of an event: those of an earlier install are replaced, all others stay."""

    def change(document: dict[str, Any]) -> None:
        hooks = _table(document, "hooks")
        present = hooks.get(event, [])
        if not isinstance(present, list):
            raise Invalid("no list", path=f"hooks.{event}")
        theirs = [entry for entry in present if not is_ours(entry)]
        hooks[event] = [*theirs, *entries]

    return change


def is_ours(entry: Any) -> bool:
    """Whether a hook entry was written by an install."""
    if not isinstance(entry, dict):
        return False
    inner = entry.get("hooks")
    if isinstance(inner, list):
        return bool(inner) and all(is_ours(hook) for hook in inner)
    command = entry.get("command")
    return isinstance(command, str) and "perdure" in command and " hook " in f" {command} "


# -- the pieces ------------------------------------------------------------------------------------------------------------


def _args(options: InstallOptions, *words: str) -> list[str]:
    return [*options.command, *words, *(["--store", options.store] if options.store else [])]


def _line(options: InstallOptions, host: str, part: int = 1) -> str:
    return shlex.join([*_args(options, "hook", host), *(["--part", str(part)] if part > 1 else [])])


def _server(options: InstallOptions, home: str = "", **more: Any) -> dict[str, Any]:
    """The entry of our server. home: how the host writes the user's folder, if it does: the file may be shared."""
    command, *args = _shared(_args(options, "mcp"), options.home.rstrip("/"), home)
    return {"command": command, "args": args, **more}


def _shared(words: list[str], own: str, home: str) -> list[str]:
    """Words that are right for another user of the workspace too, whose own folder is another one."""
    if not home or not own:
        return words
    return [re.sub(rf"(?<![\w.-]){re.escape(own)}(?=/)", lambda _: home, word) for word in words]


def expanded(words: list[str], home: Path) -> list[str]:
    """Words of a host's configuration as it starts them."""
    return [word.replace(HOME, str(home)).replace(CURSORS_HOME, str(home)) for word in words]


def _entries(
    options: InstallOptions, host: str, matcher: str | None, timeout: int, parts: int = 1, **more: Any
) -> list[dict[str, Any]]:
    """The entries of an event. parts: at the beginning of a session one for each part, so that each arrives whole."""
    matching = {} if matcher is None else {"matcher": matcher}
    return [
        {**matching, "hooks": [{"type": "command", "command": _line(options, host, part), "timeout": timeout, **more}]}
        for part in range(1, parts + 1)
    ]


def _claude_code(options: InstallOptions) -> list[PlannedFile]:
    def entries(matcher: str | None, timeout: int, parts: int = 1) -> list[dict[str, Any]]:
        return _entries(options, "claude-code", matcher, timeout, parts)

    return [
        merged(
            ".mcp.json", _put(_server(options, HOME, type="stdio", alwaysLoad=True, timeout=60_000), "mcpServers", NAME)
        ),
        merged(
            ".claude/settings.local.json",
            _hooked(
                "SessionStart", entries("startup|resume|clear|compact|fork", START_SECONDS, HOSTS["claude-code"].parts)
            ),
            _hooked("PreCompact", entries("manual|auto", KEEP_SECONDS)),
            _hooked("PostToolUse", entries("Edit|MultiEdit|Write|NotebookEdit|Bash", 10)),
            _hooked("Stop", entries(None, START_SECONDS)),
            _hooked("SessionEnd", entries(None, START_SECONDS)),
            _listed([f"mcp__{NAME}__{tool}" for tool in READS], "permissions", "allow"),
            _listed([NAME], "enabledMcpjsonServers"),
        ),
        own_file(".claude/skills/perdure/SKILL.md", skill.skill()),
    ]


def _codex(options: InstallOptions) -> list[PlannedFile]:
    def entries(matcher: str | None, timeout: int, **more: Any) -> list[dict[str, Any]]:
        return _entries(options, "codex", matcher, timeout, **more)

    command, *args = _args(options, "mcp")
    block = "\n".join([
        f"[mcp_servers.{NAME}]", f"command = {json.dumps(command)}", f"args = {json.dumps(args)}", "required = true",
        "startup_timeout_sec = 20", "tool_timeout_sec = 60",
    ])  # fmt: skip
    start = entries(
        "startup|resume|clear|compact", START_SECONDS, parts=HOSTS["codex"].parts, statusMessage="perdure boot",
        additionalContextLimit=8_000,
    )  # fmt: skip
    return [
        marked(".codex/config.toml", block, f"[mcp_servers.{NAME}]"),
        merged(
            ".codex/hooks.json",
            _hooked("SessionStart", start),
            _hooked("PreCompact", entries(None, KEEP_SECONDS)),
            _hooked("PostToolUse", entries(None, 10)),
            _hooked("Stop", entries(None, START_SECONDS)),
            _hooked("SessionEnd", entries(None, CODEX_END_SECONDS)),
        ),
    ]


def _cursor(options: InstallOptions) -> list[PlannedFile]:
    def entry(timeout: int) -> list[dict[str, Any]]:
        return [{"command": _line(options, "cursor"), "timeout": timeout}]

    return [
        merged(".cursor/mcp.json", _put(_server(options, CURSORS_HOME, env={}), "mcpServers", NAME)),
        merged(
            ".cursor/hooks.json",
            lambda document: document.setdefault("version", 1) and None,
            _hooked("sessionStart", entry(START_SECONDS)),
            _hooked("preCompact", entry(KEEP_SECONDS)),
            _hooked("afterShellExecution", entry(10)),
            _hooked("afterFileEdit", entry(10)),
            _hooked("stop", entry(START_SECONDS)),
        ),
        own_file(".cursor/rules/perdure.mdc", skill.rule()),
    ]


def _gemini(options: InstallOptions) -> list[PlannedFile]:
    def entries(matcher: str | None, seconds: int, parts: int = 1) -> list[dict[str, Any]]:
        return _entries(options, "gemini", matcher, seconds * 1_000, parts, name=NAME)  # this host counts milliseconds

    return [
        merged(
            ".gemini/settings.json",
            _put(_server(options, HOME, timeout=30_000, trust=False), "mcpServers", NAME),
            # This host compares a matcher of these events with the whole word: a pattern would never fit.
            _hooked("SessionStart", entries(None, START_SECONDS, HOSTS["gemini"].parts)),
            _hooked("PreCompress", entries(None, KEEP_SECONDS)),
            _hooked("AfterTool", entries("write_file|replace|run_shell_command", 10)),
            _hooked("AfterAgent", entries(None, START_SECONDS)),
            _hooked("SessionEnd", entries(None, START_SECONDS)),
        )
    ]


def _opencode(options: InstallOptions) -> list[PlannedFile]:
    local = {"type": "local", "command": _args(options, "mcp"), "environment": {}, "enabled": True, "timeout": 60_000}
    plugin = skill.PLUGIN.replace("COMMAND", _line(options, "opencode"))
    return [
        merged("opencode.json", _put(local, "mcp", NAME), _listed([OPENCODE_PAGE], "instructions")),
        own_file(".opencode/plugins/perdure.ts", plugin),
        own_file(OPENCODE_PAGE, skill.TEXT),
    ]


def _generic(options: InstallOptions) -> list[PlannedFile]:
    return [
        merged("mcp.json", _put(_server(options, env={}), "mcpServers", NAME)),
        own_file(
            "PERDURE.md",
            f"{skill.TEXT}\nWithout hooks, run `{_line(options, 'generic')} --event SessionStart` yourself.\n",
        ),
    ]


def own_file(path: str, text: str) -> PlannedFile:
    """A file that is ours alone."""
    return PlannedFile(path, lambda _before: text)


def marked(path: str, block: str, heading: str) -> PlannedFile:
    """A block between two marks in a file of somebody else, which is not parsed. Invalid if its heading stands there already."""

    def change(text: str | None) -> str:
        rest = without_marked(text or "")
        if heading in rest.splitlines():
            raise Invalid(f"{heading} stands there already", path=path, hint="remove it, then install again")
        space = "" if not rest or rest.endswith("\n") else "\n"
        return f"{rest}{space}{BEGIN}\n{block}\n{END}\n"

    return PlannedFile(path, change)


def without_marked(text: str) -> str:
    """A text without our block."""
    lines, rest, inside = text.splitlines(keepends=True), [], False
    for line in lines:
        inside = inside or line.strip() == BEGIN
        if not inside:
            rest.append(line)
        if line.strip() == END:
            inside = False
    return "".join(rest)


_PLANS: dict[str, Callable[[InstallOptions], list[PlannedFile]]] = {
    "claude-code": _claude_code, "codex": _codex, "cursor": _cursor, "gemini": _gemini, "opencode": _opencode,
    "generic": _generic,
}  # fmt: skip
