"""`perdure worker` and `perdure workers`: processes that drive runs, and what they are at.

One command, three parts: the supervisor is what people start; it starts this very command again with --child for each worker,
and with another --role for runs whose process died.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import StoreOptions, command, lease_seconds, reads, seconds, writes
from perdure.cli.output import cell, counted, moment, note, say_heading, say_json, say_json_line
from perdure.cli.settings import defaults
from perdure.cli.tables import Column, prose, say_table
from perdure.errors import Error
from perdure.model.display import visible
from perdure.model.limits import KEEP_SECONDS, LEASE_TTL_SECONDS

if TYPE_CHECKING:
    from perdure.model.records.workers import HeldRecord, WorkerRecord, WorkersRecord
    from perdure.runtime.agent import Agent
    from perdure.runtime.supervisor_pipe import SupervisorPipe
    from perdure.runtime.worker import Worker

WATCH_SECONDS = 1.0
LEFT_BEHIND = 75  # exit status of a worker that ends with runs that did not come back


@command(
    "worker",
    "perdure worker app:agents",
    "perdure worker app --processes 4 --concurrency 50",
    "perdure worker app --agent fix --agent review --lease 30s --store postgresql://db/agents",
    "perdure worker app --tenant acme --also-tenant globex --also-tenant initech",
)
@click.argument("target", metavar="MODULE[:AGENTS]")
@click.option("--agent", "only", multiple=True, metavar="NAME", help="Only this agent; may be given several times.")
@click.option(
    "--also-tenant", multiple=True, metavar="NAME",
    help="Also runs of this tenant, in turns: the one with the fewest at work comes first. May be given several times.",
)  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 256), **defaults("worker.processes", 1), help="Worker processes.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    **defaults("worker.concurrency", 10),
    help="Runs at once in each process.",
)
@click.option(
    "--lease", **defaults("worker.lease", f"{LEASE_TTL_SECONDS}s"), metavar="TIME", callback=lease_seconds,
    help="A worker that gave no sign of life for so long has lost its runs; one that died on this machine, at once.",
)  # fmt: skip
@click.option(
    "--poll", **defaults("worker.poll", "1s"), metavar="TIME", callback=seconds,
    help="How often to look even if nothing woke it.",
)  # fmt: skip
@click.option(
    "--grace", **defaults("worker.grace", "5s"), metavar="TIME", callback=seconds,
    help="How long runs may continue after SIGTERM; then they are given back, for other workers to resume.",
)  # fmt: skip
@click.option(
    "--keep", **defaults("worker.keep", f"{KEEP_SECONDS / 60:g}m"), metavar="TIME", callback=seconds,
    help="How long a result is held, and saving it tried again, while the store is away or full.",
)  # fmt: skip
@click.option(
    "--suspects", type=click.IntRange(1, 256), **defaults("worker.suspects", 16), metavar="N",
    help="Most processes for runs whose process died. Such runs share no process with others until they rest.",
)  # fmt: skip
@click.option(
    "--index/--no-index", "indexes", **defaults("worker.index", True),  # noqa: FBT003 - a default
    help="Whether an idle worker indexes what was said, and makes its vectors.",
)  # fmt: skip
@click.option("--child", type=int, hidden=True, help="The lifeline to the supervisor.")
@click.option("--role", default="worker", hidden=True, help="Purpose of this child: worker, standby or suspects.")
@writes
def worker(asked: StoreOptions, **given: Any) -> None:
    """Drive runs of the agents in MODULE: runs that are ready, due, or left by workers that died.

    MODULE is imported from this folder. AGENTS is an agent, or a list or dict of agents, in it; default: all that it declares.
    On SIGTERM or Ctrl-C the worker takes no more runs, lets its runs continue for the time of grace, and gives the rest back. A
    second signal ends it without the grace.
    """
    _log_by_default()
    if given["child"] is None:
        _supervise(asked, given)
    else:
        _be_a_worker(asked, given)


def _log_by_default() -> None:
    """A worker says what it does: at level info unless another was asked for."""
    said = click.get_current_context().find_root().meta
    if not (said.get("log_level") or said.get("log_json")):
        from perdure.runtime import logs  # noqa: PLC0415 - as everywhere here: help must be light

        logs.configure("info")


# -- the supervisor -----------------------------------------------------------------------------------


def _supervise(asked: StoreOptions, given: dict[str, Any]) -> None:
    from perdure.runtime.supervisor import Bounds, Supervisor, WorkerRole  # noqa: PLC0415

    asked.check_exists()
    bounds = Bounds(given["processes"], given["suspects"], grace_seconds=given["grace"])
    words = _words(asked, given)
    _forget_password(asked.store)

    def command_of(number: int, role: WorkerRole) -> list[str]:
        return [sys.executable, "-m", "perdure", *words, "--child", str(number), "--role", role.value]

    supervisor = Supervisor(command_of, bounds, {"store": asked.store})
    status = supervisor.run()
    if supervisor.refusal:
        note(f"perdure: {supervisor.refusal}")  # below the lines of the log, where it is seen
    sys.exit(status)


def _forget_password(store: str) -> None:
    """Children are told the URL by their lifeline. A password in it is neither on their command line nor in their environment,
    which agents and all programs that tools start would inherit.
    """
    from perdure.stores.url import without_password  # noqa: PLC0415

    if without_password(store) == store:
        os.environ["PERDURE_STORE"] = store
    else:
        os.environ.pop("PERDURE_STORE", None)


def _words(asked: StoreOptions, given: dict[str, Any]) -> list[str]:
    """The command line of a child."""
    said = click.get_current_context().find_root().meta
    words = ["worker", given["target"], "--tenant", asked.tenant, "--actor", asked.actor]
    for name in ("concurrency", "lease", "poll", "grace", "keep"):
        words += [f"--{name}", str(given[name]) if name == "concurrency" else f"{max(given[name], 1e-6):f}s"]
    words += ["--index" if given["indexes"] else "--no-index"]
    for name in given["only"]:
        words += ["--agent", name]
    for name in given["also_tenant"]:
        words += ["--also-tenant", name]
    words += ["--log-level", said["log_level"]] if said.get("log_level") else []
    return words + (["--log-json"] if said.get("log_json") else [])


# -- a worker -----------------------------------------------------------------------------------------


def _be_a_worker(asked: StoreOptions, given: dict[str, Any]) -> None:
    from perdure.cli.agents import agents_at  # noqa: PLC0415
    from perdure.model import siblings  # noqa: PLC0415
    from perdure.runtime.supervisor_pipe import SupervisorPipe  # noqa: PLC0415

    line = SupervisorPipe.from_fd(given["child"])
    asked.store = line.first().get("store", asked.store)
    try:
        agents = agents_at(given["target"], given["only"])
    except Error as error:
        line.say(cannot=" ".join(str(error).split()))
        if os.environ.get("PERDURE_DEBUG"):
            raise
        sys.exit(error.exit_code)
    if any(name.startswith("OTEL_") for name in os.environ):  # without a word of it, no other package is looked for
        for observer in siblings.declared(siblings.OBSERVERS).values():
            observer.load().begin("perdure-worker")  # after the agents: a provider of their own comes first
    asyncio.run(_work(asked, given, agents, line))


async def _work(asked: StoreOptions, given: dict[str, Any], agents: dict[str, Agent], line: SupervisorPipe) -> None:
    from perdure.handles.colours import run_for  # noqa: PLC0415
    from perdure.handles.working import callers_of, open_for_worker  # noqa: PLC0415
    from perdure.runtime.worker import Worker, WorkerSettings, threads_at_work  # noqa: PLC0415

    caller = open_for_worker(asked.store, actor=asked.actor, tenant=asked.tenant, lease_seconds=given["lease"],
                             keep_seconds=given["keep"])  # fmt: skip
    role = given["role"]
    settings = WorkerSettings(
        given["concurrency"], given["poll"], given["grace"], os.getppid(), suspects_only=role != "worker",
        standby=role == "standby", indexes=given["indexes"] and role == "worker",
    )  # fmt: skip
    working = Worker(
        caller, agents, settings, run_for,
        isolate=lambda count: line.say(suspects=count), relieve=lambda: line.say(busy=True),
        begin=lambda: line.say(driving=True), leave=lambda: _leave_at_once(LEFT_BEHIND),
        also=callers_of(caller, given["also_tenant"]),
    )  # fmt: skip
    _obey(working, line)
    if await working.run(lambda: line.say(ready=caller.core.holder)):
        _leave_at_once(LEFT_BEHIND)
    await working.close()
    if threads_at_work():
        _leave_at_once(0)


def _obey(working: Worker, line: SupervisorPipe) -> None:
    """Signals and the supervisor's end stop a worker; whatever else the supervisor says makes it look."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, working.stop)
        # In the place of asyncio's own, which does nothing: this one is called while the loop is blocked, too.
        signal.signal(number, lambda *_: working.told())

    def heard() -> None:
        line.hear()
        if line.over:
            loop.remove_reader(line)
            working.stop()
        else:
            working.wake()

    loop.add_reader(line, heard)


