"""Telemetry as the core sees it: the entry point `telemetry` of the group `perdure.observers`.

OpenTelemetry is an extra and slow to load: it is loaded when it is asked for, or when the process has it already.
"""

from __future__ import annotations

from typing import Any

from perdure.errors import Refused


def observe(core: Any, *, asked: bool, content: bool) -> None:
    """Tell the spans of a store that was opened: if that is asked for, or if the application has set OpenTelemetry up."""
    try:
        from perdure_server.telemetry import traces  # noqa: PLC0415 - see the head
    except ImportError:
        if not asked:
            return
        raise Refused("telemetry needs an extra", path="telemetry", hint="pip install 'perdure[telemetry]'") from None
    if asked or traces.is_configured():
        traces.observe(core, content=content)


def begin(service: str) -> None:
    """Set up an exporter for a process of ours, if its environment asks for one."""
    from perdure_server.telemetry import collector  # noqa: PLC0415 - as above

    collector.begin(service)
