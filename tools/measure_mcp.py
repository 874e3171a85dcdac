"""Measures the coding agent's door: the first answer of a cold server, later calls, and the ingestion of a long transcript.

python tools/measure_mcp.py            a table on stdout; times are of this machine, and no test depends on them

Cold is a new process whose modules are compiled: an installer does that, or the first start. So one server is started before.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import perdure
from perdure.doors.hosts.ingesting import ingest

CALLS = 200
TURNS = 10_000


async def started(url: str) -> None:
    """Start a server that is not measured."""
    words = ["-m", "perdure", "mcp", "--store", url, "--session", "measured"]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:
        await client.call_tool("boot", {})


async def served(url: str) -> dict[str, float]:
    """Seconds until the first answer, and milliseconds of later calls."""
    words = ["-m", "perdure", "mcp", "--store", url, "--session", "measured"]
    begun = time.perf_counter()
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:
        await client.list_tools()
        listed = time.perf_counter() - begun
        await client.call_tool("boot", {})
        found = {"list of tools, cold (s)": listed, "first answer, cold (s)": time.perf_counter() - begun}
        for tool, args in (
            ("get", {"name": "x"}),
            ("recall", {"query": "tests"}),
            ("decide", {"text": "a", "because": "b"}),
        ):
            spent: list[float] = []
            for number in range(CALLS):
                keyed = {**args, "key": f"k{number}"} if tool == "decide" else args
                start = time.perf_counter()
                await client.call_tool(tool, keyed)
                spent.append(1_000 * (time.perf_counter() - start))
            found[f"{tool}, p50 (ms)"] = statistics.median(spent)
    return found


def transcript(path: Path) -> None:
    """A transcript of Claude Code."""
    with path.open("w") as file:
        for number in range(TURNS):
            role = "assistant" if number % 2 else "user"
            message = {"role": role, "content": f"Turn {number}: " + "the tests fail on Safari. " * 8}
            file.write(f"{json.dumps({'type': role, 'uuid': f'u{number}', 'sessionId': 's', 'message': message})}\n")


def ingested(folder: Path) -> dict[str, float]:
    """Seconds for a long transcript, and for the same once more."""
    path = folder / "s.jsonl"
    transcript(path)
    found: dict[str, float] = {}
    with perdure.open(f"sqlite:///{folder / 'ingested.db'}") as store:
        for what in ("ingested", "ingested again"):
            before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            made = ingest(store, "measured", "claude-code", "claude-code", path)
            used = resource.getrusage(resource.RUSAGE_SELF)
            found[f"{TURNS} turns {what} (s)"] = time.perf_counter() - start
            found[f"… of the processor (s), {made.added if made else 'nothing'} added"] = (
                used.ru_utime - before.ru_utime
            )
    return found


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as place:
        url = f"sqlite:///{place}/served.db"
        perdure.open(url).close()
        asyncio.run(started(url))
        for name, value in {**asyncio.run(served(url)), **ingested(Path(place))}.items():
            print(f"{value:10.3f}  {name}")


if __name__ == "__main__":
    main()