def _leave_at_once(status: int) -> None:
    """Threads that do not come back would keep this process for ever; its end is what frees their runs."""
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)


# -- what they are at ---------------------------------------------------------------------------------


RUN_COLUMNS = (
    Column("worker", lambda row: _title(row[0])),
    Column("run", lambda row: row[1].run if row[1] else "(idle)"),
    Column("agent", lambda row: row[1] and row[1].agent),
    Column("parent", lambda row: row[1] and row[1].parent, spare=True),
    Column("since", lambda row: row[1].since if row[1] else row[0].started_at),
    prose("last recorded", lambda row: row[1] and row[1].doing),
    Column("quiet for", lambda row: row[1] and _span(row[1].quiet_seconds)),
    Column("notes", lambda row: row[1] and _notes(row[1])),
)
QUEUE_COLUMNS = (
    Column("agent", lambda queue: queue.agent),
    Column("ready", lambda queue: queue.ready),
    Column("running", lambda queue: queue.running),
    Column("waiting", lambda queue: queue.waiting),
    Column("parked", lambda queue: queue.parked),
    Column("oldest ready", lambda queue: queue.oldest_ready_at),
    Column("notes", lambda queue: "" if queue.known else "no living worker knows this agent"),
)


@command("workers", "perdure workers", "perdure workers --watch", "perdure workers --stuck 10m --json")
@click.option(
    "--stuck", default="10m", show_default=True, metavar="TIME", callback=seconds,
    help="A run that recorded nothing for so long is without progress.",
)  # fmt: skip
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C; with --json one line each time.")
@reads
def workers(asked: StoreOptions, *, stuck: float, watch: bool) -> None:
    """Show workers, the runs of each, the runs that wait for a worker, and the runs without progress."""
    from perdure.handles.working import tree  # noqa: PLC0415 - help must be light

    with asked.open() as store:
        while True:
            found = tree(store)
            if asked.as_json:
                (say_json_line if watch else say_json)(_plain(found, stuck))
            else:
                if watch:
                    click.clear()
                _say(found, stuck)
            if not watch:
                return
            time.sleep(WATCH_SECONDS)


