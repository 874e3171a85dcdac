"""The bytes of artifacts, in and out: whole or a range of them, verified against their address. Callers: `table`, by import."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.responses import Response, StreamingResponse

from perdure.errors import NotFound
from perdure.handles.aio.artifacts import AsyncArtifact
from perdure.handles.aio.requests import AsyncRequests
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.model.records.artifacts import ArtifactRecord
from perdure.planes.conversation import artifacts
from perdure.planes.execution.requests import KeyedRequest, differing
from perdure.runtime.callers import stream_of
from perdure.verbs.declaring import Right
from perdure_server.http.call import HttpCall
from perdure_server.http.queries import AttachQuery
from perdure_server.http.table import route
from perdure_server.http.wire import encoded

UPLOAD_MAX_BYTES = 64 * 1024 * 1024
BYTES = "application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?", re.ASCII)


@route("GET", "/v1/artifacts/{hash}/content", Right.READ, bytes, media_type=BYTES)
async def get_content(call: HttpCall) -> Any:
    """The bytes of an artifact; with `Range: bytes=…` a part of them (206)."""
    found = await call.store.artifact(call.parts["hash"])
    headers = {
        "ETag": f'"{found.hash}"', "Accept-Ranges": "bytes", "Content-Digest": _digest(found.hash),
        "Content-Disposition": "attachment", "Content-Security-Policy": "sandbox", "Cache-Control": "private",
    }  # fmt: skip
    if call.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers={"ETag": headers["ETag"]})
    asked = call.headers.get("range")
    part = _part(asked, found.size) if asked else None
    if asked and part is None:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{found.size}"})
    first, last = part or (0, found.size - 1)
    headers["Content-Length"] = str(last - first + 1)
    if part:
        headers["Content-Range"] = f"bytes {first}-{last}/{found.size}"
    return StreamingResponse(_pieces(found, first, last), 206 if part else 200, headers, media_type=BYTES)


async def _pieces(found: AsyncArtifact, first: int, last: int) -> AsyncIterator[bytes]:
    at = 0
    async for piece in found.open():
        wanted = piece[max(0, first - at) : max(0, last + 1 - at)]
        if wanted:
            yield wanted
        at += len(piece)
        if at > last:
            return


def _part(asked: str, size: int) -> tuple[int, int] | None:
    """The first and last byte that a Range names; None if there are none."""
    form = _RANGE.fullmatch(asked.strip())
    if form is None or (form[1] is None and form[2] is None):
        return None
    if form[1] is None:
        first, last = max(0, size - int(form[2])), size - 1
    else:
        first, last = int(form[1]), min(size - 1, int(form[2]) if form[2] is not None else size - 1)
    return (first, last) if first <= last else None


def _digest(address: str) -> str:
    return f"sha-256=:{b64encode(bytes.fromhex(address)).decode()}:"


@route("PUT", "/v1/sessions/{session}/artifacts/{name}", Right.WRITE, ArtifactRecord, takes=BYTES, takes_key=True)
async def put_artifact(call: HttpCall, query: AttachQuery) -> Any:
    """Keep a file; its media type is the Content-Type. Without a key, the same bytes again are the version that stands."""
    session, name = await call.session(), call.parts["name"]
    data = await call.read(UPLOAD_MAX_BYTES)
    kind = query.media_type or call.headers.get("content-type", BYTES).partition(";")[0].strip() or BYTES
    if call.key is not None:
        return await _put_once(call, session, artifacts.describe(name, data, kind, query.about or ()), data)
    with suppress(NotFound):
        newest = await session.artifact(name)
        if newest.hash == hashlib.sha256(data).hexdigest() and newest.media_type == kind:
            return newest.record
    return (await session.attach(name, data, media_type=kind, about=query.about or ())).record


async def _put_once(call: HttpCall, session: AsyncSession, details: artifacts.Details, data: bytes) -> Any:
    """Keep a version, once for its key. The content is stored first, as `session.attach` does it, and is spared meanwhile."""
    caller, core = call.caller, call.caller.core
    address = await caller.work(artifacts.address_ahead, core.blobs, data)
    if address is not None:
        await caller.write(artifacts.pin, address, core.holder)
    row = await caller.work(artifacts.take_in, core.blobs, caller.tenant, data)

    def attach(tx: Atomic) -> Any:
        return encoded(tx.inside(artifacts.attach, stream_of(session), details, row, core.holder))

    said, content = {"verb": "put_artifact", "path": dict(call.parts)}, hashlib.sha256(data).hexdigest()
    given = differing({"content": content, **details._asdict()}, {"about": ()})
    asked = KeyedRequest({**said, "body": given}, {**said, "body": [content, *details]})
    return await AsyncRequests(caller, stream_of(session)).once(call.key or "", attach, asked=asked)
