"""Taking only our own entries out of a file that somebody changed after an install. Pure. Callers: `configuring`."""

from __future__ import annotations

import json
from typing import Any

from perdure_agents.hosts.plans import NAME, OPENCODE_PAGE, indent_of, is_ours, without_marked


def without_ours(path: str, text: str) -> str:
    """The text without what an install put into it. An unreadable file and an edited page stay as they are."""
    if not path.endswith(".json"):
        return without_marked(text) if path.endswith(".toml") else text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict):
        return text
    for table in ("mcpServers", "mcp"):
        _drop(found, table, NAME)
    for event in [*found.get("hooks", {})]:
        kept = [each for each in found["hooks"][event] if not is_ours(each)]
        found["hooks"][event] = kept
        if not kept:
            del found["hooks"][event]
    _drop_listed(found, "permissions", "allow", lambda each: each.startswith(f"mcp__{NAME}__"))
    _drop_listed(found, "", "enabledMcpjsonServers", lambda each: each == NAME)
    _drop_listed(found, "", "instructions", lambda each: each == OPENCODE_PAGE)
    for table in ("hooks", "permissions"):
        if found.get(table) == {}:
            del found[table]
    return json.dumps(found, indent=indent_of(text), ensure_ascii=False) + "\n"


def _drop(found: dict[str, Any], table: str, name: str) -> None:
    inner = found.get(table)
    if isinstance(inner, dict) and inner.pop(name, None) is not None and not inner:
        del found[table]


def _drop_listed(found: dict[str, Any], table: str, name: str, is_one: Any) -> None:
    inner = found.get(table) if table else found
    if isinstance(inner, dict) and isinstance(inner.get(name), list):
        kept = [each for each in inner[name] if not (isinstance(each, str) and is_one(each))]
        inner[name] = kept
        if not kept:
            del inner[name]
