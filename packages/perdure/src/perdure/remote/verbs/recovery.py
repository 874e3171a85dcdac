"""Checkpoints, the past, forks: the routes that answer their verbs."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from perdure.errors import NotFound
from perdure.log.change import Stream
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.records.differences import SessionDiff
from perdure.planes import subjects
from perdure.planes.audit import diff, history
from perdure.planes.reading.sides import OtherSide
from perdure.planes.recovery import checkpoints, keyed
from perdure.remote.asking import AlreadyKnown, Asking, RouteRequest, answers, get, instant, path_of, plain, post
from perdure.remote.verbs.conversation import SessionFound, stream_of

# -- checkpoints -----------------------------------------------------------------------------------------------------


@answers(checkpoints.prepare)
def prepare(_stream: Stream, frozen: bytes, _name: str = "default") -> AlreadyKnown:
    return AlreadyKnown(msgspec.msgpack.decode(frozen))


@answers(checkpoints.save)
def save(stream: Stream, state: Any, name: str = "default", *, about: Any = ()) -> RouteRequest:
    return post(path_of(stream, "checkpoints"), CheckpointRecord, state=state, name=name, about=subjects.named(about))


@answers(keyed.save_prepared)
def save_keyed(
    stream: Stream, state: Any, name: str, key: str, parent: Any, document: Any, about: Any = ()
) -> RouteRequest:
    told = {"state": state, "name": name, "key": key, "parent": parent, "document": plain(document, "document")}
    return post(path_of(stream, "checkpoints"), CheckpointRecord, **told, about=subjects.named(about))


@answers(checkpoints.restore)
def restore(stream: Stream, seq: int | None = None, *, name: str = "default", default: Any = None) -> Asking:
    if seq is not None:
        return (yield get(path_of(stream, "checkpoints", seq, "state"), Any))
    return (yield from _state(stream, default, name=name))


@answers(keyed.restore)
def restore_keyed(stream: Stream, name: str, key: str, default: Any = None) -> Asking:
    return _state(stream, default, name=name, key=key)


def _state(stream: Stream, default: Any, **asked: Any) -> Asking:
    try:
        return (yield get(path_of(stream, "state"), Any, **asked))
    except NotFound as error:
        if error.path not in asked:
            raise
        return default


# -- the past --------------------------------------------------------------------------------------------------------


@answers(history.view)
def view(stream: Stream, moment: Any, core: Any) -> Asking:
    """A store that shows the past: every read names the moment. Whether there was anything then is found out now."""
    then = str(instant(moment, "at"))
    yield get(path_of(stream), Any, at=then)
    return history.PastView(core=core.past(then), tenant=0, stream=stream, pin="")


@answers(diff.between)
def between(stream: Stream, other: OtherSide) -> RouteRequest:
    return get(path_of(stream, "diff"), SessionDiff, other=other.stream.name, other_at=other.core.moment)


@answers(history.seq_of)
def seq_of(stream: Stream, moment: Any) -> Asking:
    return (yield get(path_of(stream), SessionFound, at=instant(moment, "at"))).last_seq


class RemoteForkPlan(NamedTuple):
    """Where a fork begins, which the server finds out."""

    stream: Stream
    at: Any


@answers(history.plan_fork)
def plan_fork(stream: Stream, moment: Any) -> AlreadyKnown:
    return AlreadyKnown(RemoteForkPlan(stream, moment if type(moment) is int else instant(moment, "at")))


@answers(history.fork)
def fork(plan: RemoteForkPlan, name: str) -> Asking:
    made = yield post(path_of(plan.stream, "forks"), SessionFound, name=name, at=plan.at)
    return stream_of("session", made.name, made.uid), made.pins.digest if made.pins else ""
