"""The next step for an effect, by its state: one place for the sentences. A door fills in the names of its own verbs. Pure.

Callers: `perdure settle` and the tools for coding agents. Keeps P4: nothing here tells anybody to send what may have been sent.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.model.records.effects import EffectRecord, EffectState


class SenderVerbs(NamedTuple):
    """The names, in a door, of what a sender calls."""

    dispatch: str
    commit: str
    settle: str


_FOR_SENDER = {
    EffectState.PLANNED: "Call {dispatch} before you do it.",
    EffectState.DISPATCHED: (
        "Do it now, once, then call {commit}. If you cannot tell whether you did it, look, then {settle}."
    ),
    EffectState.IN_DOUBT: "Do not do it again. Find out whether it happened, then call {settle}.",
    EffectState.COMMITTED: "It happened: use the result, and do not do it again.",
    EffectState.FAILED: "It did not happen. Decide what to do; another try is a new effect with a new key.",
    EffectState.WITHDRAWN: "It was refused. Do not do it; tell the user.",
    EffectState.UNDOING: "It is being undone. Do not do it again; wait until it is.",
    EffectState.UNDONE: "It happened and was undone. Another try is a new effect with a new key.",
}
assert {*_FOR_SENDER} == {*EffectState}


def for_sender(record: EffectRecord, verbs: SenderVerbs) -> str:
    """The next step for an agent that sends the effect itself."""
    return _FOR_SENDER[record.state].format(**verbs._asdict())


def after_settling(record: EffectRecord) -> str:
    """The consequence of a verdict for a person who settled an effect, and the process that carries it out."""
    again = record.state is EffectState.PLANNED
    if record.stream_kind == "run":
        then = "sends it again" if again else "continues its run"
        return f"a worker {then} (`perdure worker MODULE`); `perdure show run:{record.stream}` shows how it stands"
    return f"acting again with its key {'sends it again' if again else 'gives this outcome'}"
