"""Reads of an open store for its spans: what a reader of events did not see itself. Callers: `traces`, `feed_follower`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.errors import Error
from perdure.log.change import Stream
from perdure.log.event import Body
from perdure.planes.execution import leases, runs
from perdure.planes.reading.body_reading import doc_of, inline_body
from perdure.planes.tables import EFFECTS, WAITS
from perdure.stores.core import Core
from perdure_server.telemetry import names
from perdure_server.telemetry.spans import Begun, RunFacts


class StoreReads:
    """Reads of an open store for spans; see `spans.Reading`. A store that was closed since, or is away, knows nothing."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def run(self, stream: Stream) -> RunFacts | None:
        """A run by its row."""
        row = self._read(stream, runs.row_of, stream)
        if row is None:
            return None
        parent = None if row["parent"] is None else self.run_uid(stream, row["parent"])
        return RunFacts(row["agent"], row["session"], parent, row["created_at"])

    def run_uid(self, stream: Stream, name: str) -> bytes | None:
        """The uid of another run of the tenant."""
        run = self._read(stream, runs.find, name)
        return None if run is None else run.uid

    def claim(self, stream: Stream, seq: int) -> tuple[str, int, Body] | None:
        """The claim by which somebody drives a run at an event."""
        row = self._read(stream, leases.claim_at, stream, seq)
        return None if row is None else (row[0], row[1], inline_body(row[2]))

    def begun(self, stream: Stream, table: str, seq: int) -> Begun | None:
        """An effect or a wait by its row."""
        which = EFFECTS if table == "effects" else WAITS
        row = self._read(stream, lambda reader: reader.row(which, stream, seq))
        if row is None:
            return None
        attributes = {names.PLACE: row["place"]}
        if which is WAITS:
            return Begun(row["at"], row["kind"], attributes)
        attributes |= {names.TOOL_NAME: row["tool"], names.EFFECT_KIND: row["kind"], names.TOOL_CALL_ID: row["call"]}
        attributes |= {names.EFFECT_ATTEMPT: row["attempt"]}
        return Begun(row["at"], row["tool"], attributes, doubts=int(row["mishaps"] > 0))

    def document(self, stream: Stream, body: bytes) -> Any:
        """The document of an event that lies in a blob."""
        return self._read(stream, doc_of, body)

    def _read(self, stream: Stream, verb: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._core.read(verb, *args, tenant=stream.tenant)
        except Error:
            return None
