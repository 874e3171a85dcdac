"""The tool that asks a person: through the client where it can show a question, and in any case as a durable ask.

`Resolve` carries the question on both eras of the protocol; a resolver may run again in every round, so it opens the ask
once by its key. An answer that comes through the client answers the ask; one that is given elsewhere is found by the same key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp.server.elicitation import AcceptedElicitation, CancelledElicitation, DeclinedElicitation
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import BaseModel, Field, create_model

from perdure.errors import Conflict
from perdure.handles.atomic import Atomic
from perdure.model.records.runs import WaitRecord, WaitState
from perdure.planes.execution import waits
from perdure_agents.mcp import answers
from perdure_agents.mcp.door import Door, door_of, with_error_texts
from perdure_agents.mcp.tools import About, Ctx, Key, Session

ASKED_BY_CLIENT = "person at the MCP client"


class PersonReply(BaseModel):
    """The answer of a person."""

    answer: str = ""


@with_error_texts
async def reply(
    ctx: Ctx, question: str, key: str, choices: list[str], about: list[str], session: str
) -> PersonReply | Elicit[PersonReply]:
    """The answer that is known already, or a question to the client; nothing, if the client cannot show any."""
    wait = await _ask(door_of(ctx), session, key, question, choices, about)
    capabilities = ctx.client_capabilities
    if wait.state is not WaitState.OPEN or capabilities is None or capabilities.elicitation is None:
        return PersonReply()
    return Elicit(question, _shape(choices) if choices else PersonReply)


def _shape(choices: list[str]) -> type[PersonReply]:
    """A reply that is one of these."""
    field: Any = (Literal[tuple(choices)], ...)
    return create_model("Reply", __base__=PersonReply, answer=field)


async def ask(
    ctx: Ctx,
    question: Annotated[str, Field(description="One question, with what the person needs to know.")],
    key: Key,
    replied: Annotated[AcceptedElicitation[PersonReply] | DeclinedElicitation | CancelledElicitation, Resolve(reply)],
    choices: Annotated[list[str], Field(description="The answers to choose from; empty for any text.")] = [],  # noqa: B006
    about: About = [],  # noqa: B006 - the protocol's default; nobody changes it
    session: Session = "",
) -> answers.Asked:
    """Ask the user something that you must not decide yourself. The question is kept until somebody answers it, here or
    elsewhere: if there is no answer yet, do other work and call this again with the same key.
    """
    door = door_of(ctx)
    wait = await _ask(door, session, key, question, choices, about)
    if isinstance(replied, AcceptedElicitation) and replied.data.answer and wait.state is WaitState.OPEN:
        wait = await _answered(door, wait, replied.data.answer)
    answered = wait.state is WaitState.MET
    following = (
        "Act on the answer."
        if answered
        else f"No answer yet. Do other work and ask again with the same key; {waits.answer_with(wait)} answers it."
    )
    text = wait.answer if isinstance(wait.answer, str) else "" if wait.answer is None else str(wait.answer)
    return answers.Asked(
        ask=wait.id, question=question, answered=answered, answer=text, by=wait.met_by or "", next=following
    )


async def _ask(door: Door, session: str, key: str, question: str, choices: list[str], about: list[str]) -> WaitRecord:
    """The ask of this key, opened if it is new, as it stands now."""

    def write(tx: Atomic, name: str) -> int:
        return tx.session(name).ask(question, choices=choices or None, about=about).seq

    seq = await door.once(ask, locals(), write)
    return await (await door.session(session)).asked(seq)


async def _answered(door: Door, wait: WaitRecord, answer: str) -> WaitRecord:
    try:
        return await (await door.store()).answer(wait.id, answer, by=ASKED_BY_CLIENT)
    except Conflict:  # somebody else was first: that answer stands
        return await (await door.session(wait.stream)).asked(wait.seq)
