"""Effects, to look at and to settle: the routes that answer their verbs."""

from __future__ import annotations

from typing import Any

from perdure.effects import commits, ledger, operator_verbs, orphaned
from perdure.effects.commits import Dispatcher, Precondition
from perdure.effects.ledger import Intent, Outcome
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.records.effects import Absent, EffectRecord, Happened, Rule, Verdict
from perdure.planes.reading.paging import Page
from perdure.remote.asking import Asking, RouteRequest, address, answers, filters, get, keyed, path_of, plain, post
from perdure.remote.elsewhere import elsewhere
from perdure.remote.verbs.conversation import stream_of


class EffectFound(EffectRecord, frozen=True, kw_only=True):
    """An effect. left: its sender is gone, and nobody has recorded the doubt yet."""

    left: bool = False


def _named(stream: Stream, seq: int, *parts: str) -> str:
    return address("effects", f"{stream.kind}:{stream.name}/{seq}", *parts)


@answers(ledger.effect)
def effect(stream: Stream, seq: int) -> RouteRequest:
    return get(_named(stream, seq), EffectRecord)


@answers(ledger.effects)
def effects(stream: Stream, *, open_only: bool = False, **asked: Any) -> RouteRequest:
    return get(path_of(stream, "effects"), Page[EffectRecord], open=open_only, **asked)


@answers(ledger.all_effects)
def all_effects(stream: Stream, *, after: int = 0, open_only: bool = False) -> RouteRequest:
    return get(path_of(stream, "effects"), list[EffectRecord], after=after, open=open_only)


@answers(orphaned.effects_of_store)
def effects_of_store(_here: Any, asked: EffectFilters) -> Asking:
    found = yield get(address("effects"), Page[EffectRecord], **filters(asked))
    return found.each(lambda each: (stream_of(each.stream_kind, each.stream, each.ref.uid), each))


@answers(orphaned.is_left)
def is_left(record: EffectRecord, _here: Any) -> Asking:
    return (yield get(address("effects", record.id), EffectFound)).left


# -- effects that the client carries out itself ------------------------------------------------------------------------------


@answers(commits.plan_with_precondition)
def plan(stream: Stream, intent: Intent, _epoch: int, precondition: Precondition, within: Any = None) -> RouteRequest:
    """Plan an effect; the guards of the server are asked there. Refused for what a declared tool says about itself."""
    if precondition is not None or within is not None or intent.rule != Rule() or intent.notes:
        raise elsewhere("plan_declared")
    told = {"tool": intent.tool, "args": plain(intent.args, "args"), "kind": intent.kind.value, "call": intent.call}
    return keyed(post(path_of(stream, "effects"), EffectRecord, **told, about=intent.about), intent.key)


@answers(commits.dispatch_by_user)
def dispatch(stream: Stream, seq: int, _dispatcher: Dispatcher) -> RouteRequest:
    return post(_named(stream, seq, "dispatch"), EffectRecord)


@answers(commits.end_with_checkpoint)
def end_with_checkpoint(stream: Stream, known: EffectRecord, outcome: Outcome, prepared: Any = None) -> RouteRequest:
    if prepared is not None:
        raise elsewhere("run_atomic")
    told: dict[str, Any] = {"attempt": known.attempt, "about": outcome.about}
    if outcome.error is not None:
        told |= {"outcome": "failed", "error": outcome.error.message, "code": outcome.error.code}
    else:
        told |= {"outcome": "happened", "result": plain(outcome.result, "result")}
    return post(_named(stream, known.seq, "outcome"), EffectRecord, **told)


@answers(operator_verbs.settle)
def settle(
    stream: Stream, seq: int, verdict: Verdict, by: str, about: Any = (), *, force: bool = False
) -> RouteRequest:
    word = "happened" if isinstance(verdict, Happened) else "absent" if isinstance(verdict, Absent) else "declined"
    result = plain(verdict.result, "result") if isinstance(verdict, Happened) else None
    told = {"verdict": word, "result": result, "reason": getattr(verdict, "reason", ""), "force": force}
    return post(_named(stream, seq, "settle"), EffectRecord, **told, about=about)._replace(by=by)
