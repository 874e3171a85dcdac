"""Looking at runs, effects, questions, workers, memories, the log and the store itself: one route a verb."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.effects import ledger, operator_verbs
from perdure.errors import Invalid, NotFound
from perdure.handles.aio.memory import AsyncHit
from perdure.model.filters import EffectFilters, SearchFilters
from perdure.model.records.differences import RunDiff
from perdure.model.records.integrity import Report
from perdure.model.records.memories import Found
from perdure.model.records.runs import WaitRecord
from perdure.model.records.workers import WorkersRecord
from perdure.planes.audit import verify as auditing
from perdure.planes.execution import waits, workers
from perdure.planes.memory.search import Results
from perdure.planes.reading.durations import pauses
from perdure.planes.reading.paging import Page
from perdure.stores.url import parse, without_password
from perdure.upkeep import health, load
from perdure.upkeep.health import Health
from perdure.upkeep.remedies import Remedy
from perdure.verbs.declaring import Right
from perdure.version import VERSION
from perdure_server.http.answers import (
    AskAnswer,
    EffectAnswer,
    EventAnswer,
    HealthAnswer,
    Paged,
    RunAnswer,
    WhoAnswer,
    ask_answer,
    effect_answer,
    event_answer,
    run_answer,
)
from perdure_server.http.call import HttpCall, moment
from perdure_server.http.places import url_of
from perdure_server.http.queries import (
    AsksQuery,
    BootQuery,
    DiffQuery,
    FeedQuery,
    PastQuery,
    RecallQuery,
    ResultQuery,
    RunEffectsQuery,
    RunsQuery,
    SearchQuery,
    SessionEffectsQuery,
    VerifyQuery,
)
from perdure_server.http.table import RIGHTS, route

# -- runs --------------------------------------------------------------------------------------------------------


@route("GET", "/v1/runs", Right.READ, Paged[RunAnswer])
async def list_runs(call: HttpCall, query: RunsQuery) -> Any:
    """Runs, newest first."""
    asked = call.asked(query)
    if asked.pop("key") is not None:
        return call.paged(await _run_of_key(call, query))
    found = await call.store.runs(**asked)
    return call.paged(found.each(lambda each: run_answer(each.record)))


async def _run_of_key(call: HttpCall, query: RunsQuery) -> Page[RunAnswer]:
    if query.agent is None:
        raise Invalid("a key belongs to an agent: give agent= too", path="query.agent")
    try:
        return Page([run_answer((await call.store.run(agent=query.agent, key=query.key)).record)])
    except NotFound:
        return Page()


@route("GET", "/v1/runs/{run}", Right.READ, RunAnswer)
async def get_run(call: HttpCall, query: PastQuery) -> Any:
    """A run; at a moment of the past if one is given."""
    return run_answer((await call.run(query.at)).record)


@route("GET", "/v1/runs/{run}/result", Right.READ, RunAnswer)
async def get_run_result(call: HttpCall, query: ResultQuery) -> Any:
    """A run once it is over or parked, waiting for that if need be; 204 if that did not come in time."""
    run = await call.run()
    for pause in pauses(query.wait or None):
        if run.record.ended or run.status == "parked":
            break
        await call.caller.pause(pause)
        await run.refresh()
    return run_answer(run.record) if run.record.ended or run.status == "parked" else None


@route("GET", "/v1/runs/{run}/effects", Right.READ, list[EffectAnswer])
async def list_run_effects(call: HttpCall, query: RunEffectsQuery) -> Any:
    """The effects of a run, oldest first; as they stood at a moment if one is given."""
    run = await call.run(query.at)
    found = await run._read(ledger.all_effects, after=query.after, open_only=query.open)
    return [effect_answer(each) for each in found]


@route("GET", "/v1/runs/{run}/envelope", Right.READ, dict[str, Any])
async def get_envelope(call: HttpCall) -> Any:
    """The least state that is needed to continue a run safely, and a verdict."""
    return msgspec.json.decode((await (await call.run()).envelope()).to_json())


@route("GET", "/v1/runs/{run}/diff", Right.READ, RunDiff)
async def diff_runs(call: HttpCall, query: DiffQuery) -> Any:
    """The difference from a point of a run to another point, or to another run."""
    if query.other is None and query.at is None and query.other_at is None:
        raise Invalid("name a moment (`at`), another run (`other`), or both", path="query")
    other = await (call.run() if query.other is None else call.store.run(query.other))
    if query.other_at is not None:
        other = await other.at(moment(query.other_at))
    return await (await call.run(query.at)).diff(other)


# -- effects and questions -----------------------------------------------------------------------------------------


@route("GET", "/v1/effects", Right.READ, Paged[EffectAnswer])
async def list_effects(call: HttpCall, query: EffectFilters) -> Any:
    """The effects of all sessions and runs, newest first; with `in_doubt` the inbox of doubt."""
    found = await call.store.effects(**call.asked(query))
    left = {each.id for each in found if not each.settled and await each.is_left()}
    return call.paged(found.each(lambda each: effect_answer(each.record, left=each.id in left)))


@route("GET", "/v1/effects/{effect}", Right.READ, EffectAnswer)
async def get_effect(call: HttpCall) -> Any:
    """An effect by its id, such as `run:4f1c…/12` (encoded)."""
    found = await call.store.effect(call.parts["effect"])
    return effect_answer(found.record, left=not found.settled and await found.is_left())


@route("GET", "/v1/sessions/{session}/effects", Right.READ, Paged[EffectAnswer])
async def list_session_effects(call: HttpCall, query: SessionEffectsQuery) -> Any:
    """The effects of a session, oldest first."""
    session = await call.session(query.at)
    after = call.after_number(query.after) or 0
    found = await session.effects(open=query.open, about=query.about, after=after, limit=query.limit)
    return call.paged(found.each(lambda each: effect_answer(each.record)))


@route("GET", "/v1/asks", Right.READ, Paged[AskAnswer])
async def list_asks(call: HttpCall, query: AsksQuery) -> Any:
    """Questions to people and approvals, newest first."""
    asked = call.asked(query)
    pausing = pauses(asked.pop("wait") or None)
    found = await call.store.asks(**asked)
    for pause in pausing:
        if found:
            break
        await call.caller.pause(pause)
        found = await call.store.asks(**asked)
    return call.paged(found.each(ask_answer))


@route("GET", "/v1/asks/{ask}", Right.READ, AskAnswer)
async def get_ask(call: HttpCall, query: ResultQuery) -> Any:
    """A question by its id; with `wait`, as soon as it is over, or 204 if that did not come in time."""

    stream, seq = await call.caller.read(operator_verbs.locate, call.parts["ask"], "ask")
    found: WaitRecord = await call.caller.read(waits.wait, stream, seq)
    for pause in pauses(query.wait or None):
        if found.state != "open":
            break
        await call.caller.pause(pause)
        found = await call.caller.read(waits.wait, stream, seq)
    return None if query.wait and found.state == "open" else ask_answer(found)


# -- memory and search ---------------------------------------------------------------------------------------------


@route("GET", "/v1/sessions/{session}/recall", Right.READ, list[dict[str, Any]], names_damage=True)
async def recall(call: HttpCall, query: RecallQuery) -> Any:
    """The memories that answer a question best."""
    found = await (await call.session()).recall(query.q, query.k, scopes=query.scopes, **_sought(query))
    return _hits(found)


@route("GET", "/v1/scopes/{scope}/recall", Right.READ, list[dict[str, Any]], names_damage=True)
async def recall_in_scope(call: HttpCall, query: RecallQuery) -> Any:
    """The memories of a scope that answer a question best."""
    return _hits(await (await call.scope()).recall(query.q, query.k, scopes=query.scopes, **_sought(query)))


@route("GET", "/v1/recall", Right.READ, list[dict[str, Any]], names_damage=True)
async def recall_across(call: HttpCall, query: RecallQuery) -> Any:
    """The memories of all sessions and scopes that answer a question best."""
    if query.scopes is not None:
        raise Invalid("this searches all scopes", path="query.scopes", hint="ask a session")
    return _hits(await call.store.recall(query.q, query.k, **_sought(query)))


def _sought(query: RecallQuery) -> dict[str, Any]:
    return {
        "kinds": query.kinds,
        "at": query.at,
        "tags": query.tags or (),
        "about": query.about or (),
        "since": query.since,
    }


def _hits(found: Results[AsyncHit]) -> Results[dict[str, Any]]:
    shown = (
        {"memory": hit.memory.record, "score": hit.score, "why": hit.why, "standing": hit.standing} for hit in found
    )
    return Results(shown, damaged=found.damaged)


@route("GET", "/v1/search", Right.READ, list[Found], names_damage=True)
async def search(call: HttpCall, query: SearchQuery) -> Any:
    """Everything that was said, decided, done and remembered and shares words with a query, best first."""
    asked = {name: getattr(query, name) for name in SearchFilters.__struct_fields__}
    if query.kind is not None:
        asked["kinds"] = [query.kind, *(query.kinds or ())]
    return await call.store.search(query.q, **asked)


@route("GET", "/v1/sessions/{session}/boot", Right.READ, dict[str, Any])
async def boot(call: HttpCall, query: BootQuery) -> Any:
    """The text that a fresh context window needs to continue a session, within a budget of tokens."""
    pack = await (await call.session()).boot(
        budget=query.budget, task=query.task, max_chars=query.max_chars, profile=query.profile
    )
    return {"text": pack.text, "tokens": pack.tokens, "manifest": pack.manifest}


# -- the log -------------------------------------------------------------------------------------------------------


@route("GET", "/v1/feed", Right.READ, Paged[EventAnswer])
async def read_feed(call: HttpCall, query: FeedQuery) -> Any:
    """Every event after a cursor, oldest first; nothing is ever skipped. `next` is always a cursor to continue with."""
    after = await call.store.feed_end() if query.after == "end" else query.after
    page = await call.store.feed(after, query.limit, query.wait or None)
    return {"items": [event_answer(each) for each in page], "next": page.next, "damaged": []}


# -- the store -----------------------------------------------------------------------------------------------------


@route("GET", "/v1/workers", Right.READ, WorkersRecord)
async def get_workers(call: HttpCall) -> Any:
    """The living workers, the runs that each has, and the runs that wait for a worker."""
    return await call.caller.read(workers.tree, call.caller.core.liveness.is_dead)


@route("GET", "/v1/doctor", Right.AUDIT, HealthAnswer)
async def get_health(call: HttpCall) -> Any:
    """The findings of `perdure doctor`, each with the command that mends it: about the store, if it is this tenant's alone; else
    about the tenant.
    """
    url = url_of(call.serving.url, call.identity.token.tenant)
    if await call.caller.read(load.is_alone):
        found = await call.caller.work(health.examine, url)
    else:
        found = Health(url, await call.caller.read(load.of_tenant, Remedy(parse(url))))
    return HealthAnswer(found.sound, bool(found.outgrown), found.findings)


@route("GET", "/v1/verify", Right.AUDIT, Report)
async def verify(call: HttpCall, query: VerifyQuery) -> Any:
    """Prove that nothing of this tenant was changed, lost or written past the log. Costs a fold of every stream."""
    return await call.caller.work(auditing.verify_tenant, call.caller.core, call.caller.tenant, query.blobs)


@route("GET", "/v1/whoami", Right.READ, WhoAnswer)
async def whoami(call: HttpCall) -> Any:
    """The holder of this token, and what it may do."""
    token = call.identity.token
    return WhoAnswer(
        token=token.id, tenant=token.tenant, role=token.role, actor=token.actor, rights=sorted(RIGHTS[token.role]),
        expires_at=token.expires_at, store=without_password(url_of(call.serving.url, token.tenant)),
        epoch=call.caller.core.epoch, version=VERSION,
    )  # fmt: skip
