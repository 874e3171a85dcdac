"""The feed, actors, subjects and verifying: the routes that answer their verbs."""

from __future__ import annotations

from typing import Any

from perdure.model.records.actors import ActorRecord
from perdure.model.records.emitted import EventRecord
from perdure.model.records.integrity import Report
from perdure.model.records.subjects import SubjectRecord
from perdure.planes import actors, subjects
from perdure.planes.audit import feed, verify
from perdure.planes.reading.paging import Page
from perdure.remote.asking import Asking, RemoteRequest, address, answers, get
from perdure.remote.elsewhere import elsewhere


@answers(feed.read)
def read(after: str | None = None, limit: int = 100) -> RemoteRequest:
    return get(address("feed"), Page[EventRecord], after=after, limit=limit)


@answers(feed.end)
def end() -> Asking:
    return (yield get(address("feed"), Page[EventRecord], after="end", limit=1)).next


@answers(actors.listed)
def list_actors() -> RemoteRequest:
    return get(address("actors"), list[ActorRecord])


@answers(subjects.listed)
def list_subjects(**asked: Any) -> RemoteRequest:
    return get(address("subjects"), Page[SubjectRecord], **asked)


@answers(verify.verify_store)
def verify_tenant(
    _core: Any, *, anchor: Any = None, public_key: Any = None, progress: Any = None, blobs: bool = True
) -> RemoteRequest:
    if anchor is not None or public_key is not None or progress is not None:
        raise elsewhere("anchor_store")
    return get(address("verify"), Report, blobs=blobs)
