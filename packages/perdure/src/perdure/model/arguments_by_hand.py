"""The words of arguments that only verbs with a body by hand take.

They stand apart from `model.arguments`, so that a command which needs a row does not load them. Callers: `verbs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from perdure.model.arguments import (
    KEYS_MAX,
    LABELS_WORD,
    PRIORITY_MAX,
    SECONDS_WORD,
    TASK_WORD,
    TASKS_MAX,
    WHY_WORD,
    Word,
    WordForm,
    local_word,
    names_word,
    number_word,
)
from perdure.model.filters import HasNumber
from perdure.model.instants import Instant
from perdure.model.limits import NAME_MAX_CHARS, PAGE_MAX_ROWS, TEXT_MAX_CHARS
from perdure.model.records.conversation import Turn
from perdure.model.records.effects import ToolKind
from perdure.model.records.memories import MemoryKind, SearchKind

AboutAll: TypeAlias = Annotated[
    Iterable[str], names_word("Only what is about this subject; repeatable.", most=100, option="--about")
]
TagsWanted: TypeAlias = Annotated[
    Iterable[str], names_word("Only those with this tag; repeatable.", most=100, option="--tag")
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
    Iterable[str] | None, names_word("In this scope, such as user:alice; repeatable.", most=100, option="--scope")
]
SessionsWanted: TypeAlias = Annotated[
    Iterable[str], names_word("This session; repeatable.", most=100, option="--session")
]
RunsWanted: TypeAlias = Annotated[
    Iterable[str], names_word("This run; repeatable.", most=100, option="--run", metavar="RUN")
]
EventKinds: TypeAlias = Annotated[
    Iterable[str] | None,
    names_word("Only events of this kind; repeatable.", most=TASKS_MAX, option="--kind", metavar="KIND"),
]
LabelsOrAsBefore: TypeAlias = Annotated[Iterable[str] | None, LABELS_WORD]
OneLabel: TypeAlias = Annotated[str, LABELS_WORD]
Turns: TypeAlias = Annotated[Turn | int, Word(WordForm.NUMBERS, "A turn that is taken back.", least=0, most=KEYS_MAX)]

Query: TypeAlias = Annotated[str, Word(WordForm.TEXT, "Plain words.", most=2_000, metavar="QUERY")]
TaskText: TypeAlias = Annotated[str | None, Word(WordForm.TEXT, "The task at hand.", most=4_000, metavar="TEXT")]
Reason: TypeAlias = Annotated[str, WHY_WORD]
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

OptionalSeq: TypeAlias = Annotated[int | None, number_word("A number in its stream.")]
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
Lease: TypeAlias = Annotated[str | float | timedelta, SECONDS_WORD]

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
OneCover: TypeAlias = Annotated[Any, number_word("A summary, by its number.")]
OtherTask: TypeAlias = Annotated[HasNumber | int, TASK_WORD._replace(says="Another task of the same session.")]
Local: TypeAlias = Annotated[Any, local_word("A thing of this process: a function, a file, a folder, an object.")]
