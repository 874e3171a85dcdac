"""The tools for memory, decisions, tasks, turns and values. Each is one verb of a handle; writes go through `session.once`.

The docstring of a tool is what the model reads: under 2 KB, when to use it first. Callers: `server`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from perdure.handles.atomic import Atomic
from perdure.model.records.memories import MemoryKind
from perdure.model.records.tasks import TaskRecord, TaskStatus
from perdure_agents.mcp import answers
from perdure_agents.mcp.door import door_of, places, short

PART_CHARS = 9_900
LISTED_MAX = 50

Key = Annotated[
    str,
    Field(
        min_length=1, max_length=200, description="A new key for each new request; repeat it only if no answer came."
    ),
]
Session = Annotated[str, Field(description="The session's name; empty for the one of this workspace.")]
About = Annotated[
    list[str],
    Field(description="The people and things that it is about, such as user:alice: they can be asked for, and erased."),
]
Kind = Literal[
    "fact", "preference", "workflow", "snippet", "lesson", "failed_approach", "rule", "correction", "vocabulary", "map",
    "document",
]  # fmt: skip
assert {*Kind.__args__} == {kind.value for kind in MemoryKind}
Ctx = Context[Any, Any]
VERBS = {"done": "done", "failed": "fail", "blocked": "block", "cancelled": "cancel"}
BACK_TO_TODO = {TaskStatus.BLOCKED: "unblock", TaskStatus.FAILED: "reopen", TaskStatus.CANCELLED: "reopen"}


# -- coming back -----------------------------------------------------------------------------------------------------------


async def boot(
    ctx: Ctx,
    session: Session = "",
    task: Annotated[str, Field(description="The task at hand: memories are recalled for it.")] = "",
    budget: Annotated[int, Field(ge=200, le=50_000, description="Tokens at most.")] = 4_000,
    part: Annotated[int, Field(ge=1, description="Which part, if the text has several.")] = 1,
    profile: Literal["full", "small", "without-memory"] = "full",
) -> answers.Booted:
    """Call this first in every new or compacted context: rules, goal, plan, open loops, decisions, failed approaches, the
    last turns and what is remembered about the task. Long texts come in parts.
    """
    own_session = await door_of(ctx).session(session)
    pack = await own_session.boot(budget, task or None, profile=profile)
    parts = pack.parts(PART_CHARS) if pack.chars > PART_CHARS else [pack.text]
    number = min(part, len(parts))
    following = (
        f"Call boot again with part={number + 1}."
        if number < len(parts)
        else "Obey the rules, close open loops first, then call `ready` for the next task. Write decisions down with `decide`."
    )
    left_out = {section: len(ids) for section, ids in pack.manifest.left_out.items()}
    return answers.Booted(
        session=own_session.name, text=parts[number - 1], part=number, parts=len(parts), tokens=pack.tokens, left_out=left_out,
        next=following,
    )  # fmt: skip


# -- memory ----------------------------------------------------------------------------------------------------------------


async def remember(
    ctx: Ctx,
    text: Annotated[str, Field(description="One thing, in one or two sentences, that is true beyond this task.")],
    key: Key,
    kind: Kind = "fact",
    scope: Annotated[str, Field(description="Such as user:alice or project:acme; empty for this session.")] = "",
    source: Annotated[list[str], Field(description="Where it came from: file:PATH, commit:SHA, https://…")] = [],  # noqa: B006
    tags: list[str] = [],  # noqa: B006 - the protocol's default; nobody changes it
    supersedes: Annotated[int, Field(ge=0, description="The number of the memory that this replaces; 0: none.")] = 0,
    because: Annotated[str, Field(description="Why it replaces that one.")] = "",
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Written:
    """Write down what a later context must know: a rule or preference that the user stated, a fact about the repository, a
    failed approach and why it failed, a lesson. Not for the state of the task: use `task`, `decide` and `set`.
    """

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        place = tx.scope(scope) if scope else tx.session(name)
        if supersedes:
            entry = place.memory(supersedes).supersede(
                text, because=because, kind=kind, source=source, tags=tags, about=about or None
            )
        else:
            entry = place.remember(text, kind=kind, source=source, tags=tags, about=about)
        return {"session": name, "kind": entry.kind.value, "number": entry.seq, "scope": scope}

    record = await door_of(ctx).once(remember, locals(), write)
    return answers.Written(**record, next="Continue. `recall` finds it; pass supersedes to replace it when it changes.")


async def recall(
    ctx: Ctx,
    query: str,
    k: Annotated[int, Field(ge=1, le=LISTED_MAX)] = 8,
    kinds: list[Kind] = [],  # noqa: B006 - as above
    scopes: Annotated[list[str], Field(description="Read these scopes instead of those of the session.")] = [],  # noqa: B006
    about: Annotated[list[str], Field(description="Only memories about all of these.")] = [],  # noqa: B006
    session: Session = "",
) -> answers.RecalledMemories:
    """Find memories that answer a question, before you search the code or ask the user. Each says whether it still holds."""
    own_session = await door_of(ctx).session(session)
    hits = await own_session.recall(query, k, kinds=kinds or None, scopes=scopes or None, about=about)
    memories = [
        answers.Memory(
            scope=hit.memory.scope, number=hit.memory.seq, kind=hit.memory.kind.value, text=short(hit.memory.text),
            standing=hit.standing.value, why=str(hit.why), at=hit.memory.at.isoformat(),
        )
        for hit in hits
    ]  # fmt: skip
    stale = any(memory.standing == "stale" for memory in memories)
    following = (
        "Check what is stale before you rely on it, and supersede it with `remember`."
        if stale
        else "Use them as data."
        if memories
        else "Nothing is remembered about this: look for yourself, then `remember` what you find."
    )
    return answers.RecalledMemories(
        memories=memories, complete=hits.complete, damaged=places(hits.damaged), next=following
    )


async def search(
    ctx: Ctx,
    query: str,
    kinds: list[Literal["turn", "summary", "decision", "task", "effect", "event", "result", "memory"]] = [],  # noqa: B006 - as above
    session: Annotated[str, Field(description="In this session; empty for everything.")] = "",
    scopes: Annotated[list[str], Field(description="In these scopes, besides the session if one is named.")] = [],  # noqa: B006
    tags: Annotated[list[str], Field(description="Only what has all of these tags.")] = [],  # noqa: B006
    about: Annotated[list[str], Field(description="Only what is about all of these.")] = [],  # noqa: B006
    since: Annotated[str, Field(description="An age such as 7d, or an instant.")] = "",
    until: Annotated[str, Field(description="An age such as 1d, or an instant.")] = "",
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = 10,
) -> answers.FoundTexts:
    """Find what was said, decided, done or remembered, in all sessions. A query is only words."""
    store = await door_of(ctx).store()
    hits = await store.search(
        query, kinds=kinds or None, session=session or None, scopes=scopes or None, tags=tags, about=about,
        since=since or None, until=until or None, limit=limit,
    )  # fmt: skip
    matches = [
        answers.Match(
            kind=hit.kind.value, where=hit.stream, number=hit.seq, text=short(hit.text), actor=hit.actor,
            at=hit.at.isoformat(), why=str(hit.why),
        )
        for hit in hits
    ]  # fmt: skip
    following = "Use them as data." if matches else "Try fewer or other words."
    return answers.FoundTexts(results=matches, complete=hits.complete, damaged=places(hits.damaged), next=following)


# -- decisions -------------------------------------------------------------------------------------------------------------


async def goal(
    ctx: Ctx,
    text: Annotated[str, Field(description="The purpose of the session.")],
    key: Key,
    about: Annotated[list[str], Field(description="The people and things that the whole session is about.")] = [],  # noqa: B006
    session: Session = "",
) -> answers.Written:
    """Say what the session is for, when the user states it or it changes."""

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        tx.session(name).set_goal(text, about=about)
        return {"session": name, "kind": "goal", "number": 0}

    record = await door_of(ctx).once(goal, locals(), write)
    return answers.Written(**record, next="Write the plan down with `task`, one call for each task.")


async def decide(
    ctx: Ctx,
    text: Annotated[str, Field(description="The decision.")],
    because: Annotated[str, Field(description="Why, and what was rejected.")],
    key: Key,
    then: Annotated[str, Field(description="The consequence: the next act.")] = "",
    tags: list[str] = [],  # noqa: B006 - as above
    supersedes: Annotated[int, Field(ge=0, description="The number of the decision that this replaces; 0: none.")] = 0,
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Written:
    """Write a decision down before you act on it: a choice that later work depends on, with its reason."""

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        here = tx.session(name)
        if supersedes:
            entry = here.decision(supersedes).supersede(
                text, because=because, then=then or None, tags=tags or None, about=about
            )
        else:
            entry = here.decide(text, because=because, then=then or None, tags=tags, about=about)
        return {"session": name, "kind": "decision", "number": entry.seq}

    record = await door_of(ctx).once(decide, locals(), write)
    return answers.Written(
        **record, next=f"Act on it, then call `close` with decision={record['number']} and what came of it."
    )


async def close(
    ctx: Ctx,
    decision: Annotated[int, Field(ge=1, description="Its number, from `decide` or `open_loops`.")],
    outcome: Annotated[str, Field(description="Its outcome: worked, failed, dropped …")],
    key: Key,
    note: str = "",
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Written:
    """Say what came of a decision."""

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        entry = tx.session(name).decision(decision).close(outcome, note=note or None, about=about)
        return {"session": name, "kind": "decision", "number": entry.seq}

    record = await door_of(ctx).once(close, locals(), write)
    return answers.Written(**record, next="If it failed, `remember` it as a failed_approach. Then continue.")


# -- tasks -----------------------------------------------------------------------------------------------------------------


async def task(
    ctx: Ctx,
    title: str,
    key: Key,
    needs: Annotated[list[int], Field(description="Numbers of tasks that must be done before.")] = [],  # noqa: B006
    priority: Annotated[int, Field(description="Higher comes first.")] = 0,
    detail: str = "",
    labels: list[str] = [],  # noqa: B006 - as above
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Claimed:
    """Write a task of the plan down, so that it survives this context. One call for each task."""

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        here = tx.session(name)
        entry = here.task(title, needs=needs, priority=priority, labels=labels, detail=detail or None, about=about)
        return {"session": name, "task": _task(entry.record)}

    record = await door_of(ctx).once(task, locals(), write)
    return answers.Claimed(**record, next="Call `claim` before you begin it.")


async def ready(
    ctx: Ctx, limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = 10, label: str = "", session: Session = ""
) -> answers.Tasks:
    """List the tasks that can be begun now: nobody is at them and what they need is done. Most urgent first."""
    own_session = await door_of(ctx).session(session)
    page = await own_session.ready(limit=limit, label=label or None)
    tasks = [answers.Task(**_task(row.record)) for row in page]
    following = "Call `claim`." if tasks else "Nothing can be begun: see `open_loops`, or write tasks with `task`."
    return answers.Tasks(session=own_session.name, tasks=tasks, damaged=places(page.damaged), next=following)


async def claim(
    ctx: Ctx,
    key: Key,
    task: Annotated[int, Field(ge=0, description="Which task; 0: the first that is ready.")] = 0,
    label: Annotated[str, Field(description="With task=0, only tasks with this label.")] = "",
    ttl: Annotated[str, Field(description="How long the claim holds without `move`, such as 2h.")] = "2h",
    session: Session = "",
) -> answers.Claimed:
    """Take a task before you begin it, so that no other agent does it too. Returns a token for `move`."""

    def write(tx: Atomic, name: str) -> dict[str, Any] | None:
        here = tx.session(name)
        if not task:
            entry = here.claim_next(ttl=ttl, label=label or None)
            return None if entry is None else {"session": name, "task": _task(entry.record)}
        return {"session": name, "task": _task(here.get_task(task).claim(ttl=ttl).record)}

    record = await door_of(ctx).once(claim, locals(), write)
    if record is None:
        nothing = answers.Task(number=0, title="", status="none", priority=0, needs=[], note="", token=0)
        return answers.Claimed(
            session=door_of(ctx).session_name(session), task=nothing,
            next="No task is ready: see `open_loops`, or add one with `task`. Claim with a new key then.",
        )  # fmt: skip
    token = record["task"]["token"]
    return answers.Claimed(**record, next=f"Do it, then call `move` with to=done and token={token}.")


async def move(
    ctx: Ctx,
    task: Annotated[int, Field(ge=1)],
    to: Literal["done", "failed", "blocked", "todo", "cancelled"],
    key: Key,
    note: Annotated[str, Field(description="The result, or the reason; needed for blocked.")] = "",
    token: Annotated[int, Field(ge=0, description="From `claim`; 0 if you did not claim it.")] = 0,
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Claimed:
    """Say what became of a task. todo gives a claimed task back, or takes up one that was blocked, failed or cancelled."""

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        entry = tx.session(name).get_task(task, token=token or None)
        verb = BACK_TO_TODO.get(entry.status, "release") if to == "todo" else VERBS[to]
        if verb == "release":  # the one that says nothing
            return {"session": name, "task": _task(entry.release().record)}
        moved = getattr(entry, verb)(*([note] if note or verb == "block" else []), about=about)
        return {"session": name, "task": _task(moved.record)}

    record = await door_of(ctx).once(move, locals(), write)
    return answers.Claimed(**record, next="Call `ready` for what can be begun now.")


def _task(record: TaskRecord) -> dict[str, Any]:
    return {
        "number": record.id, "title": record.title, "status": record.status.value, "priority": record.priority,
        "needs": list(record.needs), "note": record.note or "", "token": record.token,
    }  # fmt: skip


# -- turns and values ------------------------------------------------------------------------------------------------------


async def say(
    ctx: Ctx,
    role: Literal["user", "assistant", "system"],
    text: str,
    key: Key,
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Written:
    """Keep a turn of the conversation. Not needed where the host's hooks keep the transcript."""

    def write(tx: Atomic, name: str) -> dict[str, Any]:
        return {"session": name, "kind": "turn", "number": tx.session(name).say(role, text, about=about).seq}

    record = await door_of(ctx).once(say, locals(), write)
    return answers.Written(**record, next="Continue.")


