"""A program: calls each tool that writes in a server of its own, kills that at every crash point on the way, and calls again.

Prints one JSON line a case: the tool, the point, the answers, and the kinds of the session's events. argv: a folder, and `bare` for
the control, in which a call is carried out without its key. Forks, so it is a program of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from calls import BEFORE, SESSION, WRITES
from mcp import Client

import perdure
from perdure.doors.mcp.door import Door
from perdure.doors.mcp.server import make_server
from perdure.model.points import arm


async def call(store: Path, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Call tools in a server, one after the other; the store is left open, as a process that dies leaves it."""
    door = Door(f"sqlite:///{store}", actor="me", tenant="default", session=SESSION)
    async with Client(make_server(door)) as client:
        made = [await client.call_tool(name, args) for name, args in calls]
    return [each.structured_content if not each.is_error else each.content[0].text for each in made]


def child(work: Callable[[], Any]) -> tuple[Any, int]:
    """What a process of its own gives, and how it ended."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps(work()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(said) if said else None, os.waitstatus_to_exitcode(status)


def dying(store: Path, tool: str, args: dict[str, Any], nth: int) -> int:
    """Reach crash points in one call until the n-th (0: none); how many were reached."""
    count = 0

    def reached() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    arm("*", reached)
    asyncio.run(call(store, [(tool, args)]))
    return count


def kinds(store: Path) -> list[str]:
    with perdure.open(f"sqlite:///{store}", read_only=True) as found:
        return [each.kind for each in found.session(SESSION).events(limit=1_000)]


def main(folder: Path, *, bare: bool) -> None:
    before = folder / "before.db"
    child(lambda: asyncio.run(call(before, list(BEFORE))))
    number = 0
    for tool, args in WRITES.items():
        keyed = {**args, "key": "the-key"}

        def fresh() -> Path:
            nonlocal number
            number += 1
            path = folder / f"{number}.db"
            for each in folder.glob("before.db*"):
                if each.is_file():
                    shutil.copy(each, folder / each.name.replace("before", str(number), 1))
            return path

        clean = fresh()
        points, _ = child(lambda store=clean, name=tool: dying(store, name, keyed, 0))
        expected = child(lambda store=clean: kinds(store))[0]
        for nth in range(1, points + 2):  # past the last one: nobody dies, and the answer is lost on its way
            store = fresh()
            _, code = child(lambda s=store, name=tool, at=nth: dying(s, name, keyed, at))
            again = {**args, "key": "another-key"} if bare else keyed
            answers = [child(lambda s=store, name=tool: asyncio.run(call(s, [(name, again)]))[0])[0] for _ in range(2)]
            found = child(lambda s=store: kinds(s))[0]
            case = {
                "tool": tool,
                "point": nth,
                "of": points,
                "code": code,
                "answers": answers,
                "kinds": found,
                "expected": expected,
            }
            print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), bare=sys.argv[2:] == ["bare"])
