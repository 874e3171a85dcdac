"""Store URLs: which database, where, and with which options. Anything else is refused with what would be right."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from perdure.errors import Invalid
from perdure.stores.entry_points import kind_of

_SCHEMES = "memory:, files:///folder, sqlite:///agent.db, postgresql://user@host/database?schema=perdure"
NOT_YET = "name another; `perdure init --store URL` or a program that opens it for writing makes it"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OURS = ("schema", "artifacts")
ENCODED = "in a user name or password, write @ : / ? # % as %40 %3A %2F %3F %23 %25"
HIDDEN = "***"
_ON_DISK = ("sqlite:///", "files:///")
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.%-]*)(?::\d*)?"
_WHOLE = re.compile(rf"([a-z][a-z0-9]*://)(?:([^:/@?]*)(:[^/@?]*)?(@))?({_HOST}(?:,{_HOST})*(?:/[^@?#]*)?)")
_SECRET = re.compile("pass|secret|token|key")
_KNOWN = ("postgresql", "postgres", "sqlite", "files")
_PLAIN = re.compile(r"memory:(?://)?|[\w./~ -]+")  # a path, which can be repeated: no part of it can be a password
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,39}")
# Options of libpq, and ours, that say nothing secret.
_SHOWN = {
    "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "fallback_application_name",
    "gssencmode", "gsslib", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle",
    "keepalives_interval", "krbsrvname", "links", "load_balance_hosts", "options", "passfile", "port", "require_auth",
    "requirepeer", "schema", "service", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcompression",
    "sslcrl", "sslcrldir", "sslkey", "sslmode", "sslnegotiation", "sslrootcert", "sslsni", "target_session_attrs",
    "tcp_user_timeout", "user",
}  # fmt: skip


class Address(msgspec.Struct, frozen=True):
    """A parsed store URL. `path` is absolute: a program that changes its folder keeps its store, and no name means
    something else to SQLite (`:memory:`). `artifacts` is where large blobs go; None for the default place.

    links_ignored: the caller's word that no program opens the file by another of its links.

    Stores differ before one is opened in these: `lasts`, whether it outlives its process; `log_folder`, the folder of a files
    store; `holds_tenants`, whether several tenants may be served from it, because its database can wall them off.
    """

    url: str
    scheme: str
    path: Path | None = None
    conninfo: str = ""
    schema: str = "perdure"
    artifacts: str | None = None
    lasts: bool = True
    log_folder: Path | None = None
    holds_tenants: bool = False
    links_ignored: bool = False


def parse(url: str) -> Address:
    """Read a store URL; Invalid names what is wrong with it."""
    if not isinstance(url, str):
        raise Invalid(f"expected a store URL such as {_SCHEMES}, got {type(url).__name__}", path="store")
    if not url or not _is_unicode(url):
        raise Invalid(f"expected a store URL such as {_SCHEMES}", path="store")
    if found := _CONTROL.search(url):
        hint = "remove it: a line end often comes with a value that was read from a file"
        raise Invalid(f"control character at {found.start()} of the store URL", path="store", hint=hint)
    if url in ("memory:", "memory://"):
        return Address(url, "memory", lasts=False)
    if "://" not in url:
        named = repr(url[:80]) if _PLAIN.fullmatch(url) else "this"
        raise Invalid(f"{named} is not a store URL; known are {_SCHEMES}", path="store", hint=_meant(url))
    scheme = url.partition("://")[0]
    if scheme in ("sqlite", "files"):
        return _on_disk(url, scheme)
    if scheme in ("postgresql", "postgres"):
        return _postgres(url)
    if _WORD.fullmatch(scheme) and (kind := kind_of(scheme)) is not None:
        return kind.parse(url)
    if scheme in ("http", "https"):
        hint = 'run it beside the store; in a program, perdure.open("https://…", token=…) opens a server'
        raise Invalid("this is the URL of a server, and this command needs the store itself", path="store", hint=hint)
    named = repr(scheme) if _WORD.fullmatch(scheme) else "URL"
    raise Invalid(f"unknown store {named}; known are {_SCHEMES}", path="store", hint=_misspelt(url))


def no_folder(scheme: str, path: Path) -> str:
    """The hint for a path whose folder is not there."""
    return from_root(scheme, path) or f"make it first; a path from the root has four slashes: {scheme}:////srv/agent"


def from_root(scheme: str, path: Path) -> str:
    """The hint for a path with a slash too few, that lies below the root and not below the current folder; "" for others."""
    meant = Path("/") / path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    if meant == path or meant.parent == Path("/") or not meant.parent.is_dir():
        return ""
    return f"did you mean {scheme}:///{meant} ? A path from the root has four slashes"


def _meant(text: str) -> str:
    """The URL that was probably meant by a bare path, or by a URL with too few slashes."""
    scheme, colon, rest = text[:80].partition(":")
    if colon and scheme in ("sqlite", "files") and _PLAIN.fullmatch(rest or "agent.db"):
        return f"did you mean {scheme}:///{rest.lstrip('/') or 'agent.db'} ?"
    if not _PLAIN.fullmatch(text):
        return ""
    store = "files" if os.path.isdir(text) else "sqlite"  # noqa: PTH112 - one that asks nothing of the text
    return "" if text.endswith(":") else f"did you mean {store}:///{text[:80]} ?"


def _misspelt(url: str) -> str:
    """The URL that was probably meant by one whose scheme is misspelt."""
    scheme, _, rest = url.partition("://")
    near = get_close_matches(scheme.lower(), ("postgresql", "sqlite", "files"), n=1)
    if not near:
        return ""
    on_disk = near[0] in ("sqlite", "files") and rest.startswith("/") and _PLAIN.fullmatch(rest)
    return f"did you mean {near[0]}://{rest[:80] if on_disk else '…'} ?"


def _is_unicode(text: str) -> bool:
    """Whether it can be written down: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _options(query: str, known: tuple[str, ...], path: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - set(known))
    if unknown:
        named = f" {unknown[0]!r}" if _WORD.fullmatch(unknown[0]) else ""
        raise Invalid(f"unknown option{named}; known are {', '.join(known)}", path=path)
    return options


