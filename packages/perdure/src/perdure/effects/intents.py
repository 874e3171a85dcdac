"""The intent of an external call, before anything is written, and the verdicts of guards on it.

Plain functions of both colours. Callers: the engine and the handles. Keeps P2, P15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.effects.ledger import Intent
from perdure.effects.tool import Guard, Refuse, RequireApproval, digest_of
from perdure.errors import Invalid, Refused
from perdure.model.ids import new_uid
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Rule, ToolKind, text_of


def intend(
    name: str, kind: ToolKind, args: dict[str, Any], rule: Rule, key: str | None, call: Call | None,
    about: tuple[str, ...] = (),
) -> Intent:  # fmt: skip
    """An effect in a session, under its key, the call that it answers, or a new key. Refused for a tool that only reads."""
    if kind is ToolKind.READ:
        raise Refused(f"{name} only reads: call it yourself", path="tool", hint="a run records it with run.step")
    if call is not None and type(call) is not Call:
        raise Invalid(f"expected a Call, got {type(call).__name__}", path="call")
    chosen = key if key is not None else key_of_call(call.id) if call is not None else new_uid().hex()
    return Intent(name, kind, chosen, digest_of(name, args), args, rule, call=call.id if call else None, about=about)


def key_of_call(call: str) -> str:
    """The key of the effect that answers a call."""
    return f"call:{call}"


def named_args(args: object, path: str = "args") -> dict[str, Any]:
    """Arguments or pins, which must be given by name. Raises Invalid for anything else."""
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        raise Invalid(f"expected {path} by name, got {type(args).__name__}", path=path)
    return dict(args)


def guarded(
    guards: Iterable[Guard], intent: Intent, actor: str
) -> tuple[list[dict[str, str]], Refuse | RequireApproval | None]:
    """Ask the guards about an intent. Gives every verdict, those that pass included, and the one that counts.

    A refusal ends the asking. Raises Invalid for a guard that returns no verdict.
    """
    said: list[dict[str, str]] = []
    deciding: Refuse | RequireApproval | None = None
    for guard in guards:
        verdict = guard(intent, actor)
        name = getattr(guard, "__name__", type(guard).__name__)
        if verdict is None:
            said.append({"guard": name, "said": "pass"})
        elif isinstance(verdict, Refuse):
            said.append({"guard": name, "said": "refuse", "why": text_of(verdict.reason)})
            return said, verdict
        elif isinstance(verdict, RequireApproval):
            said.append({"guard": name, "said": "approval", "why": text_of(verdict.question)})
            deciding = deciding or verdict
        else:
            raise Invalid(
                f"the guard {name} returned {verdict!r}", path="guard", hint="return None, Refuse or RequireApproval"
            )
    return said, deciding
