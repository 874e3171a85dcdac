"""Tasks and decisions: the routes that answer their verbs."""

from __future__ import annotations

from typing import Any

from perdure.errors import Invalid
from perdure.log.change import Stream
from perdure.model.filters import DecisionFilters, SessionTaskFilters, TaskFilters
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.model.records.tasks import TaskRecord
from perdure.planes import subjects
from perdure.planes.execution import decisions, task_needs, tasks
from perdure.planes.reading.origins import to_ref
from perdure.planes.reading.paging import Page
from perdure.remote.asking import (
    Asking,
    RouteRequest,
    address,
    answers,
    filters,
    get,
    no_checks,
    number,
    patch,
    path_of,
    plain,
    post,
    several,
    span,
)
from perdure.remote.verbs.conversation import stream_of

# -- tasks -----------------------------------------------------------------------------------------------------------


@answers(tasks.add)
def add(
    stream: Stream, title: str, *, needs: Any = (), parent: Any = None, priority: int = 0, labels: Any = (), detail: Any = None,
    key: str | None = None, checks: Any = (), about: Any = (),
) -> RouteRequest:  # fmt: skip
    no_checks(checks)
    wanted = [_other(stream, each, f"needs[{i}]") for i, each in enumerate(several(needs, "needs"))]
    return post(
        path_of(stream, "tasks"), TaskRecord, title=title, needs=wanted, parent=_other(stream, parent, "parent"),
        priority=priority, labels=several(labels, "labels"), detail=plain(detail, "detail"), key=key,
        about=subjects.named(about),
    )  # fmt: skip


def _other(stream: Stream, task: object, path: str) -> Any:
    """The number of another task, which must be of this session."""
    ref = getattr(task, "ref", None)
    if ref is not None and ref.uid != stream.uid.hex():
        raise Invalid("a task of another session cannot be waited for or worked under", path=path)
    return number(task, path)


def _lasts(ttl: Any) -> str | None:
    """The time of a claim. Over a network nobody can prove that its holder has died, so it must have one."""
    if ttl is None:
        raise Invalid("a claim over the network needs a time", path="ttl", hint='claim(ttl="10m")')
    return span(ttl, "ttl")


@answers(tasks.claim)
def claim(stream: Stream, seq: int, *, holder: str, ttl: Any = None) -> RouteRequest:  # noqa: ARG001 - the server's
    return post(path_of(stream, "claims"), TaskRecord, task=seq, ttl=_lasts(ttl))


@answers(tasks.claim_next)
def claim_next(stream: Stream, *, holder: str, ttl: Any = None, label: Any = None) -> RouteRequest:  # noqa: ARG001 - as above
    return post(path_of(stream, "claims"), TaskRecord | None, label=label, ttl=_lasts(ttl))


@answers(tasks.move)
def move(stream: Stream, seq: int, verb: str, *, note: Any = None, token: Any = None, about: Any = ()) -> RouteRequest:
    told = {"move": verb, "note": note, "token": token, "about": subjects.named(about)}
    return post(path_of(stream, "tasks", seq, "moves"), TaskRecord, **told)


@answers(tasks.edit)
def edit(
    stream: Stream, seq: int, *, title: Any = None, priority: Any = None, labels: Any = None, detail: Any = ...,
    token: Any = None, about: Any = (),
) -> RouteRequest:  # fmt: skip
    given = {"title": title, "priority": priority, "labels": None if labels is None else several(labels, "labels")}
    told = {name: value for name, value in given.items() if value is not None}
    if detail is not ...:
        told["detail"] = plain(detail, "detail")
    return patch(path_of(stream, "tasks", seq), TaskRecord, **told, token=token, about=subjects.named(about))


@answers(task_needs.need)
def need(stream: Stream, seq: int, other: Any, *, token: Any = None) -> RouteRequest:
    return patch(path_of(stream, "tasks", seq), TaskRecord, need=_other(stream, other, "need"), token=token)


@answers(task_needs.unneed)
def unneed(stream: Stream, seq: int, other: Any, *, token: Any = None) -> RouteRequest:
    return patch(path_of(stream, "tasks", seq), TaskRecord, unneed=_other(stream, other, "need"), token=token)


@answers(task_needs.put_under)
def put_under(stream: Stream, seq: int, parent: Any, *, token: Any = None) -> RouteRequest:
    return patch(path_of(stream, "tasks", seq), TaskRecord, parent=_other(stream, parent, "parent"), token=token)


@answers(tasks.tasks)
def list_tasks(stream: Stream, asked: SessionTaskFilters) -> RouteRequest:
    under = {"parent": number(asked.parent, "parent")}
    return get(path_of(stream, "tasks"), Page[TaskRecord], **filters(asked) | under)


@answers(tasks.ready)
def ready(stream: Stream, **asked: Any) -> RouteRequest:
    return get(path_of(stream, "tasks"), Page[TaskRecord], ready=True, **asked)


@answers(tasks.tasks_of_store)
def tasks_of_store(asked: TaskFilters) -> Asking:
    found = yield get(address("tasks"), Page[TaskRecord], **filters(asked))
    return found.each(lambda each: (stream_of("session", each.session, each.ref.uid), each))


# -- decisions -------------------------------------------------------------------------------------------------------


@answers(decisions.decisions_of_store)
def decisions_of_store(asked: DecisionFilters) -> Asking:
    found = yield get(address("decisions"), Page[DecisionRecord], **filters(asked))
    return found.each(lambda each: (stream_of("session", each.session, each.ref.uid), each))


@answers(decisions.referring)
def referring(stream: Stream, thing: object, **asked: Any) -> RouteRequest:
    found = to_ref(thing)
    return get(path_of(stream, "referring"), Page[Reference], uid=found.uid, seq=found.seq, **asked)
