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
        document = json.loads(text)
    except ValueError:
        return text
    if not isinstance(document, dict):
        return text
    for table in ("mcpServers", "mcp"):
        _drop(document, table, NAME)
    for event in [*document.get("hooks", {})]:
        others = [entry for entry in document["hooks"][event] if not is_ours(entry)]
        document["hooks"][event] = others
        if not others:
            del document["hooks"][event]
    _drop_listed(document, "permissions", "allow", lambda entry: entry.startswith(f"mcp__{NAME}__"))
    _drop_listed(document, "", "enabledMcpjsonServers", lambda entry: entry == NAME)
    _drop_listed(document, "", "instructions", lambda entry: entry == OPENCODE_PAGE)
    for table in ("hooks", "permissions"):
        if document.get(table) == {}:
            del document[table]
    return json.dumps(document, indent=indent_of(text), ensure_ascii=False) + "\n"


def _drop(document: dict[str, Any], table: str, name: str) -> None:
    inner = document.get(table)
    if isinstance(inner, dict) and inner.pop(name, None) is not None and not inner:
        del document[table]


def _drop_listed(document: dict[str, Any], table: str, name: str, is_one: Any) -> None:
    inner = document.get(table) if table else document
    if isinstance(inner, dict) and isinstance(inner.get(name), list):
        others = [entry for entry in inner[name] if not (isinstance(entry, str) and is_one(entry))]
        inner[name] = others
        if not others:
            del inner[name]