def _on_disk(url: str, scheme: str) -> Address:
    rest, _, query = url.partition("?")
    place = rest.removeprefix(f"{scheme}://")
    if not place.startswith("/") or place in ("/", "//"):
        name = "agent.db" if scheme == "sqlite" else "folder"
        shown = f"{scheme}:///{name}, or {scheme}:////srv/{name} for an absolute one"
        raise Invalid(f"expected a path: {shown}", path="store")
    options = _options(query, ("artifacts", "links"), "store")
    if options.get("links", "ignore") != "ignore":
        raise Invalid("the only word about links is links=ignore", path="store.links")
    named = unquote(place[1:])
    if "\0" in named:
        raise Invalid("no file has a NUL (%00) in its name", path="store")
    path = Path(named).absolute()
    return Address(
        url, scheme, path=path, artifacts=options.get("artifacts"), log_folder=path if scheme == "files" else None,
        links_ignored="links" in options,
    )  # fmt: skip


def _postgres(url: str) -> Address:
    """A URL that is not ours goes to libpq as it was written: it reads some things (`+`, an empty host) in its own way."""
    server, _, query = url.partition("?")
    authority, _, path = server.partition("://")[2].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise Invalid("there is more than one @ in this URL, or one after a /", path="store", hint=ENCODED)
    try:
        urlsplit(url)
    except ValueError:  # its message may repeat the password
        raise Invalid("this is not a URL", path="store", hint=ENCODED) from None
    given = [part for part in query.split("&") if part]
    ours = [part for part in given if part.partition("=")[0] in _OURS]
    options = dict(parse_qsl("&".join(ours), keep_blank_values=True))
    schema = options.get("schema", "perdure")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise Invalid("a schema name has lower-case letters, digits and _, at most 63", path="store.schema")
    theirs = "&".join(part for part in given if part not in ours)
    conninfo = f"{server}?{theirs}" if theirs else server
    place = options.get("artifacts")
    return Address(url, "postgresql", conninfo=conninfo, schema=schema, artifacts=place, holds_tenants=True)


def without_password(url: str) -> str:
    """The URL as it may be shown, logged and written down. The one place that decides it.

    A URL that is not well formed is not shown at all: nobody can tell where in it a password ends. Of the options only those
    are shown that are known to be no secret, in whatever way their names are spelled.
    """
    server, mark, query = url.partition("?")
    if not server.startswith(_ON_DISK) and not _PLAIN.fullmatch(server):
        found = _WHOLE.fullmatch(server)
        if found is None or "@" in "".join(part.partition("=")[0] for part in query.split("&")):
            scheme, colon, _ = url.partition("://")
            return f"{scheme}://{HIDDEN}" if colon and scheme in _KNOWN else HIDDEN
        start, user, password, at, rest = (part or "" for part in found.groups())
        server = f"{start}{user}{f':{HIDDEN}' if password else ''}{at}{rest}"
    return f"{server}{mark}{'&'.join(_option_shown(part) for part in query.split('&'))}"


def _option_shown(part: str) -> str:
    name, equals, value = part.partition("=")
    known = unquote(name).strip().lower()
    if known == "artifacts" and without_password(unquote(value)) == unquote(value):
        return part
    if known in _SHOWN or not part:
        return part
    return f"{name}={HIDDEN}" if equals and (known == "artifacts" or _SECRET.search(known)) else HIDDEN


def lasting(url: str) -> str:
    """The URL for whoever writes it down, without secrets. A place on disk has one name, from every folder and by every link."""
    address = parse(url)
    if address.path is None:
        return without_password(url)
    _, mark, query = url.partition("?")
    return without_password(f"{address.scheme}:///{quote(str(address.path.resolve()))}{mark}{query}")
