"""The error tree: the class says what to do next.

    Error                      every error that Perdure raises on purpose
    ├── Invalid                fix it: the input is wrong and stays wrong; `path` names the part
    │   ├── TooLarge           ... because it is past a limit
    │   └── NotFound           ... because the thing that it names does not exist
    ├── Conflict               reload and try again: another caller was first
    │   ├── KeyReused          the same key came with other input: both digests are given
    │   └── Stale              a token, lease or cursor is out of date: nothing was written
    ├── Imported               choose: the key belongs to a copy that came by import; it says both ways on
    ├── Unavailable            try later: the store cannot answer now; nothing was acknowledged
    │   ├── Full               ... because its disk is full
    │   ├── Limited            ... because a limit of the tenant is reached; it says when to come back
    │   └── TimedOut           ... because the deadline passed first
    ├── InDoubt                settle first: the outcome of an external call is unknown
    ├── Failed                 decide: the work was tried, and is known not to have happened
    ├── Cancelled              do nothing: a person or program ended the run; code that catches failures does not catch this
    ├── Waiting                answer: a person, a signal or a time must come first; it says which, and how to continue
    ├── Parked                 decide: the run must not continue by itself; it says why and what can be done
    │   └── Changed            ... because the program no longer does what the run did
    ├── Refused                not here: this store, file or credential does not allow it
    │   ├── NewerSchema        the database was written by a newer Perdure
    │   ├── ReadOnly           the store or the view can only be read
    │   └── Unauthenticated    no token, or one that is unknown, expired or revoked
    └── Damaged                restore: the stored data is not the data that was written

Every error carries `path` (where), `hint` (the way out), an exit code for the command line and a status for HTTP.
Every layer raises them; the doors only translate. Keeps P10 and P15.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Error(Exception):
    """The base class: `except perdure.Error` catches every error that Perdure raises on purpose.

    key: of a write that may have been carried out, though nobody answered it: repeated under it, it is done once.
    """

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    key: str | None = None

    def __init__(self, message: str, *, path: str = "", hint: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint
        self.facts = facts

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" ({self.hint})" if self.hint else "")

    def as_record(self) -> dict[str, Any]:
        """Return the error as plain data, for `--json` and HTTP bodies."""
        facts = {name: str(value) for name, value in self.facts.items()}
        return {
            "error": type(self).__name__,
            "message": self.message,
            "path": self.path,
            "hint": self.hint,
            **facts,
        }


class Invalid(Error):
    """The input is wrong, and trying again will not help. Nothing was changed. `path` names the wrong part."""

    exit_code = 2
    http_status = 422


class TooLarge(Invalid):
    """The input is past a limit; the message names the limit. Nothing was changed."""

    http_status = 413


class NotFound(Invalid):
    """The named thing does not exist. A thing of another tenant gives the same answer."""

    exit_code = 3
    http_status = 404


class Conflict(Error):
    """Another caller was first. Reload and try again; `facts` carries the current version or sequence number."""

    exit_code = 4
    http_status = 409


class KeyReused(Conflict):
    """A key came again with other input. The first input stands, and nothing was changed."""

    http_status = 422


class Stale(Conflict):
    """The caller's token, lease or cursor is out of date: another caller took over. Nothing was written (P7)."""


class Imported(Error):
    """A copy that came by import holds the key, so neither its record nor a new attempt is the answer. Nothing was planned.

    Take the copy over (`perdure unpark`), so that its record answers here, or let it give its keys up
    (`perdure import --keys-apart`, `perdure delete`). `facts` has `key`, and `run` or `session`.
    """

    exit_code = 13
    http_status = 409


class Unavailable(Error):
    """The store cannot answer now. Nothing was acknowledged, so trying later is safe."""

    exit_code = 5
    http_status = 503


class Full(Unavailable):
    """The disk is full. Reads continue; writes work again when there is room."""

    http_status = 507


class Limited(Unavailable):
    """A limit of the tenant is reached. Nothing was written; `facts` has `retry_after`, in seconds."""

    http_status = 429


class TimedOut(Unavailable):
    """The deadline passed before the work began. Nothing was written."""

    http_status = 504


class InDoubt(Error):
    """The outcome of an external call is unknown. Settle the effect before you continue."""

    exit_code = 6
    http_status = 409


class Failed(Error):
    """The work is known not to have happened: the tool said no, or the run failed. A tool raises it to say a clear no.

    `code` is a short name for the reason, mostly the name of the exception.
    """

    exit_code = 9
    http_status = 424

    def __init__(self, message: str, *, code: str = "Failed", path: str = "", hint: str = "", **facts: Any) -> None:
        super().__init__(message or code, path=path, hint=hint, **facts)
        self.code = code


class Cancelled(Error):
    """The run was cancelled before it was done. `code` is a short name for it.

    Raised where a run is driven or its result is awaited. Inside an agent a cancel is no Exception at all
    (decision 0029).
    """

    exit_code = 10
    http_status = 409

    def __init__(self, message: str, *, code: str = "Cancelled", path: str = "", hint: str = "", **facts: Any) -> None:
        super().__init__(message or code, path=path, hint=hint, **facts)
        self.code = code


class Waiting(Error):
    """The run continues after an answer, a signal, a time or the settling of an effect in doubt.

    `facts` has `run`, `asks` and `doubts`; the hint says how to continue.
    """

    exit_code = 11
    http_status = 202


class Parked(Error):
    """The run must not continue by itself. The message says why, the hint what a person can decide (P13)."""

    exit_code = 12
    http_status = 409


class Changed(Parked):
    """The program no longer does what the run did. The message names the place, with what was expected and found. Nothing was
    done.
    """


class Refused(Error):
    """The store's mode, the credentials or the tool's declaration do not allow it here."""

    exit_code = 7
    http_status = 403


class NewerSchema(Refused):
    """The database was written by a newer Perdure; this version does not touch it."""


class ReadOnly(Refused):
    """This store or view can only be read."""


class Unauthenticated(Refused):
    """The token is missing, unknown, expired or revoked. All four give the same answer."""

    http_status = 401


class Damaged(Error):
    """The stored data is not the data that was written; `path` names the place."""

    exit_code = 8
    http_status = 500
