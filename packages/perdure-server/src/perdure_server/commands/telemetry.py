"""`perdure telemetry`: spans of a store from its feed, by a process of their own, so that workers pay nothing for them."""

from __future__ import annotations

import os
import signal
import threading

import click

from perdure.cli.options import StoreOptions, command, writes
from perdure.cli.output import counted, note, say_json
from perdure.errors import Unavailable

PRIORITY = 10  # it is never urgent: those who work come first


@command(
    "telemetry",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 perdure telemetry",
    "perdure telemetry --from-start --once",
    "perdure telemetry --end",
)
@click.option(
    "--from-start", is_flag=True, help="Everything from the beginning, when it is started for the first time."
)
@click.option("--once", is_flag=True, help="Stop at the end of the feed instead of waiting for more.")
@click.option("--content", is_flag=True, help="Also export arguments and results of tools.")
@click.option("--end", is_flag=True, help="Forget the position: workers make spans themselves again.")
@writes
def telemetry(options: StoreOptions, *, from_start: bool, once: bool, content: bool, end: bool) -> None:
    """Export spans of runs and sessions to OpenTelemetry, by following the feed of the store. Ctrl-C or SIGTERM ends it.

    OTEL_EXPORTER_OTLP_ENDPOINT names the collector. The command continues where it stopped. Within ten seconds after its first
    start, workers and servers of this tenant stop making spans themselves.
    """
    if end:
        _end(options)
        return
    from perdure_server.telemetry import collector  # noqa: PLC0415 - help must not load this

    provider, exporter = collector.environment("perdure")
    from perdure.runtime.callers import caller_of  # noqa: PLC0415 - help must not load this
    from perdure_server.telemetry.feed_follower import Follower  # noqa: PLC0415 - an extra, loaded where it is used

    os.nice(PRIORITY)
    with options.open() as store:
        follower = Follower(caller_of(store), provider, exporter, content=content)
        follower.begin("beginning" if from_start else "end")
        well = follower.follow(_stop_signal(), once=once)
        exporter.shutdown()
    if options.as_json:
        say_json({"told": follower.told})
    else:
        note(f"told {counted(follower.told, 'span')}")
    if not well:
        hint = "nothing is lost: start it again when the collector is there"
        raise Unavailable("the collector accepted no spans", path="telemetry", hint=hint)


def _end(options: StoreOptions) -> None:
    from perdure.planes.audit import subscriptions  # noqa: PLC0415 - help must not load this
    from perdure.runtime.callers import caller_of  # noqa: PLC0415 - help must not load this

    with options.open() as store:
        caller_of(store).write(subscriptions.unsubscribe, subscriptions.TELEMETRY)
    note("workers tell their spans themselves again")


def _stop_signal() -> threading.Event:
    """Set by SIGTERM and Ctrl-C: what is being exported comes to its end first."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
