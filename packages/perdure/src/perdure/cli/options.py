"""The options of every command: which store, for which tenant, as whom, for people or for machines.

`@command(…)` makes a command with examples; `@reads` and `@writes`, and `@whole` and `@writes_whole` (the store of
all tenants) hand it `StoreOptions` as its first argument, which opens the store; `@writes_for_hosts` too, whose default is the
store of coding agents. A command that only reads never makes a store: a missing file is NotFound, with the way out.
"""

from __future__ import annotations

import functools
import getpass
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli import settings
from perdure.errors import Invalid, NotFound
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.limits import LEASE_MAX_SECONDS, LEASE_MIN_SECONDS

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

DEFAULT_STORE = "sqlite:///agent.db"
DEFAULT_TENANT = "default"
DEFAULT_LIMIT = 50
EVERYWHERE = {"PERDURE_STORE", "PERDURE_TENANT", "PERDURE_ACTOR", "--json", "--log-level", "--log-json", "--help"}
LOG_LEVELS = ("debug", "info", "warning", "error")

Body = Callable[..., Any]


class CommandWithExamples(click.Command):
    """A command whose help ends in examples, as they were written."""

    def __init__(self, *args: Any, examples: Iterable[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of this command, and apart from them those that every command has."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                (own if EVERYWHERE.isdisjoint([*param.opts, param.envvar]) else shared).append(record)
        for title, records in (("Options", own), ("Common options", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the examples, one a line."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in self.examples))


def command(name: str, *examples: str) -> Callable[[Body], CommandWithExamples]:
    """Make a function a command of this name."""
    return click.command(name, cls=CommandWithExamples, examples=examples)


class StoreOptions:
    """The user's options about the store."""

    def __init__(self, store: str, tenant: str, *, as_json: bool, actor: str = "") -> None:
        self.store = store
        self.tenant = tenant
        self.as_json = as_json
        self.actor = actor

    def open(self) -> Store:
        """Open the store: for reading alone unless the command writes. NotFound when there is none, or no such tenant: a
        command makes neither.
        """
        import perdure  # noqa: PLC0415 - help and completion must not load the stores

        self.check_exists()
        store = perdure.open(self.store, tenant=self.tenant, read_only=True)
        if not self.actor:
            return store
        store.close()
        return perdure.open(self.store, actor=self.actor, tenant=self.tenant)

    def open_whole(self) -> Store:
        """Open the store for no tenant: only for what looks after all of them at once."""
        from perdure.handles.sync.store import Store  # noqa: PLC0415
        from perdure.runtime.callers import Caller  # noqa: PLC0415 - as above
        from perdure.stores.core import open_core  # noqa: PLC0415
        from perdure.stores.store import WHOLE_STORE  # noqa: PLC0415

        self.check_exists()
        core = open_core(self.store, read_only=not self.actor)
        return Store(Caller(core, self.actor or "me", WHOLE_STORE), owner=True)

    def check_exists(self) -> None:
        """Never make a store by looking at it."""
        from perdure.stores import url  # noqa: PLC0415 - as above

        address = url.parse(self.store)
        if address.path is not None and _is_missing(address.path):
            hint = url.from_root(address.scheme, address.path) or self._another()
            raise NotFound(f"there is no store at {address.path}", path="store", hint=hint)

    def _another(self) -> str:
        """The hint for a store that is not there. That of the coding agents lies elsewhere by default."""
        theirs = _user_store() if self.store == DEFAULT_STORE else ""
        if theirs and not _is_missing(Path(theirs.removeprefix("sqlite:///"))):
            return f"your coding agents use --store {theirs}; `perdure init` makes one here"
        return "name another with --store URL or PERDURE_STORE; `perdure init` or your program's perdure.open makes one"


def _is_missing(path: Path) -> bool:
    """A folder that may not be entered is for the store to complain about: it knows more."""
    try:
        return not path.exists()
    except OSError:
        return False


def login() -> str:
    """The user at the keyboard, as far as the system knows: the actor of what the command line writes."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "me"


def store_option(function: Body) -> Body:
    """--store"""
    return _store_option(function, lambda: DEFAULT_STORE, DEFAULT_STORE)


def user_store_option(function: Body) -> Body:
    """--store, for coding agents: by default the user's, so that no folder in which a host starts us gets a store."""
    return _store_option(function, _user_store, "~/.perdure/agent.db")


def _store_option(function: Body, default: Callable[[], str], shown: str) -> Body:
    return click.option(
        "--store",
        envvar="PERDURE_STORE",
        default=settings.default("store", default),
        show_default=f"perdure.toml, or {shown}",
        metavar="URL",
        show_envvar=True,
        help="Which store.",
    )(function)


def _user_store() -> str:
    """The store of a coding agent when nobody says so: one for the user, beside no repository."""
    return f"sqlite:///{Path.home() / '.perdure' / 'agent.db'}"


def json_option(function: Body) -> Body:
    """--json"""
    return click.option("--json", "as_json", is_flag=True, help="JSON for machines instead of text for people.")(
        function
    )


def _tenant_option(function: Body) -> Body:
    return click.option(
        "--tenant",
        envvar="PERDURE_TENANT",
        default=settings.default("tenant", lambda: DEFAULT_TENANT),
        show_default="perdure.toml, or default",
        metavar="NAME",
        show_envvar=True,
        help="For which tenant.",
    )(function)


def actor_option(function: Body) -> Body:
    """--actor, for commands that write."""
    return click.option(
        "--actor",
        envvar="PERDURE_ACTOR",
        default=settings.default("actor", login),
        show_default="perdure.toml, or your login",
        metavar="NAME",
        show_envvar=True,
        help="Actor: the log names it.",
    )(function)


def _log_level(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Switch logging on; both options may stand before or after the name of the command."""
    found = ctx.find_root().meta
    found[param.name or ""] = value or found.get(param.name or "")
    if found.get("log_level") or found.get("log_json"):
        from perdure.runtime import logs  # noqa: PLC0415 - only who wants logs pays

        logs.configure(found.get("log_level") or "info", as_json=bool(found.get("log_json")))


def log_options(function: Body) -> Body:
    """--log-level and --log-json, before or after the name of the command."""
    for option in (
        click.option("--log-json", is_flag=True, expose_value=False, callback=_log_level, help="Log as JSON lines."),
        click.option(
            "--log-level",
            type=click.Choice(LOG_LEVELS),
            expose_value=False,
            callback=_log_level,
            help="Log to stderr, from this level.",
        ),
    ):
        function = option(function)
    return function


def reads(function: Body) -> Body:
    """A command that looks at a store and changes nothing."""

    @functools.wraps(function)
    def run(*, store: str, tenant: str, as_json: bool, **own: Any) -> Any:
        return function(StoreOptions(store, tenant, as_json=as_json), **own)

    return store_option(_tenant_option(json_option(log_options(run))))


def whole(function: Body) -> Body:
    """A command that looks at a store as a whole: of all tenants."""

    @functools.wraps(function)
    def run(*, store: str, as_json: bool, **own: Any) -> Any:
        return function(StoreOptions(store, "", as_json=as_json), **own)

    return store_option(json_option(log_options(run)))


def writes_whole(function: Body) -> Body:
    """A command that changes a store as a whole, as somebody."""

    @functools.wraps(function)
    def run(*, store: str, actor: str, as_json: bool, **own: Any) -> Any:
        return function(StoreOptions(store, "", as_json=as_json, actor=actor), **own)

    return store_option(actor_option(json_option(log_options(run))))


def writes(function: Body) -> Body:
    """A command that changes a store, as somebody."""
    return store_option(_writing(function))


def writes_for_hosts(function: Body) -> Body:
    """A command that a coding agent's host calls, and that changes a store as somebody."""
    return user_store_option(_writing(function))


def _writing(function: Body) -> Body:
    @functools.wraps(function)
    def run(*, store: str, tenant: str, actor: str, as_json: bool, **own: Any) -> Any:
        return function(StoreOptions(store, tenant, as_json=as_json, actor=actor), **own)

    return _tenant_option(actor_option(json_option(log_options(run))))


def subjects_option(function: Body) -> Body:
    """--about, of a command that writes."""
    return click.option("--about", multiple=True, metavar="NAME", help="Whom it is about; repeatable.")(function)


def pages(function: Body) -> Body:
    """--limit and --after: one page of a listing."""
    limit = click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=DEFAULT_LIMIT,
        show_default=True,
        metavar="N",
        help="Rows of the page.",
    )
    after = click.option("--after", metavar="CURSOR", help="Continue after a page: the cursor that it ended with.")
    return limit(after(function))


def spans(function: Body) -> Body:
    """--since and --until: an age such as 7d, or an instant."""
    since = click.option(
        "--since", metavar="WHEN", help="Not older: an age (90s, 24h, 7d) or an instant (2026-01-31T12:00Z)."
    )
    until = click.option("--until", metavar="WHEN", help="Not newer: as --since.")
    return since(until(function))


def seconds(_ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A duration that an option was given, in seconds."""
    return duration_us(value, (param.name or "").replace("_", "-")) / SECOND_US


def lease_seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """The duration of a lease, in seconds. Invalid for one that is too short to be renewed, or too long to help."""
    found = seconds(ctx, param, value)
    if not LEASE_MIN_SECONDS <= found <= LEASE_MAX_SECONDS:
        raise Invalid(f"expected {LEASE_MIN_SECONDS}s to 1d, got {found:g}s", path="lease")
    return found
