"""`perdure token`: who may come through the door of a server, and for which tenant."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import DEFAULT_TENANT, StoreOptions, command, writes
from perdure.cli.output import note, say_json
from perdure.cli.tables import Column, say_table
from perdure.errors import Invalid, NotFound

if TYPE_CHECKING:
    from perdure.runtime.callers import Caller

ROLES = ("viewer", "writer", "operator", "worker", "auditor", "admin")
COLUMNS = (
    Column("token", lambda token: token.id),
    Column("tenant", lambda token: token.tenant),
    Column("role", lambda token: token.role),
    Column("actor", lambda token: token.actor),
    Column("made by", lambda token: token.made_by, spare=True),
    Column("made at", lambda token: token.made_at),
    Column("expires at", lambda token: token.expires_at),
    Column("used at", lambda token: token.used_at),
    Column("notes", lambda token: "expired" if token.expired else ""),
)


def new_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--new, of the commands that make a tenant."""
    text = "With create: make the store and the tenant, if they are not there."
    return click.option("--new", "new", is_flag=True, help=text)(function)


@contextmanager
def control(options: StoreOptions, *, looks: bool = False) -> Iterator[Caller]:
    """The caller of the tenant that holds tokens and limits, in the store or, with {tenant}, in a file of its own.

    NotFound where there is no store. One that has no tokens yet gets that tenant, unless the caller only looks.
    """
    import perdure  # noqa: PLC0415 - help must not load the stores
    from perdure.planes.access.tokens import CONTROL  # noqa: PLC0415
    from perdure_server.http.places import url_of  # noqa: PLC0415

    url = url_of(options.store, CONTROL)
    if looks:
        StoreOptions(url, CONTROL, as_json=False).check_exists()
    else:
        _check_there(options)
    from perdure.runtime.callers import caller_of  # noqa: PLC0415 - help must not load this

    with perdure.open(url, actor=options.actor, tenant=CONTROL, read_only=looks) as store:
        yield caller_of(store)


def make_tenant(options: StoreOptions, *, new: bool) -> None:
    """Make the tenant that the user names, unless it is there. NotFound for a store that is not there: its name may be misspelt.

    new: the user wants that store made.
    """
    import perdure  # noqa: PLC0415 - help must not load the stores
    from perdure_server.http.places import url_of  # noqa: PLC0415

    if not new:
        _check_there(options)
    perdure.open(url_of(options.store, options.tenant), actor=options.actor, tenant=options.tenant).close()


def _check_there(options: StoreOptions) -> None:
    """NotFound where there is no store. With {tenant}, a file of the tenant or that of the tokens is one."""
    from perdure.planes.access.tokens import CONTROL  # noqa: PLC0415
    from perdure_server.http.places import url_of  # noqa: PLC0415 - help must not load this

    missing: NotFound | None = None
    for tenant in (CONTROL, options.tenant):
        try:
            StoreOptions(url_of(options.store, tenant), tenant, as_json=False).open().close()
            return
        except NotFound as error:
            if error.path == "tenant":
                return
            missing = error
    assert missing is not None
    raise NotFound(missing.message, path="store", hint=f"{missing.hint}, and so does `create --new`")


def check_tenant(options: StoreOptions) -> None:
    """NotFound for a tenant that is not there: its name may be misspelt. The default one is there as soon as it is used."""
    from perdure_server.http.places import url_of  # noqa: PLC0415 - help must not load this

    _check_there(options)
    if options.tenant == DEFAULT_TENANT:
        return
    try:
        StoreOptions(url_of(options.store, options.tenant), options.tenant, as_json=False).open().close()
    except NotFound:
        hint = f"check the name; `perdure tenant create --tenant {shlex.quote(options.tenant)}` makes it"
        raise NotFound(f"this store has no tenant {options.tenant!r}", path="tenant", hint=hint) from None


@command(
    "token",
    "perdure token create --role writer --for build-bot",
    "perdure token create --role viewer --for alice --expires 90d --tenant acme --json",
    "perdure token list",
    "perdure token revoke 3eaa702685e3",
)
@click.argument("action", type=click.Choice(("create", "list", "revoke")))
@click.argument("name", metavar="[TOKEN]", required=False)
@click.option(
    "--role", type=click.Choice(ROLES), default="viewer", show_default=True, help="With create: what it may do."
)
@click.option("--for", "holder", metavar="ACTOR", help="With create: the actor that its events name. Default: yours.")
@click.option("--expires", metavar="TIME", help="With create: when it ends, such as 90d. Default: never.")
@click.option("--all", "every", is_flag=True, help="With list: of all tenants.")
@new_option
@writes
def token(
    options: StoreOptions,
    *,
    action: str,
    name: str | None,
    role: str,
    holder: str | None,
    expires: str | None,
    every: bool,
    new: bool,
) -> None:
    """Make, list and revoke the tokens that `perdure serve` asks for.

    create: the text of the token is shown only once, because only a digest of it is kept. revoke: name a token by its id;
        running servers notice at the next request.
    """
    if (name is None) == (action == "revoke"):
        raise Invalid("only `revoke` takes a TOKEN, by its id", path="token")
    if action == "create":
        if not new:
            check_tenant(options)
        make_tenant(options, new=new)  # so that the token opens something
        _create(options, role, holder or options.actor, expires)
    elif action == "list":
        _list(options, every=every)
    else:
        _revoke(options, name or "")


def _create(options: StoreOptions, role: str, holder: str, expires: str | None) -> None:
    from perdure.planes.access import tokens  # noqa: PLC0415 - help must not load this

    with control(options) as caller:
        text, record = caller.write(tokens.create, options.tenant, tokens.TokenRole(role), holder, expires)
    if options.as_json:
        say_json({"token": text, "record": record})
        return
    click.echo(text)
    note(f"token {record.id} for {record.actor} as {record.role} of tenant {record.tenant}: it is not shown again")


def _list(options: StoreOptions, *, every: bool) -> None:
    from perdure.planes.access import tokens  # noqa: PLC0415 - help must not load this

    try:
        with control(options, looks=True) as caller:
            records = caller.read(tokens.listed, None if every else options.tenant)
    except NotFound as error:
        if error.path != "tenant":
            raise
        records = []  # the first token makes the tenant that holds them
    if options.as_json:
        say_json({"tokens": records})
    elif records:
        say_table(COLUMNS, records)
    else:
        note("no tokens: `perdure token create` makes one")


def _revoke(options: StoreOptions, name: str) -> None:
    from perdure.planes.access import tokens  # noqa: PLC0415 - help must not load this

    with control(options) as caller:
        if not caller.write(tokens.revoke, name):
            raise NotFound(f"there is no token {name!r}", path="token", hint="`perdure token list --all` lists them")
    if options.as_json:
        say_json({"token": name})
        return
    note(f"token {name} opens nothing any more")
