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
from perdure.model.records.effects import ToolKind
from perdure.model.records.memories import MemoryKind, SearchKind

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


def _names(says: str, *, most: int, option: str, metavar: str = "NAME") -> Word:
    return Word(WordForm.NAMES, says, most=most, option=option, metavar=metavar)


def _number(says: str, *, least: int = 0, most: int = SEQ_MAX, metavar: str = "SEQ", option: str = "") -> Word:
    return Word(WordForm.NUMBER, says, least=least, most=most, metavar=metavar, option=option)


def _local(says: str) -> Word:
    return Word(WordForm.LOCAL, says)


_TEXT = Word(WordForm.TEXT, "The text.", most=TEXT_MAX_CHARS, metavar="TEXT")
_WHY = Word(WordForm.TEXT, "The reason.", most=TEXT_MAX_CHARS, metavar="WHY")
_KEY = Word(
    WordForm.NAME, "Makes a repetition harmless: the same key writes nothing twice.", most=KEY_MAX_CHARS, metavar="KEY"
)
_SUBJECTS = _names("A subject that it names; repeatable.", most=REFS_MAX, option="--about")
_SUBJECTS_OF_MEMORY = _names("A subject that it names; repeatable.", most=LABELS_MAX, option="--about")
_TAGS = _names("A tag; repeatable.", most=LABELS_MAX, option="--tag")
_LABELS = _names("A label; repeatable.", most=LABELS_MAX, option="--label")
_KIND = Word(WordForm.WORD, "The kind of memory.", words=MemoryKind)
_SECONDS = Word(WordForm.SPAN, "A time such as 30s or 2d.", metavar="TIME")
_TASK = _number("A task of the same session.", metavar="ID")
_TURN = _number("A turn, by its number.")

# -- text ----------------------------------------------------------------------------------------------------------

Text: TypeAlias = Annotated[str, _TEXT]
OptionalText: TypeAlias = Annotated[str | None, _TEXT]
Because: TypeAlias = Annotated[str, _WHY]
OptionalBecause: TypeAlias = Annotated[str | None, _WHY]
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

Why: TypeAlias = Annotated[str, _WHY]

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
    str, _names("A person or thing that all of it is about.", most=LABELS_MAX, option="--subject")
]
About: TypeAlias = Annotated[Iterable[str], _SUBJECTS]
AboutOfMemory: TypeAlias = Annotated[Iterable[str], _SUBJECTS_OF_MEMORY]
AboutOrAsBefore: TypeAlias = Annotated[Iterable[str] | None, _SUBJECTS_OF_MEMORY]
Tags: TypeAlias = Annotated[Iterable[str], _TAGS]
TagsOrAsBefore: TypeAlias = Annotated[Iterable[str] | None, _TAGS]
Labels: TypeAlias = Annotated[Iterable[str], _LABELS]
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

Seq: TypeAlias = Annotated[int, _number("A number in its stream.")]
Expect: TypeAlias = Annotated[
    int | None, _number("Only if this is its version now; 0: only if there is none.", metavar="VERSION")
]
ExpectSeq: TypeAlias = Annotated[int | None, _number("Only if this is the last number of the session now.")]
Upto: TypeAlias = Annotated[int, _number("The last turn that it stands for.")]
First: TypeAlias = Annotated[
    int | None, _number("The first turn that it stands for; by default the first one.", option="--from")
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
    str | float | timedelta | None, _SECONDS._replace(says="It is gone after this time (90s, 24h, 7d).")
]
Timeout: TypeAlias = Annotated[
    str | float | timedelta | None, _SECONDS._replace(says="How long it can be answered (90s, 24h, 7d).")
]
Before: TypeAlias = Annotated[
    int | str | None, Word(WordForm.PLACE, "A number, or the `next` of another page.", most=400, metavar="CURSOR")
]
SinceSeq: TypeAlias = Annotated[int | None, _number("Those after this event; 0: all.")]
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
ClaimToken: TypeAlias = Annotated[int | None, _number("The token of a claim.", metavar="TOKEN")]
TaskNumber: TypeAlias = Annotated[int, _TASK]
Needs: TypeAlias = Annotated[
    Iterable[HasNumber | int],
    Word(WordForm.NUMBERS, "A task that must be done before; repeatable.", least=0, most=TASKS_MAX, metavar="ID"),
]
ParentTask: TypeAlias = Annotated[HasNumber | int | None, _TASK._replace(says="The task that it is a part of.")]

# -- of this process -----------------------------------------------------------------------------------------------

