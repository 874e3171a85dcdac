"""`perdure serve`: the store over HTTP. The server stands in `perdure_server.http`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from perdure.cli.options import StoreOptions, command, lease_seconds, writes
from perdure.cli.output import note
from perdure.errors import Invalid, NotFound
from perdure.model.limits import LEASE_TTL_SECONDS

EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@command(
    "serve",
    "perdure serve",
    "perdure serve --store 'sqlite:///tenants/{tenant}.db'",
    "perdure serve --host 0.0.0.0 --tls-certificate server.pem --tls-key server.key",
    "perdure serve --host 10.0.0.5 --behind-proxy --store postgresql://perdure_app@db/agents",
    "perdure serve --a2a researcher --a2a reviewer",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8_930, show_default=True)
@click.option("--tls-certificate", "certificate", type=EXISTING, help="A PEM file with the certificate and its chain.")
@click.option("--tls-key", "private_key", type=EXISTING, help="A PEM file with the private key.")
@click.option("--one-tenant", is_flag=True, help="Serve only --tenant: PostgreSQL then needs no wall between tenants.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of this server has the certificate.")
@click.option("--drain", type=click.IntRange(0, 3_600), default=20, show_default=True, metavar="SECONDS",
              help="How long requests under way may take after SIGTERM.")  # fmt: skip
@click.option(
    "--a2a", "a2a_agents", multiple=True, metavar="AGENT", help="Offer this agent to others by A2A; repeatable."
)
@click.option(
    "--base-url", metavar="URL", help="Of A2A: the address at which clients reach this server, if a proxy has it."
)
@click.option("--lease", default=f"{LEASE_TTL_SECONDS}s", show_default=True, metavar="TIME", callback=lease_seconds,
              help="Without a heartbeat for so long, a worker in another language loses its runs.")  # fmt: skip
@writes
def serve(
    options: StoreOptions, *, host: str, port: int, certificate: Path | None, private_key: Path | None,
    one_tenant: bool, behind_proxy: bool, drain: int, a2a_agents: tuple[str, ...], base_url: str | None, lease: float,
) -> None:  # fmt: skip
    """Serve the store over HTTP: every verb, an event stream, the console at /, an OpenAPI document at /openapi.json.

    Every request needs a token: `perdure token create` makes one. The server listens on loopback; any other address needs TLS
    or --behind-proxy. On SQLite a tenant is a file of its own: a URL with {tenant} in it serves many. PostgreSQL is served as a
    role for which row-level security holds (`perdure migrate --roles`), or with --one-tenant.
    """
    if (certificate is None) != (private_key is None):
        raise Invalid("a certificate and its key go together", path="tls", hint="give --tls-certificate and --tls-key")
    try:
        import uvicorn  # noqa: F401, PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        raise Invalid(
            "the extra `server` is not installed", path="serve", hint="pip install 'perdure[server]'"
        ) from error
    from perdure.stores.url import without_password  # noqa: PLC0415
    from perdure_server.console.pages import Links, pages  # noqa: PLC0415
    from perdure_server.http.running import Listening, check_listening, run  # noqa: PLC0415 - help must not load this
    from perdure_server.http.serving import Serving  # noqa: PLC0415
    from perdure_server.telemetry import collector  # noqa: PLC0415

    at = Listening(
        host=host, port=port, certificate=certificate, private_key=private_key, behind_proxy=behind_proxy,
        drain_seconds=drain,
    )  # fmt: skip
    check_listening(at)
    if not one_tenant:
        _check_walled(options)
    collector.begin("perdure-server")
    _say_if_new(options)
    note(f"serving {without_password(options.store)} at {at.address}; `perdure token create` makes a token")
    serving = Serving(options.store, tenant=options.tenant, actor=options.actor, alone=one_tenant, lease_seconds=lease)
    run(serving, at, [*pages(serving, Links()), *_a2a_routes(options, serving, a2a_agents, base_url or at.address)])


def _say_if_new(options: StoreOptions) -> None:
    """A server makes the store that it serves. One whose name is misspelt would answer every token with 401: say so."""
    from perdure.planes.access.tokens import CONTROL  # noqa: PLC0415
    from perdure_server.http.places import url_of  # noqa: PLC0415 - help must not load this

    try:
        StoreOptions(url_of(options.store, CONTROL), CONTROL, as_json=False).check_exists()
    except NotFound as missing:
        note(f"{missing.message}: this server makes a new one")


def undriven(options: StoreOptions, agents: tuple[str, ...]) -> list[str]:
    """The agents that no living worker has. None where each tenant is a file of its own, or there is no store yet."""
    from perdure.handles.working import tree  # noqa: PLC0415 - help must not load this

    if "{tenant}" in options.store:
        return []
    with suppress(NotFound), StoreOptions(options.store, options.tenant, as_json=False).open() as store:
        names = {
            name for worker in tree(store).workers if worker.alive and worker.about for name in worker.about.agents
        }
        return [agent for agent in agents if agent not in names]
    return []


def _a2a_routes(options: StoreOptions, serving: Any, agents: tuple[str, ...], base: str) -> list[Any]:
    """The routes of A2A, if agents are offered by it."""
    if not agents:
        return []
    for agent in undriven(options, agents):
        hint = f"`perdure worker MODULE --agent {agent}` starts one, `perdure workers` lists the agents of all workers"
        note(f"no worker drives the agent {agent!r} now: its tasks wait for one. {hint}")
    try:
        from perdure_server.a2a.routes import routes_of  # noqa: PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        raise Invalid("the extra `a2a` is not installed", path="a2a", hint="pip install 'perdure[a2a]'") from error
    return routes_of(serving, agents, base)


def _check_walled(options: StoreOptions) -> None:
    """Refused for a PostgreSQL role that could see every tenant."""
    from perdure.stores import core, schema_upgrade, url  # noqa: PLC0415 - help must not load the stores

    with schema_upgrade.told("store"):
        engine = core.engine_for(url.parse(options.store))
        try:
            engine.check_wall()
        finally:
            engine.close()
