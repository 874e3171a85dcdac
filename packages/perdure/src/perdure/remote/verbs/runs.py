"""Runs, their waits, and questions to people: the routes that answer their verbs."""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.effects import adopting, ending, envelope, operator_verbs, timeline, what_if
from perdure.errors import NotFound
from perdure.log.change import Stream
from perdure.model.filters import AskFilters, RunFilters
from perdure.model.limits import check_name
from perdure.model.records.differences import RunDiff
from perdure.model.records.effects import EffectRecord
from perdure.model.records.envelope import Envelope
from perdure.model.records.runs import RunRecord, WaitRecord
from perdure.planes import subjects
from perdure.planes.execution import runs, waits
from perdure.planes.reading.paging import Page
from perdure.planes.reading.sides import OtherSide
from perdure.remote.asking import (
    AlreadyKnown,
    Asking,
    RouteRequest,
    address,
    answers,
    filters,
    get,
    keyed,
    path_of,
    plain,
    post,
    span,
)
from perdure.remote.elsewhere import elsewhere
from perdure.remote.verbs.conversation import stream_of
from perdure.runtime import untaken


def _of(record: RunRecord) -> Stream:
    return stream_of("run", record.id, record.ref.uid)


# -- runs ------------------------------------------------------------------------------------------------------------


@answers(runs.start)
def start(wanted: runs.RunRequest, _epoch: int) -> Asking:
    asked = post(
        address("runs"), RunRecord, agent=wanted.agent, args=plain(wanted.args, "args"), kwargs=plain(wanted.kwargs, "kwargs"),
        session=wanted.session, timeout=span(wanted.timeout, "timeout"), about=wanted.about, pins=wanted.pins or None,
        on_change=wanted.on_change,
    )  # fmt: skip
    begun = yield keyed(asked, wanted.key)
    return _of(begun), begun


@answers(runs.find)
def find(name: str) -> Asking:
    return _of((yield get(address("runs", check_name(name, "run")), RunRecord)))


@answers(runs.find_by_key)
def find_by_key(agent: str, key: str) -> Asking:
    found = yield get(address("runs"), Page[RunRecord], agent=agent, key=check_name(key, "key"))
    if not found:
        raise NotFound(f"no run of {agent!r} has the key {key!r}", path="key")
    return _of(found[0])


@answers(runs.run)
def run(stream: Stream) -> RouteRequest:
    return get(path_of(stream), RunRecord)


@answers(runs.runs_of_store)
def runs_of_store(asked: RunFilters) -> Asking:
    found = yield get(address("runs"), Page[RunRecord], **filters(asked))
    return found.each(lambda each: (_of(each), each))


@answers(waits.waiting)
def waiting(stream: Stream) -> RouteRequest:
    return get(path_of(stream, "waits"), list[WaitRecord])


@answers(untaken.waiting_for)
def waiting_for(stream: Stream, record: RunRecord) -> Asking:
    unsettled = yield get(path_of(stream, "effects"), list[EffectRecord], after=record.cut_seq, open=True)
    return untaken.waiting_on(record, (yield waiting(stream)), unsettled)


@answers(ending.cancel)
def cancel(stream: Stream, why: str, _epoch: int) -> RouteRequest:
    return post(path_of(stream, "cancel"), RunRecord, why=why)


@answers(operator_verbs.resume)
def resume(stream: Stream, vouched: int | None) -> RouteRequest:
    return post(path_of(stream, "resume"), RunRecord, vouch=vouched is not None)


@answers(envelope.envelope)
def get_envelope(stream: Stream, _witness: Any) -> Asking:
    return Envelope.from_json((yield RouteRequest("GET", path_of(stream, "envelope"), bytes)))


# -- questions -------------------------------------------------------------------------------------------------------


@answers(waits.asks)
def asks(asked: AskFilters) -> RouteRequest:
    return get(address("asks"), Page[WaitRecord], **filters(asked) | {"state": asked.state or "all"})


class RemoteSupposition(NamedTuple):
    """A fork of a run, which the server makes."""

    stream: Stream
    at: int | str
    replace: Any
    acts: bool


@answers(envelope.holders)
def holders(_stream: Stream) -> AlreadyKnown:
    """Nobody: the server proves deaths itself."""
    return AlreadyKnown(())


@answers(what_if.supposed)
def supposed(stream: Stream, at: int | str, replace: Any, _witness: Any, *, acts: bool) -> AlreadyKnown:
    made: Any = RemoteSupposition(stream, at, plain(replace, "replace"), acts)
    luggage: Any = None  # the server packs it
    return AlreadyKnown(what_if.Supposed(made, luggage))


@answers(adopting.adopt)
def adopt(made: Any, _luggage: Any, _epoch: int) -> Asking:
    if not isinstance(made, RemoteSupposition):
        raise elsewhere("hand_over")
    told = {"at": made.at, "replace": made.replace, "allow_effects": made.acts}
    found = yield post(path_of(made.stream, "forks"), RunRecord, **told)
    return _of(found)


@answers(timeline.between)
def between(stream: Stream, other: OtherSide) -> RouteRequest:
    return get(path_of(stream, "diff"), RunDiff, other=other.stream.name, other_at=other.core.moment)


@answers(operator_verbs.locate)
def locate(name: str, path: str) -> Asking:
    """The stream of an ask or effect: its name is enough, and what asks for it next finds out whether it is there."""
    kind, of, number = operator_verbs.split_name(name, path)
    found = yield get(address(f"{path}s", name), WaitRecord if path == "ask" else Any)
    uid = found.ref.uid if path == "ask" else found["ref"][0]
    return stream_of(kind, of, uid), number


@answers(waits.wait)
def wait(stream: Stream, seq: int) -> RouteRequest:
    return get(address("asks", f"{stream.kind}:{stream.name}/{seq}"), WaitRecord)


@answers(waits.answer)
def answer(stream: Stream, seq: int, value: Any, by: str, about: Any = ()) -> RouteRequest:
    path = address("asks", f"{stream.kind}:{stream.name}/{seq}", "answer")
    return post(path, WaitRecord, value=plain(value, "value"), about=subjects.named(about))._replace(by=by)
