"""Verbs for memories: of sessions and scopes, and of a memory itself."""

from __future__ import annotations

from perdure.model.filters import MemoryFilters, OwnMemoryFilters
from perdure.model.records.memories import MemoryRecord
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import MEMORY, SCOPE, SCOPE_MEMORY, SESSION, STORE, Endpoint, Key, Right, read, verb
from perdure.verbs.planes import arg, memories, memory_making
from perdure.verbs.reasons import DATES, FEW, INVENTS, MODEL_SUPERSEDES, PROGRAMS, WITHIN


@verb(
    lambda: memories.remember, on=(SESSION, SCOPE), right=Right.WRITE, key=Key.BODY, command="remember", tool="remember",
    body=("MemoryInput", 'A memory. source: texts such as "file:Makefile", or references as [uid, seq].'),
    at=(
        Endpoint(SESSION, "POST", "/memories", "remember", "Record a memory that outlives this session.", 201),
        Endpoint(SCOPE, "POST", "/memories", "remember_in_scope",
                "Record a memory in a scope, where every session that is labelled with its name reads it.", 201),
    ),
    lacks={"mcp": {"confidence": INVENTS, "valid_from": DATES, "valid_to": DATES}},
)  # fmt: skip
def remember(
    text: arg.Text,
    *,
    kind: arg.Kind = "fact",
    key: arg.Key = None,
    source: arg.Source = (),
    about: arg.AboutOfMemory = (),
    tags: arg.Tags = (),
    confidence: arg.Confidence = None,
    valid_from: arg.ValidFrom = None,
    valid_to: arg.ValidTo = None,
    checks: arg.Checks = (),
) -> MemoryRecord:
    """Record knowledge that outlives this run. Atomic; with a `key`, a repetition returns the same memory.

    It lives in this session, or in this scope, where every session that is labelled with the scope's name reads it.
    `recall` finds it as soon as this returns; it waits for no index.
    kind: fact, preference, workflow, snippet, lesson, failed_approach, rule, correction, vocabulary, map or document.
    source: turns, decisions, events (anything with a `ref`), or texts: "file:Makefile", "commit:1a2b", "https://…".
    about: the subjects that it names.
    confidence: from 0 to 1.
    valid_from, valid_to: the time for which it holds.
    checks: conditions under which it holds (`perdure.FileHash`, `GitRef`, `Age` …), looked at whenever it is recalled.

    Raises KeyReused (the key stands for another text), Invalid, TooLarge or NotFound with the path; nothing is written
    then.
    """
    raise NotImplementedError


@verb(
    lambda: memories.supersede, on=(MEMORY, SCOPE_MEMORY), right=Right.WRITE, key=Key.BODY, command="remember", tool="remember",
    body=("SupersedeInput", "The text that replaces a memory, and why."),
    at=(
        Endpoint(MEMORY, "POST", "/supersede", "supersede_memory",
                "Replace a memory by a new text, which is answered; the old one stays readable.", 201),
        Endpoint(SCOPE_MEMORY, "POST", "/supersede", "supersede_scope_memory",
                "Replace a memory of a scope by a new text, which is answered.", 201),
    ),
    lacks={"mcp": {"confidence": INVENTS, "valid_from": DATES, "valid_to": DATES}},
)  # fmt: skip
def supersede(
    text: arg.Text,
    *,
    because: arg.Because,
    key: arg.Key = None,
    kind: arg.KindOrAsBefore = None,
    source: arg.Source = (),
    about: arg.AboutOrAsBefore = None,
    tags: arg.TagsOrAsBefore = None,
    confidence: arg.Confidence = None,
    valid_from: arg.ValidFrom = None,
    valid_to: arg.ValidTo = None,
    checks: arg.Checks = (),
) -> tuple[MemoryRecord, MemoryRecord]:
    """Replace it by a new memory, which is returned. Each names the other. Atomic.

    The new memory holds from `valid_from` (default: now) on, and the old one until then. It has the kind, subjects and tags
    of the old one unless they are given. Raises Conflict if the old one is no longer live (`facts` says by which it was
    superseded). So a repetition after a crash is refused, or returns the same memory if it has the same `key`.
    """
    raise NotImplementedError


@verb(
    lambda: memories.confirm, on=(MEMORY, SCOPE_MEMORY), right=Right.WRITE, body=("ConfirmInput", "Why a memory still holds."),
    at=(
        Endpoint(MEMORY, "POST", "/confirm", "confirm_memory", "Confirm that a memory still holds."),
        Endpoint(SCOPE_MEMORY, "POST", "/confirm", "confirm_scope_memory", "Confirm that a memory of a scope still holds."),
    ),
    lacks={"cli": PROGRAMS, "mcp": MODEL_SUPERSEDES},
)  # fmt: skip
def confirm(because: arg.OptionalBecause = None, *, about: arg.About = ()) -> MemoryRecord:
    """Record that it still holds, now; returns itself. Atomic. Raises Conflict if it is no longer live."""
    raise NotImplementedError


