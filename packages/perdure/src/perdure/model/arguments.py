"""The words of arguments: the Python type that a caller sees, with the form, the bounds and the sentence that all doors share.

A declaration (`verbs`) says of each argument which word it is. A door has one table by form, and none by verb: how a form stands
in a body, a parameter, an option. Callers: `verbs`, the doors, `remote`. Keeps P15: a bound stands here once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, NamedTuple, TypeAlias

from perdure.model.filters import HasNumber
from perdure.model.instants import Instant
from perdure.model.limits import KEY_MAX_CHARS, LABELS_MAX, NAME_MAX_CHARS, PAGE_MAX_ROWS, REFS_MAX, TEXT_MAX_CHARS
from perdure.model.records.conversation import Call as CallRecord
from perdure.model.records.conversation import Ending as EndingWord
from perdure.model.records.conversation import Native as NativeRecord
from perdure.model.records.conversation import Shape as ShapeWord
from perdure.model.records.conversation import Speaker, Turn
from perdure.model.records.memories import MemoryKind

SEQ_MAX = 2**62
PRIORITY_MAX = 2**31
TASKS_MAX = 1_000
CALLS_MAX = 1_000
KEYS_MAX = 10_000
CHOICES_MAX = 100


class WordForm(enum.Enum):
    """The sort of value that an argument takes. A door has one way for each."""

    TEXT = enum.auto()  # prose
    NAME = enum.auto()
    NAMES = enum.auto()
    TEXTS = enum.auto()
    WORD = enum.auto()  # one of a few
    WORDS = enum.auto()
    NUMBER = enum.auto()
    NUMBERS = enum.auto()
    FRACTION = enum.auto()
    FLAG = enum.auto()
    INSTANT = enum.auto()
    SPAN = enum.auto()
    VALUE = enum.auto()  # of the user: anything that the log can hold
    FIELDS = enum.auto()  # names with values of the user
    TABLE = enum.auto()  # names with texts
    REF = enum.auto()
    REFS = enum.auto()
    RUN = enum.auto()  # a run, by its id
    SOURCES = enum.auto()
    CALLS = enum.auto()
    NATIVE = enum.auto()
    CURSOR = enum.auto()
    PLACE = enum.auto()  # a sequence number, or the cursor of a page
    LOCAL = enum.auto()  # of this process: it never crosses a wire


class Word(NamedTuple):
    """A word: all that doors know of an argument. least, most: of a number, or of the length of a text or list.

    option: of the command line, where it is not the argument's name. metavar: what stands for its value in help.
    """

    form: WordForm
    says: str
    least: float | None = None
    most: float | None = None
    words: type[enum.StrEnum] | tuple[str, ...] = ()
    option: str = ""
    metavar: str = ""
    item_most: int = NAME_MAX_CHARS


def names_word(says: str, *, most: int, option: str, metavar: str = "NAME") -> Word:
    """A list of names."""
    return Word(WordForm.NAMES, says, most=most, option=option, metavar=metavar)


def number_word(says: str, *, least: int = 0, most: int = SEQ_MAX, metavar: str = "SEQ", option: str = "") -> Word:
    """A number."""
    return Word(WordForm.NUMBER, says, least=least, most=most, metavar=metavar, option=option)


def local_word(says: str) -> Word:
    """A thing that never crosses a wire."""
    return Word(WordForm.LOCAL, says)


_TEXT = Word(WordForm.TEXT, "The text.", most=TEXT_MAX_CHARS, metavar="TEXT")
WHY_WORD = Word(WordForm.TEXT, "The reason.", most=TEXT_MAX_CHARS, metavar="WHY")
_KEY = Word(
    WordForm.NAME, "Makes a repetition harmless: the same key writes nothing twice.", most=KEY_MAX_CHARS, metavar="KEY"
)
_SUBJECTS = names_word("A subject that it names; repeatable.", most=REFS_MAX, option="--about")
_SUBJECTS_OF_MEMORY = names_word("A subject that it names; repeatable.", most=LABELS_MAX, option="--about")
_TAGS = names_word("A tag; repeatable.", most=LABELS_MAX, option="--tag")
LABELS_WORD = names_word("A label; repeatable.", most=LABELS_MAX, option="--label")
_KIND = Word(WordForm.WORD, "The kind of memory.", words=MemoryKind)
SECONDS_WORD = Word(WordForm.SPAN, "A time such as 30s or 2d.", metavar="TIME")
TASK_WORD = number_word("A task of the same session.", metavar="ID")
_TURN = number_word("A turn, by its number.")

# -- text ----------------------------------------------------------------------------------------------------------

Text: TypeAlias = Annotated[str, _TEXT]
OptionalText: TypeAlias = Annotated[str | None, _TEXT]
Because: TypeAlias = Annotated[str, WHY_WORD]
OptionalBecause: TypeAlias = Annotated[str | None, WHY_WORD]
Then: TypeAlias = Annotated[
    str | None, Word(WordForm.TEXT, "The step that is to follow.", most=TEXT_MAX_CHARS, metavar="TEXT")
]
Rule: TypeAlias = Annotated[str, Word(WordForm.TEXT, "The rule that follows.", most=TEXT_MAX_CHARS, metavar="TEXT")]
Outcome: TypeAlias = Annotated[str, Word(WordForm.TEXT, "The outcome.", most=TEXT_MAX_CHARS, metavar="TEXT")]
Note: TypeAlias = Annotated[str | None, Word(WordForm.TEXT, "A note.", most=TEXT_MAX_CHARS, metavar="TEXT")]
Title: TypeAlias = Annotated[str, Word(WordForm.TEXT, "The title.", most=TEXT_MAX_CHARS, metavar="TEXT")]
Question: TypeAlias = Annotated[str, Word(WordForm.TEXT, "The question.", most=TEXT_MAX_CHARS, metavar="TEXT")]
Goal: TypeAlias = Annotated[
    str | None, Word(WordForm.TEXT, "The goal; null removes it.", most=TEXT_MAX_CHARS, metavar="TEXT")
]
Model: TypeAlias = Annotated[
    str | None, Word(WordForm.TEXT, "The model that said it.", most=TEXT_MAX_CHARS, metavar="NAME")
]

Why: TypeAlias = Annotated[str, WHY_WORD]

# -- names ---------------------------------------------------------------------------------------------------------

Key: TypeAlias = Annotated[str | None, _KEY]
Name: TypeAlias = Annotated[str, Word(WordForm.NAME, "The name.", most=NAME_MAX_CHARS, metavar="NAME")]
OptionalName: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only of this name.", most=NAME_MAX_CHARS, metavar="NAME")
]
Prefix: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only names that begin so.", most=NAME_MAX_CHARS, metavar="TEXT")
]
CallId: TypeAlias = Annotated[str, Word(WordForm.NAME, "The id of the call.", most=NAME_MAX_CHARS, metavar="CALL")]
EventKind: TypeAlias = Annotated[
    str, Word(WordForm.NAME, "The kind, such as deploy.finished.", most=NAME_MAX_CHARS, metavar="KIND")
]
CheckpointName: TypeAlias = Annotated[
    str, Word(WordForm.NAME, "The line of checkpoints.", most=NAME_MAX_CHARS, metavar="NAME")
]
ParentKey: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "The key of the checkpoint that it follows.", most=NAME_MAX_CHARS, metavar="KEY")
]
SignalName: TypeAlias = Annotated[
    str, Word(WordForm.NAME, "The name of the signal.", most=NAME_MAX_CHARS, metavar="NAME")
]
Program: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "The digest of the program; null: any.", most=NAME_MAX_CHARS, metavar="DIGEST")
]
Hash: TypeAlias = Annotated[str, Word(WordForm.NAME, "The sha256 of the content.", most=NAME_MAX_CHARS, metavar="HASH")]
OptionalLabel: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only those with this label.", most=NAME_MAX_CHARS, metavar="NAME")
]
AboutOne: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only what is about this subject.", most=NAME_MAX_CHARS, metavar="NAME")
]
Subjects: TypeAlias = Annotated[
    str, names_word("A person or thing that all of it is about.", most=LABELS_MAX, option="--subject")
]
About: TypeAlias = Annotated[Iterable[str], _SUBJECTS]
AboutOfMemory: TypeAlias = Annotated[Iterable[str], _SUBJECTS_OF_MEMORY]
AboutOrAsBefore: TypeAlias = Annotated[Iterable[str] | None, _SUBJECTS_OF_MEMORY]
Tags: TypeAlias = Annotated[Iterable[str], _TAGS]
TagsOrAsBefore: TypeAlias = Annotated[Iterable[str] | None, _TAGS]
Labels: TypeAlias = Annotated[Iterable[str], LABELS_WORD]
Keys: TypeAlias = Annotated[
    Iterable[str] | None,
    Word(
        WordForm.TEXTS,
        "An identifier to keep beside the text; repeatable.",
        most=KEYS_MAX,
        item_most=TEXT_MAX_CHARS,
        option="--keep",
        metavar="TEXT",
    ),
]
Choices: TypeAlias = Annotated[
    list[str] | None,
    Word(
        WordForm.TEXTS,
        "A possible answer; repeatable.",
        most=CHOICES_MAX,
        item_most=TEXT_MAX_CHARS,
        option="--choice",
        metavar="TEXT",
    ),
]

# -- words of a few ------------------------------------------------------------------------------------------------

Kind: TypeAlias = Annotated[str, _KIND]
KindOrAsBefore: TypeAlias = Annotated[str | None, _KIND]
SpeakerRole: TypeAlias = Annotated[
    Speaker, Word(WordForm.WORD, "Role of the speaker.", words=("system", "user", "assistant"))
]
Shape: TypeAlias = Annotated[
    ShapeWord, Word(WordForm.WORD, "In which shape.", words=("openai", "anthropic"), option="--as")
]
Ending: TypeAlias = Annotated[EndingWord, Word(WordForm.WORD, "How it ends.", words=("completed", "failed"))]

# -- numbers, times ------------------------------------------------------------------------------------------------

Seq: TypeAlias = Annotated[int, number_word("A number in its stream.")]
Expect: TypeAlias = Annotated[
    int | None, number_word("Only if this is its version now; 0: only if there is none.", metavar="VERSION")
]
ExpectSeq: TypeAlias = Annotated[int | None, number_word("Only if this is the last number of the session now.")]
Upto: TypeAlias = Annotated[int, number_word("The last turn that it stands for.")]
First: TypeAlias = Annotated[
    int | None, number_word("The first turn that it stands for; by default the first one.", option="--from")
]
Limit: TypeAlias = Annotated[int, Word(WordForm.NUMBER, "Rows of the page.", least=1, most=PAGE_MAX_ROWS, metavar="N")]
Last: TypeAlias = Annotated[
    int | None, Word(WordForm.NUMBER, "So many of the newest.", least=1, most=PAGE_MAX_ROWS, metavar="N")
]
Priority: TypeAlias = Annotated[
    int, Word(WordForm.NUMBER, "Higher comes first.", least=-PRIORITY_MAX, most=PRIORITY_MAX, metavar="N")
]
Confidence: TypeAlias = Annotated[
    float | None, Word(WordForm.FRACTION, "How sure it is, from 0 to 1.", least=0, most=1, metavar="0..1")
]
ValidFrom: TypeAlias = Annotated[Instant | None, Word(WordForm.INSTANT, "From when it holds.", metavar="WHEN")]
ValidTo: TypeAlias = Annotated[Instant | None, Word(WordForm.INSTANT, "Until when it holds.", metavar="WHEN")]
Ttl: TypeAlias = Annotated[
    str | float | timedelta | None, SECONDS_WORD._replace(says="It is gone after this time (90s, 24h, 7d).")
]
Timeout: TypeAlias = Annotated[
    str | float | timedelta | None, SECONDS_WORD._replace(says="How long it can be answered (90s, 24h, 7d).")
]
Before: TypeAlias = Annotated[
    int | str | None, Word(WordForm.PLACE, "A number, or the `next` of another page.", most=400, metavar="CURSOR")
]
SinceSeq: TypeAlias = Annotated[int | None, number_word("Those after this event; 0: all.")]
ShownLast: TypeAlias = Annotated[
    int, Word(WordForm.NUMBER, "So many of the newest.", least=1, most=PAGE_MAX_ROWS, metavar="N")
]
Width: TypeAlias = Annotated[
    int, Word(WordForm.NUMBER, "How many turns a summary covers.", least=1, most=PAGE_MAX_ROWS, metavar="N")
]
Fan: TypeAlias = Annotated[
    int, Word(WordForm.NUMBER, "How many summaries the next level covers.", least=1, most=PAGE_MAX_ROWS, metavar="N")
]
After: TypeAlias = Annotated[
    str | None, Word(WordForm.CURSOR, "The `next` of another page.", most=400, metavar="CURSOR")
]

# -- records and values --------------------------------------------------------------------------------------------

Value: TypeAlias = Annotated[Any, Word(WordForm.VALUE, "A value: JSON, or text.", metavar="VALUE")]
Detail: TypeAlias = Annotated[Any, Word(WordForm.VALUE, "More about it: JSON or text.", metavar="JSON")]
OneRef: TypeAlias = Annotated[object, Word(WordForm.REF, "A record, as UID/SEQ.", metavar="UID/SEQ")]
OneRun: TypeAlias = Annotated[object, Word(WordForm.RUN, "A run, by its id.", most=NAME_MAX_CHARS, metavar="RUN")]
Refs: TypeAlias = Annotated[
    Iterable[object],
    Word(
        WordForm.REFS,
        "A record that it refers to, as UID/SEQ; repeatable.",
        most=REFS_MAX,
        option="--ref",
        metavar="UID/SEQ",
    ),
]
Shown: TypeAlias = Annotated[
    Iterable[object],
    Word(WordForm.REFS, "A record that the model was shown, as UID/SEQ; repeatable.", most=REFS_MAX, metavar="UID/SEQ"),
]
Source: TypeAlias = Annotated[
    Iterable[object],
    Word(WordForm.SOURCES, "Where it came from: file:PATH, commit:SHA, https://…", most=REFS_MAX, metavar="SOURCE"),
]
Calls: TypeAlias = Annotated[
    Sequence[CallRecord],
    Word(
        WordForm.CALLS,
        "A call of a tool, as JSON with id, tool and args; repeatable.",
        most=CALLS_MAX,
        option="--call",
        metavar="JSON",
    ),
]
NativeForm: TypeAlias = Annotated[
    tuple[str, Any] | NativeRecord | None,
    Word(WordForm.NATIVE, "The form of its framework, as JSON with form and body.", metavar="JSON"),
]
Usage: TypeAlias = Annotated[
    Mapping[str, Any] | None, Word(WordForm.FIELDS, "The tokens that it took, as JSON.", metavar="JSON")
]
Derived: TypeAlias = Annotated[
    bool, Word(WordForm.FLAG, "It was made of the version before, and is about the same subjects.")
]
Nested: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Also those inside later ones.")]
Vouch: TypeAlias = Annotated[
    bool, Word(WordForm.FLAG, "After a restore, all that it did in the outside world is recorded here.")
]
IsError: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "The call failed.")]
HeadTurn: TypeAlias = Annotated[Turn | int, _TURN]
ParentTurn: TypeAlias = Annotated[Turn | int | None, _TURN._replace(says="The turn that it follows; 0: none.")]
ClaimToken: TypeAlias = Annotated[int | None, number_word("The token of a claim.", metavar="TOKEN")]
TaskNumber: TypeAlias = Annotated[int, TASK_WORD]
Needs: TypeAlias = Annotated[
    Iterable[HasNumber | int],
    Word(WordForm.NUMBERS, "A task that must be done before; repeatable.", least=0, most=TASKS_MAX, metavar="ID"),
]
ParentTask: TypeAlias = Annotated[HasNumber | int | None, TASK_WORD._replace(says="The task that it is a part of.")]

# -- of this process -----------------------------------------------------------------------------------------------

Checks: TypeAlias = Annotated[Iterable[object], local_word("Conditions under which it holds.")]
By: TypeAlias = Annotated[str | None, local_word("The person in whose name it is.")]
