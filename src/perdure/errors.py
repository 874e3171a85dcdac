"""The error tree: what to do next is in the class.

    Error                      anything Perdure says no with
    ├── Invalid                never: the input is wrong; fix it (names the path of what is wrong)
    │   ├── TooLarge           ... because it is past a limit
    │   └── NotFound           ... because what it names does not exist
    ├── Conflict               reload and try again: somebody else was first
    │   ├── KeyReused          the same key with other input: both digests are given
    │   └── Stale              a fence, lease or cursor from before: nothing was written
    ├── Unavailable            later: the store cannot answer now; nothing was acknowledged
    │   ├── Full               ... because its disk is full
    │   ├── Limited            ... because a limit of the tenant is reached; it says when to come back
    │   └── TimedOut           ... because the deadline passed first
    ├── InDoubt                settle first: the outcome of an effect is unknown
    ├── Failed                 decide: it was tried, and it is known not to have happened
    ├── Cancelled              nothing: somebody ended it; it is no failure, so what catches failures does not catch it
    ├── Waiting                answer: a person, a signal or a time must come first; it says which, and how to continue
    ├── Parked                 decide: the machine must not continue by itself; it says why and what can be done
    │   └── Changed            ... because the program does not do what the run did
    ├── Refused                not here: this store, file or credential does not allow it
    │   ├── NewerSchema        the database was written by a newer Perdure
    │   ├── ReadOnly           the store or the view can only be read
    │   └── Unauthenticated    no token, or one that is unknown, expired or revoked
    └── Damaged                restore: what is stored is not what was written

Every error carries `path` (where), `hint` (the way out), an exit code for the command line and a status for HTTP.
Every layer raises them; the doors only translate. Keeps P10 and P15.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Error(Exception):
    """The root: catches everything that Perdure raises on purpose."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

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
        """The error as plain data, for `--json` and HTTP bodies."""
        facts = {name: str(value) for name, value in self.facts.items()}
        return {
            "error": type(self).__name__,
            "message": self.message,
            "path": self.path,
            "hint": self.hint,
            **facts,
        }


class Invalid(Error):
    """The input is wrong and will stay wrong: nothing was changed."""

    exit_code = 2
    http_status = 422


class TooLarge(Invalid):
    """Past a limit; the message names the limit."""

    http_status = 413


class NotFound(Invalid):
    """The named thing does not exist (or belongs to another tenant: the same answer)."""

    exit_code = 3
    http_status = 404


class Conflict(Error):
    """Somebody else was first; `facts` carries the current version or sequence. Reload and try again."""

    exit_code = 4
    http_status = 409


class KeyReused(Conflict):
    """A client key came again with other input; the first input stands."""

    http_status = 422


class Stale(Conflict):
    """A token, lease or cursor from before: nothing was written (P7)."""


class Unavailable(Error):
    """The store cannot answer now. Nothing was acknowledged; trying later is safe."""

    exit_code = 5
    http_status = 503


class Full(Unavailable):
    """The disk is full. Reads continue; writes work again when there is room."""

    http_status = 507


class Limited(Unavailable):
    """A limit of the tenant is reached; `facts` has `retry_after`, in seconds. Nothing was written."""

    http_status = 429


class TimedOut(Unavailable):
    """The deadline passed before the work was begun: nothing was written."""

    http_status = 504


class InDoubt(Error):
    """The outcome of an effect is unknown: settle it before you continue."""

    exit_code = 6
    http_status = 409


class Failed(Error):
    """It is known not to have happened: the tool said no, or the run ended so. Tools raise it to say a clear no.

    `code` is the short name of what went wrong: mostly that of the exception.
    """

    exit_code = 9
    http_status = 424

    def __init__(self, message: str, *, code: str = "Failed", path: str = "", hint: str = "", **facts: Any) -> None:
        super().__init__(message or code, path=path, hint=hint, **facts)
        self.code = code


class Cancelled(Error):
    """Somebody cancelled the run before it was done. `code` is a short name for it.

    Raised where a run is driven or its result is awaited. Inside an agent a cancel is no Exception at all (docs/decisions/0029).
    """

    exit_code = 10
    http_status = 409

    def __init__(self, message: str, *, code: str = "Cancelled", path: str = "", hint: str = "", **facts: Any) -> None:
        super().__init__(message or code, path=path, hint=hint, **facts)
        self.code = code


class Waiting(Error):
    """The run continues when somebody answers, a signal comes, a time is reached or doubt is settled.

    `facts` has `run`, `asks` and `doubts`; the hint says how to continue.
    """

    exit_code = 11
    http_status = 202


class Parked(Error):
    """The machine must not continue by itself; the message says why, the hint what can be decided (P13)."""

    exit_code = 12
    http_status = 409


class Changed(Parked):
    """The program does not do what the run did: expected and found differ at a named place. Nothing was done."""


class Refused(Error):
    """Not allowed here: by the store's mode, the credentials or the tool's declaration."""

    exit_code = 7
    http_status = 403


class NewerSchema(Refused):
    """The database was written by a newer Perdure; this one does not touch it."""


class ReadOnly(Refused):
    """Only reading is possible here."""


class Unauthenticated(Refused):
    """No token was shown, or it is unknown, expired or revoked: the same answer for all four."""

    http_status = 401


class Damaged(Error):
    """Stored data is not what was written; `path` names the place."""

    exit_code = 8
    http_status = 500
