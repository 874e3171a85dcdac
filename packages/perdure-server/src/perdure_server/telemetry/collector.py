"""Exporting from programs of the command line: a worker, server or follower whose environment names a collector.

The variables are OpenTelemetry's own (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, `OTEL_SERVICE_NAME`,
`OTEL_TRACES_SAMPLER`). An application that is not ours sets up its own provider, and `perdure.open` finds it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from perdure.errors import Refused

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
CHOICE = "OTEL_TRACES_EXPORTER"  # otlp (where an endpoint is named), console or none
DISABLED = "OTEL_SDK_DISABLED"


def exporter_choice() -> str | None:
    """The exporter that the environment asks for: `otlp`, `console`, or None."""
    chosen = os.environ.get(CHOICE, "").strip().lower()
    if os.environ.get(DISABLED, "").strip().lower() == "true" or chosen == "none":
        return None
    if chosen in ("otlp", "console"):
        return chosen
    if chosen:
        raise Refused(f"{CHOICE} is {chosen!r}", path=CHOICE, hint="otlp, console or none")
    return "otlp" if any(os.environ.get(name) for name in ENDPOINTS) else None


def begin(service: str) -> bool:
    """Set OpenTelemetry up for this process, if its environment asks for that and nobody has; whether it was.

    service: the name of the service, unless OTEL_SERVICE_NAME says another. Raises Refused where the extra is not installed.
    """
    if exporter_choice() is None:
        return False
    provider, exporter = environment(service)
    from opentelemetry import trace  # noqa: PLC0415 - an extra, loaded where it is used
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return False  # `opentelemetry-instrument`, or the module of the agents, came first
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return True


def environment(service: str) -> tuple[TracerProvider, SpanExporter]:
    """A provider (its resource and sampler) and an exporter as the environment asks for them. Refused when it asks for none."""
    exporter = exporter_choice()
    if exporter is None:
        hint = f"set {ENDPOINTS[1]}=http://collector:4318, or {CHOICE}=console"
        raise Refused("the environment names no collector", path=ENDPOINTS[1], hint=hint)
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra, loaded where it is used
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

        about = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or service}
        return TracerProvider(resource=Resource.create(about)), _exporter(exporter)
    except ImportError:
        hint = f"pip install 'perdure[telemetry]', or unset {CHOICE} and {ENDPOINTS[1]}"
        raise Refused("the environment asks for traces, and telemetry needs an extra", path=CHOICE, hint=hint) from None


def _exporter(name: str) -> SpanExporter:
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        return OTLPSpanExporter()
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415

    return ConsoleSpanExporter(out=sys.stderr)