Checks: TypeAlias = Annotated[Iterable[object], _local("Conditions under which it holds.")]
By: TypeAlias = Annotated[str | None, _local("The person in whose name it is.")]

# -- of verbs that have a body by hand at a door ---------------------------------------------------------------------

AboutAll: TypeAlias = Annotated[
    Iterable[str], _names("Only what is about this subject; repeatable.", most=100, option="--about")
]
TagsWanted: TypeAlias = Annotated[
    Iterable[str], _names("Only those with this tag; repeatable.", most=100, option="--tag")
]
KindsWanted: TypeAlias = Annotated[
    Iterable[str] | None,
    Word(WordForm.WORDS, "Only of this kind; repeatable.", words=MemoryKind, option="--kind", most=100),
]
SearchKinds: TypeAlias = Annotated[
    Iterable[str] | None,
    Word(WordForm.WORDS, "Only of this kind; repeatable.", words=SearchKind, option="--kind", most=100),
]
ScopesWanted: TypeAlias = Annotated[
    Iterable[str] | None, _names("In this scope, such as user:alice; repeatable.", most=100, option="--scope")
]
SessionsWanted: TypeAlias = Annotated[Iterable[str], _names("This session; repeatable.", most=100, option="--session")]
RunsWanted: TypeAlias = Annotated[
    Iterable[str], _names("This run; repeatable.", most=100, option="--run", metavar="RUN")
]
EventKinds: TypeAlias = Annotated[
    Iterable[str] | None,
    _names("Only events of this kind; repeatable.", most=TASKS_MAX, option="--kind", metavar="KIND"),
]
LabelsOrAsBefore: TypeAlias = Annotated[Iterable[str] | None, _LABELS]
OneLabel: TypeAlias = Annotated[str, _LABELS]
Turns: TypeAlias = Annotated[Turn | int, Word(WordForm.NUMBERS, "A turn that is taken back.", least=0, most=KEYS_MAX)]

Query: TypeAlias = Annotated[str, Word(WordForm.TEXT, "Plain words.", most=2_000, metavar="QUERY")]
TaskText: TypeAlias = Annotated[str | None, Word(WordForm.TEXT, "The task at hand.", most=4_000, metavar="TEXT")]
Reason: TypeAlias = Annotated[str, _WHY]
TitleOrAsBefore: TypeAlias = Annotated[
    str | None, Word(WordForm.TEXT, "The title.", most=TEXT_MAX_CHARS, metavar="TEXT")
]
Prompt: TypeAlias = Annotated[
    str | None, Word(WordForm.TEXT, "The prompt; its digest is kept.", most=TEXT_MAX_CHARS, metavar="TEXT")
]
Commit: TypeAlias = Annotated[
    str | None, Word(WordForm.TEXT, "The commit of the code.", most=TEXT_MAX_CHARS, metavar="SHA")
]
Sql: TypeAlias = Annotated[str, Word(WordForm.TEXT, "One statement that reads.", most=TEXT_MAX_CHARS, metavar="SQL")]
Error: TypeAlias = Annotated[Any, Word(WordForm.TEXT, "The error in words.", most=TEXT_MAX_CHARS, metavar="TEXT")]

OptionalSession: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "In this session.", most=NAME_MAX_CHARS, metavar="NAME")
]
OptionalActor: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only what this actor did.", most=NAME_MAX_CHARS, metavar="NAME")
]
OptionalOutcome: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only what came out so.", most=NAME_MAX_CHARS, metavar="NAME")
]
OptionalRun: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "A run, by its id.", most=NAME_MAX_CHARS, metavar="RUN")
]
AgentName: TypeAlias = Annotated[Any, Word(WordForm.NAME, "An agent.", most=NAME_MAX_CHARS, metavar="AGENT")]
RunId: TypeAlias = Annotated[str, Word(WordForm.NAME, "A run, by its id.", most=NAME_MAX_CHARS, metavar="RUN")]
AskId: TypeAlias = Annotated[str, Word(WordForm.NAME, "A question, by its id.", most=NAME_MAX_CHARS, metavar="ASK")]
ToolName: TypeAlias = Annotated[Any, Word(WordForm.NAME, "The tool.", most=NAME_MAX_CHARS, metavar="TOOL")]
Holder: TypeAlias = Annotated[str, Word(WordForm.NAME, "A machine or a holder.", most=NAME_MAX_CHARS, metavar="NAME")]
StreamName: TypeAlias = Annotated[
    Any, Word(WordForm.NAME, "A session, or a run as run:ID.", most=NAME_MAX_CHARS, metavar="NAME")
]
EventKindWanted: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "Only this kind, or all below a word.", most=NAME_MAX_CHARS, metavar="KIND")
]
MediaType: TypeAlias = Annotated[
    str | None, Word(WordForm.NAME, "The media type.", most=NAME_MAX_CHARS, metavar="TYPE")
]
PlaceOfRun: TypeAlias = Annotated[
    int | str, Word(WordForm.NAME, "A place of a run, or its number.", most=NAME_MAX_CHARS, metavar="PLACE")
]
LearningFormat: TypeAlias = Annotated[str, Word(WordForm.NAME, "The format.", most=NAME_MAX_CHARS, metavar="FORMAT")]
Start: TypeAlias = Annotated[str, Word(WordForm.WORD, "Where a reader begins.", words=("beginning", "end"))]
Profile: TypeAlias = Annotated[str, Word(WordForm.WORD, "How much.", words=("full", "small", "without-memory"))]
ToolKindWanted: TypeAlias = Annotated[Any, Word(WordForm.WORD, "The kind of tool.", words=ToolKind)]
VerdictOf: TypeAlias = Annotated[Any, Word(WordForm.WORD, "The verdict.", words=("happened", "absent", "declined"))]