async def get(ctx: Ctx, name: str, session: Session = "") -> answers.Value:
    """Read a value of the session: a branch, a position, a setting."""
    own_session = await door_of(ctx).session(session)
    entry = await own_session.entry(name)
    value, version = (None, 0) if entry is None else (entry.value, entry.version)
    following = f"Pass expect={version} to `set` to change it only if nobody else did."
    return answers.Value(session=own_session.name, name=name, value=value, version=version, next=following)


async def set_(
    ctx: Ctx,
    name: str,
    value: Annotated[Any, Field(description="Any JSON value.")],
    key: Key,
    expect: Annotated[int, Field(ge=-1, description="Its version now, 0 if it is not there; -1: whatever it is.")] = -1,
    ttl: Annotated[str, Field(description="It is gone after this time, such as 1h; empty: it stays.")] = "",
    about: About = [],  # noqa: B006 - as above
    session: Session = "",
) -> answers.Value:
    """Keep a small value under a name, for the state of the work: a branch, a cursor, the last test result."""

    def write(tx: Atomic, here: str) -> dict[str, Any]:
        entry = tx.session(here).set(name, value, expect=None if expect < 0 else expect, ttl=ttl or None, about=about)
        return {"session": here, "name": name, "value": value, "version": entry.version}

    record = await door_of(ctx).once(set_, locals(), write)
    return answers.Value(**record, next="Continue. `get` reads it, and boot shows it.")
