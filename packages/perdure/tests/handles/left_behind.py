"""Acts in a session once, and is killed while it does: what it leaves is for recovery.

python -m handles.left_behind STORE FOLDER TOOL
"""

from __future__ import annotations

import sys
from pathlib import Path

import perdure


def arrived(folder: str) -> int:
    """How often something arrived outside."""
    path = Path(folder, "arrived")
    return len(path.read_text().splitlines()) if path.exists() else 0


def arrive(folder: str) -> int:
    with Path(folder, "arrived").open("a") as file:
        file.write("once\n")
    return arrived(folder)


def has_arrived(folder: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened(1) if arrived(folder) else perdure.Absent()


@perdure.tool(kind="idempotent")
def left_idempotent(folder: str) -> int:
    return arrived(folder) or arrive(folder)


@perdure.tool(kind="keyed")
def left_keyed(folder: str, *, key: str) -> int:
    return arrived(folder) if Path(folder, key).exists() else (Path(folder, key).touch(), arrive(folder))[1]


@perdure.tool(probe=has_arrived, lands_within=0)
def left_probed(folder: str) -> int:
    return arrive(folder)


@perdure.tool(probe=has_arrived, lands_within="1h")
def left_slow(folder: str) -> int:
    return arrive(folder)


@perdure.tool
def left_unsafe(folder: str) -> int:
    return arrive(folder)


TOOLS = {tool.name: tool for tool in (left_idempotent, left_keyed, left_probed, left_slow, left_unsafe)}

if __name__ == "__main__":
    url, world, name = sys.argv[1:]
    if name == "only_here":
        TOOLS[name] = perdure.tool(kind="idempotent", name="only_here")(arrive)
    session = perdure.open(url, actor="worker").session("a")
    session.say("user", "do it")
    session.say("assistant", "yes", calls=[call := perdure.Call("c1", name, {})])
    session.act(TOOLS[name], world, call=call)