@verb(
    lambda: memories.forget, on=(MEMORY, SCOPE_MEMORY), right=Right.WRITE, command="forget",
    body=("ForgetInput", "Why a memory is to be found no more."),
    at=(
        Endpoint(MEMORY, "POST", "/forget", "forget_memory", "Hide a memory from recall and search; it stays in the log."),
        Endpoint(SCOPE_MEMORY, "POST", "/forget", "forget_scope_memory", "Hide a memory of a scope from recall and search."),
    ),
    lacks={"mcp": MODEL_SUPERSEDES},
)  # fmt: skip
def forget(because: arg.Because, *, about: arg.About = ()) -> MemoryRecord:
    """Hide it from recall and search; returns itself. Atomic; a second time it changes nothing.

    Its text stays in the log, which never changes; erasing is another verb. Raises Conflict if it was superseded.
    """
    raise NotImplementedError


@verb(
    lambda: memory_making.correct, on=(SESSION, SCOPE), right=Right.WRITE, key=Key.BODY,
    body=("CorrectionInput", "A correction of the agent, and the rule that follows from it."),
    at=(
        Endpoint(SESSION, "POST", "/corrections", "correct",
                "Record that somebody corrected the agent, and the rule that follows from it. Answers the rule.", 201),
        Endpoint(SCOPE, "POST", "/corrections", "correct_in_scope",
                "Record a correction in a scope, and the rule that follows from it. Answers the rule.", 201),
    ),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def correct(
    text: arg.Text,
    *,
    rule: arg.Rule,
    key: arg.Key = None,
    source: arg.Source = (),
    about: arg.AboutOfMemory = (),
    tags: arg.Tags = (),
) -> tuple[MemoryRecord, MemoryRecord]:
    """Record that somebody corrected the agent, and the rule that follows, in one commit; returns the rule.

    The rule's `refs` name the correction. With a `key`, a repetition returns the same two.
    """
    raise NotImplementedError


@verb(
    lambda: memory_making.rule_from, on=(SESSION, SCOPE), right=Right.WRITE,
    body=("RuleInput", "A decision, as [uid, seq]. tags: by default its own."),
    at=(
        Endpoint(SESSION, "POST", "/rules", "rule_from", "Make a rule of a decision. Safe to repeat.", 201),
        Endpoint(SCOPE, "POST", "/rules", "rule_in_scope", "Make a rule of a scope out of a decision. Safe to repeat.", 201),
    ),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def rule_from(decision: arg.OneRef, *, tags: arg.TagsOrAsBefore = None) -> MemoryRecord:
    """Make a rule of a decision, which becomes its source. Atomic; a repetition returns the same rule."""
    raise NotImplementedError


@verb(
    lambda: memory_making.workflow_from, on=(SESSION, SCOPE), right=Right.WRITE,
    body=("WorkflowInput", "A completed run by its id. text: what it is good for."),
    at=(
        Endpoint(SESSION, "POST", "/workflows", "workflow_from", "Make a workflow of a completed run. Safe to repeat.", 201),
        Endpoint(SCOPE, "POST", "/workflows", "workflow_in_scope",
                "Make a workflow of a scope out of a completed run. Safe to repeat.", 201),
    ),
    lacks={"cli": PROGRAMS, "mcp": FEW},
)  # fmt: skip
def workflow_from(run: arg.OneRun, *, text: arg.OptionalText = None, tags: arg.Tags = ()) -> MemoryRecord:
    """Make a workflow of a completed run: its steps and effects by name. Atomic; a repetition returns the same workflow.

    run: a run's handle, record or id. Raises Refused if it has not completed, NotFound if there is none.
    """
    raise NotImplementedError


@read(
    lambda: memories.memory, on=(SESSION, SCOPE),
    at=(
        Endpoint(SESSION, "GET", "/memories/{seq}", "get_memory", "A memory of a session."),
        Endpoint(SCOPE, "GET", "/memories/{seq}", "get_scope_memory", "A memory of a scope."),
    ),
    lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def memory(seq: arg.Seq) -> MemoryRecord:
    """Return the memory with this number. Raises NotFound."""
    raise NotImplementedError


@read(
    lambda: memories.memories, on=(SESSION, SCOPE), called="memories", filters=OwnMemoryFilters, command="memories",
    at=(
        Endpoint(SESSION, "GET", "/memories", "list_session_memories", "The memories of this very session, newest first."),
        Endpoint(SCOPE, "GET", "/memories", "list_scope_memories", "The memories of this very scope, newest first."),
    ),
    lacks={"mcp": FEW},
)  # fmt: skip
def own_memories(asked: OwnMemoryFilters) -> Page[MemoryRecord]:
    """Return the memories of this session or scope alone, newest first.

    status: "live", "superseded", "forgotten", or None for all. unread: only those that no recall has returned yet.
    """
    raise NotImplementedError


@read(
    lambda: memories.memories_of_store, on=(STORE,), called="memories", filters=MemoryFilters, command="memories",
    at=(Endpoint(STORE, "GET", "/memories", "list_memories", "The memories of all sessions and scopes, newest first."),),
    lacks={"mcp": FEW},
)  # fmt: skip
def all_memories(asked: MemoryFilters) -> Page[MemoryRecord]:
    """Return the memories of all sessions and scopes of this tenant, newest first. The filters are those of
    `session.memories`.

    since, until: instants ("2026-01-31", a datetime) or ages ("7d"). The next page is `after=page.next`.
    """
    raise NotImplementedError
