"""Verbs for values under names: of sessions and scopes."""

from __future__ import annotations

from perdure.model.records.values import Entry
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import SCOPE, SESSION, Endpoint, Right, read, verb
from perdure.verbs.planes import arg, values
from perdure.verbs.reasons import FEW, PERSON, PROGRAMS

VALUE_BODY = (
    "A value. ttl: it is gone after this time. "
    "derived: it was made of the version before, so it is about the same people."
)


@verb(
    lambda: values.put, on=(SESSION, SCOPE), right=Right.WRITE, command="set", tool="set",
    body=("ValueInput", VALUE_BODY),
    at=(
        Endpoint(SESSION, "PUT", "/values/{name}", "set_value",
                "Set a value. If-Match: only if this is its version now; `If-None-Match: *`: only if it is not there."),
        Endpoint(SCOPE, "PUT", "/values/{name}", "set_scope_value",
                "Set a value of a scope. If-Match and `If-None-Match: *` as for the values of a session."),
    ),
    lacks={"mcp": {"derived": FEW}},
)  # fmt: skip
def set_(
    name: arg.Name,
    value: arg.Value,
    *,
    expect: arg.Expect = None,
    ttl: arg.Ttl = None,
    checks: arg.Checks = (),
    about: arg.About = (),
    derived: arg.Derived = False,
) -> Entry:
    """Set a value; returns it with its new version. Atomic.

    Repeating it without `expect` makes another version; with `expect` the repetition is refused, so it is safe after a
    crash.
    expect: set it only if this is its version now (0: only if it is not there).
    ttl: the value is gone after this time ("1h", seconds, a timedelta). Without one, it stays.
    checks: conditions under which it holds (`perdure.AtCommit`, `FileHash` …), looked at when a session is booted and by
        `store.checked`. They belong to this version.
    about: subjects of this version.
    derived: the value was computed from the version before, and so is about that version's subjects too.

    Raises Conflict (`facts` has the current `version` and `value`), Invalid or TooLarge with the path; nothing is written
    then.
    """
    raise NotImplementedError


@verb(
    lambda: values.delete, on=(SESSION, SCOPE), right=Right.WRITE,
    at=(
        Endpoint(SESSION, "DELETE", "/values/{name}", "unset_value", "Remove a value. Safe to repeat."),
        Endpoint(SCOPE, "DELETE", "/values/{name}", "unset_scope_value", "Remove a value of a scope. Safe to repeat."),
    ),
    lacks={"cli": PROGRAMS, "mcp": PERSON},
)  # fmt: skip
def unset(name: arg.Name, *, expect: arg.Expect = None) -> bool:
    """Remove a value; returns whether there was one. Its versions continue to count if it is set again.

    Atomic; repeating it changes nothing. Raises Conflict if `expect` is given and is not its version now.
    """
    raise NotImplementedError


@read(
    lambda: values.entry, on=(SESSION, SCOPE), tool="get",
    at=(
        Endpoint(SESSION, "GET", "/values/{name}", "get_value", "A value with its version and age. Its ETag is the version.",
                missing="there is no value {!r}"),
        Endpoint(SCOPE, "GET", "/values/{name}", "get_scope_value", "A value of a scope. Its ETag is the version.",
                missing="there is no value {!r}"),
    ),
    lacks={"cli": PROGRAMS},
)  # fmt: skip
def entry(name: arg.Name) -> Entry | None:
    """Return the value with its version, age and author; None if it is not there. Writes nothing."""
    raise NotImplementedError


@read(
    lambda: values.entries, on=(SESSION, SCOPE),
    at=(
        Endpoint(SESSION, "GET", "/values", "list_values", "The values of a session, by name.", defaults={"limit": 50}),
        Endpoint(SCOPE, "GET", "/values", "list_scope_values", "The values of a scope, by name.", defaults={"limit": 50}),
    ),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def entries(
    *, prefix: arg.Prefix = None, about: arg.AboutOne = None, limit: arg.Limit = 100, after: arg.After = None
) -> Page[Entry]:
    """Return the values, by name. prefix: exact text. about: those about a subject. The next page is `after=page.next`."""
    raise NotImplementedError
