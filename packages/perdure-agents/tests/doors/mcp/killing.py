"""A program: calls each tool that writes in a server of its own, kills that at crash points on the way, and calls again twice.

Prints one JSON line a case: the tool, the point, the answers, and the kinds of the session's events with those of a call that
nobody disturbed. argv: a folder; `every` point, `some`, or `lost` answers; `bare` for the control, whose second call has another
key, or `keyed`; which tools (default: all). It forks, so it is a program of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from calls import BEFORE, SESSION, WRITES
from mcp import Client

import perdure
from children import child
from perdure.model.crash_points import arm
from perdure_agents.mcp.door import Door
from perdure_agents.mcp.server import make_server

Call = tuple[str, dict[str, Any]]
DOOR = Door("", actor="me", tenant="default", session=SESSION)  # every child gives its own copy a store
SERVER = make_server(DOOR)


async def calling(store: Path, calls: list[Call]) -> list[Any]:
    """Call tools in a server, one after the other; the store is left open, as a process that dies leaves it."""
    DOOR.url = f"sqlite:///{store}"
    async with Client(SERVER) as client:
        made = [await client.call_tool(name, args) for name, args in calls]
    return [each.structured_content if not each.is_error else each.content[0].text for each in made]


def call(store: Path, *calls: Call) -> list[Any]:
    return asyncio.run(calling(store, list(calls)))


def dying(store: Path, made: Call, nth: int) -> int:
    """Reach crash points in one call until the n-th (0: none); how many were reached."""
    count = 0

    def reached() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    arm("*", reached)
    call(store, made)
    return count


def kinds(store: Path) -> list[str]:
    with perdure.open(f"sqlite:///{store}", read_only=True) as found:
        return [each.kind for each in found.session(SESSION).events(limit=1_000)]


def counted(store: Path, made: Call) -> tuple[int, list[str]]:
    return dying(store, made, 0), kinds(store)


def again(store: Path, made: Call) -> tuple[list[Any], list[str]]:
    return call(store, made, made), kinds(store)


def chosen(points: int, number: int, which: str) -> list[int]:
    """Where to kill. Past the last point nobody dies, and the answer is lost on its way."""
    everywhere = list(range(1, points + 2))
    return {"every": everywhere, "some": [everywhere[number % points]], "lost": everywhere[-1:]}[which]


def main(folder: Path, which: str, tools: list[str], *, bare: bool) -> None:
    child(partial(call, folder / "before.db", *BEFORE))
    copies = 0

    def fresh() -> Path:
        nonlocal copies
        copies += 1
        for each in folder.glob("*before.db*"):  # with the lock files, which prove that the process before is gone
            copy = shutil.copytree if each.is_dir() else shutil.copy
            copy(each, folder / each.name.replace("before", str(copies), 1))
        return folder / f"{copies}.db"

    for number, tool in enumerate(tools or WRITES):
        args = WRITES[tool]
        keyed = (tool, {**args, "key": "the-key"})
        (points, expected), _ = child(partial(counted, fresh(), keyed))
        for nth in chosen(points, number, which):
            store = fresh()
            _, code = child(partial(dying, store, keyed, nth))
            (answers, found), _ = child(partial(again, store, (tool, {**args, "key": "new"}) if bare else keyed))
            case = {"tool": tool, "point": nth, "of": points, "code": code, "answers": answers, "kinds": found}
            sys.stdout.write(f"{json.dumps({**case, 'expected': expected})}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _, place, points, mode, *names = sys.argv
    main(Path(place), points, names, bare=mode == "bare")
