"""The questions that decide where the state of an agent belongs, and the answers to them.

Called by `recommend` and by `perdure advise`, which makes an option and a prompt of every question. The answers of a
question stand in the order of what they ask for, the modest one first.
"""

from __future__ import annotations

import enum
from functools import cached_property
from typing import get_type_hints

import msgspec


class Option(enum.StrEnum):
    """One answer; those of a question are ordered by how much they ask for."""

    @cached_property
    def rank(self) -> int:
        """Its place among the answers to its question."""
        return list(type(self)).index(self)


class Lasts(Option):
    """Where on the spectrum the agent stands."""

    NOTHING = "nothing"  # stateless: input in, output out
    SESSION = "session"
    PERSISTENT = "persistent"


class Twice(Option):
    """The cost of calling an external system a second time."""

    NO_EFFECTS = "no-effects"
    HARMLESS = "harmless"
    HURTS = "hurts"


class WhenStopped(Option):
    """The course after a stop half-way."""

    NEVER = "never"
    STARTS_OVER = "starts-over"
    GOES_ON = "goes-on"


class Writers(Option):
    """How many write."""

    ONE = "one"
    MACHINE = "machine"
    MACHINES = "machines"


class Owners(Option):
    """Whose state it is."""

    ONE = "one"
    TEAM = "team"
    TENANTS = "tenants"


class Audit(Option):
    """The proof that must be shown afterwards."""

    NONE = "none"
    HISTORY = "history"
    PROOF = "proof"


class WriteRate(Option):
    """How much is written."""

    MODEST = "modest"
    HIGH = "high"


class PlainAnswer(Option):
    """The answer to a plain question."""

    NO = "no"
    YES = "yes"


class Questionnaire(msgspec.Struct, frozen=True, kw_only=True):
    """The answers; a question without one has the modest answer."""

    lasts: Lasts = Lasts.NOTHING
    twice: Twice = Twice.NO_EFFECTS
    stopped: WhenStopped = WhenStopped.NEVER
    writers: Writers = Writers.ONE
    owners: Owners = Owners.ONE
    queries: PlainAnswer = PlainAnswer.NO
    evolves: PlainAnswer = PlainAnswer.NO
    audit: Audit = Audit.NONE
    large: PlainAnswer = PlainAnswer.NO
    many: PlainAnswer = PlainAnswer.NO
    rate: WriteRate = WriteRate.MODEST
    hot: PlainAnswer = PlainAnswer.NO
    readable: PlainAnswer = PlainAnswer.NO
    server: PlainAnswer = PlainAnswer.NO


# Assumed when nothing is said: modest, but for an agent whose state is worth keeping.
USUAL = Questionnaire(lasts=Lasts.PERSISTENT)
FIRST = ("lasts", "twice", "writers")  # these decide most


class Question(msgspec.Struct, frozen=True):
    """One question: what is asked, and what each answer means."""

    name: str
    asks: str
    means: tuple[str, ...]

    @property
    def answers(self) -> tuple[Option, ...]:
        """Its answers, the modest one first."""
        return tuple(HINTS[self.name])


HINTS: dict[str, type[Option]] = get_type_hints(Questionnaire)

QUESTIONS: tuple[Question, ...] = (
    Question(
        "lasts",
        "What has to outlive one call?",
        (
            "input in, output out",
            "the conversation, until it is over",
            "decisions, tasks, memories: for days and weeks",
        ),
    ),
    Question(
        "twice",
        "What if an external call is made twice (a mail, a payment, a pull request)?",
        ("it makes no external calls", "twice is as good as once", "it costs money, trust or data"),
    ),
    Question(
        "stopped",
        "What if it is stopped half-way (a crash, a deploy, a wait for a person)?",
        ("it is over too soon for that", "it may start over", "it has to continue where it was"),
    ),
    Question(
        "writers",
        "Who writes to the same state?",
        ("one process", "several processes of one machine", "processes on several machines"),
    ),
    Question(
        "owners",
        "Whose state is it?",
        ("one person's", "a team's: several see and decide", "of tenants who must not see each other"),
    ),
    Question("queries", "Will you ask across sessions (by status, tool, person, time)?", ("no", "yes")),
    Question("evolves", "Will the program change while old runs still have to continue?", ("no", "yes")),
    Question(
        "audit",
        "What must be shown afterwards?",
        ("nothing", "the author, time and reason of every act", "the same as a proof, under rules of retention"),
    ),
    Question("large", "Are there large files (logs, screenshots, builds) beside the state?", ("no", "yes")),
    Question("many", "Will it be more than 100,000 records?", ("no", "yes")),
    Question("rate", "How much is written?", ("up to some hundred changes a second", "more than that")),
    Question("hot", "Must reads take less than a millisecond, on several machines?", ("no", "yes")),
    Question("readable", "Do you want to read the state as text and have it in git?", ("no", "yes")),
    Question("server", "Is there somebody who looks after a database server?", ("no", "yes")),
)
