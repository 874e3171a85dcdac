"""`perdure tenant`: the tenants of a store, and how much of a server each may take."""

from __future__ import annotations

import click

from perdure.cli.options import StoreOptions, command, writes
from perdure.cli.output import note, say_facts, say_json
from perdure.errors import Invalid
from perdure_server.commands.tokens import check_tenant, control, make_tenant, new_option


@command(
    "tenant",
    "perdure tenant create --tenant acme",
    "perdure tenant limit --tenant acme --requests 50 --streams 20 --runs 1000 --bytes 10000000000",
    "perdure tenant show --tenant acme --json",
)
@click.argument("action", type=click.Choice(("create", "limit", "show")))
@click.option("--requests", type=click.IntRange(0), metavar="N", help="With limit: requests in a second, at a server.")
@click.option("--streams", type=click.IntRange(0), metavar="N", help="With limit: event streams at once, at a server.")
@click.option("--runs", type=click.IntRange(0), metavar="N", help="With limit: runs that are not over.")
@click.option("--bytes", "stored", type=click.IntRange(0), metavar="N", help="With limit: bytes that are stored.")
@click.option("--none", "lifted", is_flag=True, help="With limit: no limits at all.")
@new_option
@writes
def tenant(
    options: StoreOptions, *, action: str, requests: int | None, streams: int | None, runs: int | None,
    stored: int | None, lifted: bool, new: bool,
) -> None:  # fmt: skip
    """Make a tenant, or set how much of a server it may take. A request beyond a limit is answered with 429 and the time to
    come back.

    Servers read limits every few seconds.
    """
    from perdure.planes.access import limits  # noqa: PLC0415 - help must not load this

    amounts = {"requests": requests, "streams": streams, "runs": runs, "bytes": stored}
    changes = amounts if lifted else {name: most for name, most in amounts.items() if most is not None}
    if (action == "limit") != bool(changes):
        raise Invalid(
            "`limit` takes at least one limit, and no other action takes any",
            path="tenant",
            hint="--requests, --streams, --runs, --bytes",
        )
    if action == "create":
        make_tenant(options, new=new)
        if options.as_json:
            say_json({"tenant": options.tenant})
            return
        note(f"tenant {options.tenant}: `perdure token create --tenant {options.tenant}` lets somebody in")
        return
    check_tenant(options)
    with control(options) as caller:
        if action == "limit":
            caller.write(limits.set_limits, options.tenant, changes)
        current = caller.read(limits.limits_of, options.tenant)
    if options.as_json:
        say_json({"tenant": options.tenant, "limits": current})
    else:
        say_facts({"tenant": options.tenant, **{name: getattr(current, name) for name in current.__struct_fields__}})