def _plain(found: WorkersRecord, stuck: float) -> dict[str, Any]:
    return {
        "at": found.at, "workers": found.workers, "queue": found.queue,
        "ready": sum(each.ready for each in found.queue),
        "oldest_ready_at": min((each.oldest_ready_at for each in found.queue if each.oldest_ready_at), default=None),
        "unknown": [each.agent for each in found.queue if not each.known and (each.ready or each.waiting)],
        "stuck": [each.run for each in _stuck(found, stuck)],
        "stranded": found.stranded,
    }  # fmt: skip


def _stuck(found: WorkersRecord, stuck: float) -> list[HeldRecord]:
    return [run for each in found.workers for run in each.runs if run.quiet_seconds >= stuck]


def _say(found: WorkersRecord, stuck: float) -> None:
    if not found.workers:
        note("no worker is running: `perdure worker MODULE` starts one")
    else:
        say_table(RUN_COLUMNS, [(each, run) for each in found.workers for run in each.runs or (None,)])
    if found.queue:
        say_heading("Queue")
        say_table(QUEUE_COLUMNS, found.queue)
    if found.stranded:
        say_heading("Ready, but pinned to a program that no worker has")
        for run in found.stranded:
            click.echo(visible(f"  {run.run}  {run.agent}  program {run.program[:12]}"))
        note("start a worker with that program, or remove the pin: perdure pin RUN --any")
    held = _stuck(found, stuck)
    if held:
        say_heading(f"Without progress for {_span(stuck)}")
        for run in held:
            click.echo(visible(f"  {run.run}  {run.agent}  {run.doing}  since {moment(run.last_at)}"))


def _title(each: WorkerRecord) -> str:
    """A worker for people: machine, process, and whether it lives."""
    about = each.about
    who = f"{each.host}:{about.pid}" if about else cell(each.holder[:12])
    kind = "" if about is None else f" <{about.supervisor}" if about.supervisor else ""
    notes = [*(["suspects"] if about and about.suspects else []), *([] if each.alive else ["gone"])]
    return f"{who}{kind}" + (f" ({', '.join(notes)})" if notes else "")


def _notes(run: HeldRecord) -> str:
    notes = [*(["suspect"] if run.suspect else []), *(["being cancelled"] if run.cancelling else [])]
    return ", ".join([*notes, *([counted(run.deaths, "death")] if run.deaths else [])])


def _span(span_seconds: float) -> str:
    """A time for people: 3s, 12m, 5h."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if span_seconds >= 2 * size:
            return f"{span_seconds / size:.0f}{unit}"
    return f"{span_seconds:.0f}s"
