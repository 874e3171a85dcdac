"""The tools for effects and open loops: what is done to the outside world, and what nobody knows yet.

The agent itself is the sender: it begins, dispatches, acts, and says what came of it. Keeps P2, P4: `effect_dispatch` answers
only when the intent is durable, and a lost answer is repeated only while nobody has doubted that attempt.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from perdure.effects.next_steps import SenderVerbs, for_sender
from perdure.errors import Conflict, InDoubt
from perdure.handles.atomic import Atomic
from perdure.handles.damage import Damage
from perdure.model.records.effects import Absent, Declined, EffectRecord, EffectState, Happened, Verdict
from perdure.model.records.tasks import TaskStatus
from perdure.planes.conversation.transcript import as_text
from perdure_agents.mcp import answers
from perdure_agents.mcp.door import door_of, places, short
from perdure_agents.mcp.tools import LISTED_MAX, About, Ctx, Key, Session

EffectId = Annotated[str, Field(description="From `effect_begin` or `open_loops`, such as session:acme/12.")]
VERBS = SenderVerbs(dispatch="`effect_dispatch`", commit="`effect_commit`", settle="`effect_settle`")


async def effect_begin(
    ctx: Ctx,
    tool: Annotated[str, Field(description="The name of the action: open_pr, send_mail, deploy …")],
    args: Annotated[dict[str, Any], Field(description="With which arguments.")],
    key: Key,
    kind: Annotated[
        Literal["unsafe", "idempotent", "keyed", "read"],
        Field(description="idempotent: twice is as good as once. keyed: the other side deduplicates on sent_key."),
    ] = "unsafe",
    about: About = [],  # noqa: B006 - the protocol's default; nobody changes it
    session: Session = "",
) -> answers.Effect:
    """Before you change the outside world (push, publish, mail, deploy, pay), write the intent down. The same key and
    arguments give the same effect: look at its state, because an earlier context may have done it already.
    """
    own_session = await door_of(ctx).session(session)
    return _effect((await own_session.begin(tool, args, kind=kind, key=key, about=about)).record)


async def effect_dispatch(ctx: Ctx, effect: EffectId, key: Key, session: Session = "") -> answers.Effect:
    """Make the intent durable right before you act. Act only after this has answered with state=dispatched."""

    def write(tx: Atomic, _name: str) -> dict[str, Any]:
        return {"attempt": tx.effect(effect).dispatch().record.attempt}

    sent = await door_of(ctx).once(effect_dispatch, locals(), write)
    now = (await (await door_of(ctx).store()).effect(effect)).record
    if now.state is EffectState.IN_DOUBT:
        raise InDoubt(f"the outcome of {effect} is unknown", path="effect")
    if now.attempt != sent["attempt"]:
        raise Conflict(f"{effect} is at attempt {now.attempt} by now", path="effect", state=now.state.value)
    return _effect(now)


async def effect_commit(
    ctx: Ctx,
    effect: EffectId,
    key: Key,
    outcome: Annotated[Literal["happened", "failed"], Field(description="failed: it is known not to have happened.")],
    result: Annotated[Any, Field(description="Its result: a number, a URL; any JSON value.")] = None,
    error: Annotated[str, Field(description="With outcome=failed, why.")] = "",
    about: About = [],  # noqa: B006 - the protocol's default; nobody changes it
    session: Session = "",
) -> answers.Effect:
    """Say what came of what you dispatched, as soon as you know."""

    def write(tx: Atomic, _name: str) -> str:
        handle = tx.effect(effect)
        return (
            handle.commit(result, about=about) if outcome == "happened" else handle.fail(error or "failed", about=about)
        ).id

    await door_of(ctx).once(effect_commit, locals(), write)
    return _effect((await (await door_of(ctx).store()).effect(effect)).record)


async def effect_settle(
    ctx: Ctx,
    effect: EffectId,
    verdict: Annotated[
        Literal["happened", "absent", "declined"],
        Field(description="absent: it did not happen, and may be tried again. declined: it shall not be tried again."),
    ],
    key: Key,
    evidence: Annotated[str, Field(description="How you know: what you looked at.")],
    result: Annotated[Any, Field(description="With verdict=happened, what it gave.")] = None,
    about: About = [],  # noqa: B006 - the protocol's default; nobody changes it
    session: Session = "",
) -> answers.Effect:
    """Say what became of an effect in doubt, after you looked at the other side. Never guess: ask the user with `ask`."""
    verdicts: dict[str, Verdict] = {
        "happened": Happened(result), "absent": Absent(), "declined": Declined(evidence),
    }  # fmt: skip

    def write(tx: Atomic, name: str) -> str:
        settled = tx.effect(effect).settle(verdicts[verdict], about=about)
        event = {"effect": effect, "verdict": verdict, "evidence": evidence}
        tx.session(name).emit("mcp.settled", event, about=about, refs=[settled.record.ref])
        return settled.id

    await door_of(ctx).once(effect_settle, locals(), write)
    return _effect((await (await door_of(ctx).store()).effect(effect)).record)


def _effect(record: EffectRecord) -> answers.Effect:
    return answers.Effect(
        effect=record.id, tool=record.tool, state=record.state.value, attempt=record.attempt, sent_key=record.sent_key,
        result=record.result, next=for_sender(record, VERBS),
    )  # fmt: skip


async def open_loops(
    ctx: Ctx,
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = 20,
    about: Annotated[str, Field(description="Only what is about this person or thing.")] = "",
    session: Session = "",
) -> answers.Loops:
    """List what is open: effects in doubt, questions to people, open decisions, tasks that somebody is at or that are blocked,
    and the turn that waits for an answer. Look here before you end a session.
    """
    own_session = await door_of(ctx).session(session)
    store = await door_of(ctx).store()
    whom, damage = about or None, Damage()
    loops = [
        answers.Loop(kind="effect", id=row.id, text=row.tool, state=row.state.value)
        for row in damage.rows(await own_session.effects(open=True, about=whom, limit=limit))
    ]
    loops += [
        answers.Loop(kind="ask", id=row.id, text=short(row.question), state="not answered")
        for row in damage.rows(await store.asks(session=own_session.name, about=whom, limit=limit))
    ]
    loops += [
        answers.Loop(kind="decision", id=str(row.seq), text=short(row.text), state="open")
        for row in damage.rows(await own_session.decisions(open=True, about=whom, limit=limit))
    ]
    for status in (TaskStatus.DOING, TaskStatus.BLOCKED):
        loops += [
            answers.Loop(kind="task", id=str(row.id), text=row.title, state=status.value)
            for row in damage.rows(await own_session.tasks(status=status.value, about=whom, limit=limit))
        ]
    pending = await damage.apart(own_session.pending(), None)
    if pending is not None and (
        whom is None or await own_session.turns(after=pending.turn.seq - 1, about=whom, limit=1)
    ):
        text = short(as_text(pending.turn.content)) or "calls without a result"
        loops.append(answers.Loop(kind="turn", id=str(pending.turn.seq), text=text, state="waits for an answer"))
    following = (
        "Settle doubt first, then close decisions and move tasks." if loops else "Nothing is open: call `ready`."
    )
    return answers.Loops(session=own_session.name, loops=loops[:limit], damaged=places(damage), next=following)
