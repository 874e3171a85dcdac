"""A tool call of LangGraph on its way through the ledger. Callers: `ledger`, `asking`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from langgraph.errors import GraphBubbleUp

from perdure.model.records.conversation import Call
from perdure_adapters.langgraph.saver import PerdureSaver


class Called(NamedTuple):
    """A tool call, its key, and the checkpoints that its task began from, which it waits for. paused: by the tool itself."""

    call: Call
    declared: Any
    thread: str
    key: str
    saver: PerdureSaver
    checkpoints: Mapping[str, str]
    seconds: float
    paused: list[GraphBubbleUp]
