"""`perdure mcp`: the Model Context Protocol, for coding agents. The server stands in `perdure_agents.mcp`."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import click

from perdure.cli.options import StoreOptions, command, writes_for_hosts
from perdure.errors import Invalid, Refused

PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@command(
    "mcp",
    "perdure mcp",
    "perdure mcp --store sqlite:///agent.db --session issue-42",
    "perdure mcp --http --port 8931",
)
@click.option("--session", envvar="PERDURE_SESSION", default="", metavar="NAME", help="Default: one for the workspace.")
@click.option("--http", is_flag=True, help="Serve streamable HTTP at /mcp instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="With --http: loopback only.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8_931, show_default=True, help="With --http.")
@writes_for_hosts
def mcp(options: StoreOptions, *, session: str, http: bool, host: str, port: int) -> None:
    """Serve the store to a coding agent: boot, memory, decisions, tasks, effects and questions as tools.

    `perdure install --for HOST` writes the configuration that starts this. A new store is created.
    """
    if http and host not in LOOPBACK:
        raise Refused(
            f"{host} is no loopback address",
            path="host",
            hint="this server knows no tokens: put a tunnel or a proxy in front of it",
        )
    gc.disable()  # a tenth of the start: thousands of classes are made, and none of them goes
    plugins = os.environ.get(PLUGINS)
    os.environ[PLUGINS] = "__all__"  # another tenth: to look for them, pydantic reads all that is installed
    try:
        import anyio  # noqa: PLC0415 - an extra, loaded where it is used
        import mcp.server.mcpserver  # noqa: F401, PLC0415 - as above
    except ImportError as error:
        raise Invalid("the extra `mcp` is not installed", path="mcp", hint="pip install 'perdure[mcp]'") from error
    from perdure_agents.hosts.workspace import made_folder, workspace_of  # noqa: PLC0415
    from perdure_agents.mcp.door import Door  # noqa: PLC0415
    from perdure_agents.mcp.server import serve_http, serve_stdio  # noqa: PLC0415

    if plugins is None:
        del os.environ[PLUGINS]
    else:
        os.environ[PLUGINS] = plugins
    gc.freeze()
    gc.enable()
    made_folder(options.store)
    here = workspace_of(Path.cwd(), session)
    door = Door(options.store, actor=options.actor, tenant=options.tenant, session=here.session, labels=here.labels)
    if http:
        anyio.run(serve_http, door, host, port)
    else:
        anyio.run(serve_stdio, door)
