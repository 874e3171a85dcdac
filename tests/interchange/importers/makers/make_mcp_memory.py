"""Makes a sample with MCP's memory server itself: a graph that is built, added to and pruned over its stdio. Needs node and npm.

python make_mcp_memory.py FOLDER NPM    installs the server into NPM (outside of any repository), writes memory.jsonl, and
                                        expected.json: the graph that the server itself reads back from it
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from programs import environment, install, write_expected

PACKAGE = "@modelcontextprotocol/server-memory"


class Client:
    """Speaks JSON-RPC with the server, one request after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._asked = 0

    def tell(self, method: str, **more: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self.tell(method, id=self._asked, params=params)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (answer := json.loads(line)).get("id") == self._asked:
                return answer["result"]
        raise RuntimeError("the server has gone")

    def call(self, tool: str, **arguments: Any) -> Any:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]


@contextmanager
def server(npm: Path, file: Path) -> Iterator[Client]:
    """A server on a file, ready to be called."""
    env = environment(npm / "home", MEMORY_FILE_PATH=str(file))
    command = [npm / "node_modules" / ".bin" / "mcp-server-memory"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        client = Client(process)
        about = {"name": "maker", "version": "1"}
        client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
        client.tell("notifications/initialized")
        yield client
        process.terminate()


def entity(name: str, kind: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"from": one, "to": other, "relationType": kind}


def build(client: Client) -> None:
    """Names as agents give them: paths, several lines, long ones, none; and things that are deleted again."""
    client.call("create_entities", entities=[
        entity("Ann", "person", "likes tea"), entity("shop", "project"), entity("Bob", "person"),
        entity("src/auth", "module", "sets the cookie\nwith SameSite=None", "ünï 🦉"),
        entity("src", "folder"), entity("two\nlines", "note"), entity("long " * 60, "note"), entity("", "nothing"),
    ])  # fmt: skip
    client.call("create_relations", relations=[
        relation("Ann", "works_on", "shop"), relation("Ann", "knows", "Bob"), relation("shop", "has", "src"),
        relation("src", "auth/part of", "shop"), relation("src/auth", "part of", "shop"), relation("shop", "has", "two\nlines"),
        relation("Ann", "", "shop"), relation("", "Ann", "shop"), relation("Ann", "left", "shop"),
    ])  # fmt: skip
    client.call(
        "add_observations", observations=[{"entityName": "Ann", "contents": ["works on the shop", "left-handed"]}]
    )
    client.call("delete_observations", deletions=[{"entityName": "Ann", "observations": ["left-handed"]}])
    client.call("delete_relations", relations=[relation("Ann", "left", "shop")])
    client.call("delete_entities", entityNames=["Bob"])


def main(folder: Path, npm: Path) -> None:
    made_with, file = install(PACKAGE, npm), folder / "memory.jsonl"
    file.unlink(missing_ok=True)
    with server(npm, file) as client:
        build(client)
    with server(npm, file) as client:  # a second one: what it says, it has from the file
        write_expected(folder, {"made with": made_with, "graph": client.call("read_graph")})


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