OptionalSeq: TypeAlias = Annotated[int | None, _number("A number in its stream.")]
PlaceFrom: TypeAlias = Annotated[
    int | str, Word(WordForm.PLACE, "Those after a number, or the `next` of another page.", most=400, metavar="CURSOR")
]
Count: TypeAlias = Annotated[
    int, Word(WordForm.NUMBER, "At most so many.", least=1, most=PAGE_MAX_ROWS, metavar="N", option="-k")
]
Budget: TypeAlias = Annotated[int, Word(WordForm.NUMBER, "Tokens at most.", least=1, most=200_000, metavar="TOKENS")]
MaxChars: TypeAlias = Annotated[
    int | None, Word(WordForm.NUMBER, "Characters at most.", least=1, most=PRIORITY_MAX, metavar="CHARS")
]
Consumers: TypeAlias = Annotated[int | None, Word(WordForm.NUMBER, "Batches under way at once.", least=1, metavar="N")]
PriorityOrAsBefore: TypeAlias = Annotated[
    int | None, Word(WordForm.NUMBER, "Higher comes first.", least=-PRIORITY_MAX, most=PRIORITY_MAX, metavar="N")
]
Moment: TypeAlias = Annotated[
    Any, Word(WordForm.INSTANT, "As it was: after an event, at an instant, or some time ago.", metavar="WHEN")
]
Since: TypeAlias = Annotated[Instant | None, Word(WordForm.INSTANT, "Not older: an age or an instant.", metavar="WHEN")]
Until: TypeAlias = Annotated[Instant | None, Word(WordForm.INSTANT, "Not newer: an age or an instant.", metavar="WHEN")]
Lease: TypeAlias = Annotated[str | float | timedelta, _SECONDS]

Full: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "All turns, not the summaries that stand for them.")]
Force: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Although it looks as if it still went on.")]
OpenOnly: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Only those that are not settled.")]
EmittedOnly: TypeAlias = Annotated[bool | None, Word(WordForm.FLAG, "Only events of your own.")]
AllowEffects: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "It may act without asking.")]
Blobs: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Read every blob too.")]
Apply: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Do it; without, only say it.")]
DryRun: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Only say it.")]
Lost: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "The other store is gone for good.")]
Everything: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "All of the tenant.")]
KeysApart: TypeAlias = Annotated[bool, Word(WordForm.FLAG, "Keys of the copy stand beside those that are here.")]

Result: TypeAlias = Annotated[Any, Word(WordForm.VALUE, "The result: JSON, or text.", metavar="JSON")]
ToolArgs: TypeAlias = Annotated[Any, Word(WordForm.FIELDS, "The arguments, as JSON.", metavar="JSON")]
PinsOf: TypeAlias = Annotated[Any, Word(WordForm.FIELDS, "The versions of its software, as JSON.", metavar="JSON")]
Tools: TypeAlias = Annotated[Any, Word(WordForm.TABLE, "The versions of its tools, as JSON.", metavar="JSON")]
OneCover: TypeAlias = Annotated[Any, _number("A summary, by its number.")]
OtherTask: TypeAlias = Annotated[HasNumber | int, _TASK._replace(says="Another task of the same session.")]
Local: TypeAlias = Annotated[Any, _local("A thing of this process: a function, a file, a folder, an object.")]
