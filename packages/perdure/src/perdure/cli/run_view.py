"""One run at a glance, for `perdure show`: how it stands, what is open, and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.envelopes import PENDING
from perdure.cli.identified import identified
from perdure.cli.output import compact, moment, say_facts, say_heading, say_json, say_prose
from perdure.cli.runs import change_text, status_of, versions_text
from perdure.cli.tables import say_damaged, say_table
from perdure.errors import Error, NotFound
from perdure.handles.damage import Damage
from perdure.model.display import shortened, visible
from perdure.model.records.runs import WaitKind
from perdure.planes.reading.paging import DamagedRow

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.store import Store
    from perdure.model.records.timeline import TimelineRecord
    from perdure.model.records.workers import StrandedRecord

SAID_CHARS = 80


def show_run(handle: RunHandle, last: int, lost: StrandedRecord | None, *, as_json: bool) -> None:
    """Show a run: as one JSON document, or for people. lost: why nobody takes it, if nobody does."""
    damage = Damage()
    envelope = damage.part(handle.envelope, None)
    found = {
        "run": handle.record,
        "stranded": lost,
        "verdict": envelope and envelope.verdict,
        "pending": envelope.pending if envelope else [],
        "waits": [identified(wait) for wait in damage.part(handle.waits, [])],
        "timeline": damage.rows(handle.timeline(last=last)) if last else [],
    }
    if damage:
        found["damaged"] = damage
    if as_json:
        say_json(found)
    else:
        _say(found)


def show_damaged_run(store: Store, run: str, last: int, error: Error, *, as_json: bool) -> None:
    """Show the events of a run whose own record cannot be read."""
    from perdure.effects.timeline import timeline  # noqa: PLC0415 - help must be light
    from perdure.planes.execution import runs  # noqa: PLC0415 - as above
    from perdure.runtime.callers import caller_of  # noqa: PLC0415 - as above

    caller, damage = caller_of(store), Damage([DamagedRow(error.path, error.message)])
    events = damage.rows(caller.read(timeline, caller.read(runs.find, run), last=last)) if last else []
    if as_json:
        say_json({"run": None, "timeline": events, "damaged": damage})
        return
    _say_timeline(events)
    say_damaged(damage)


def show_step(handle: RunHandle, seq: int, *, as_json: bool) -> None:
    """Show a step of a run, and what its model was given. NotFound if it is none."""
    step = next((each for each in handle.steps(after=seq - 1) if each.seq == seq), None)
    if step is None:
        raise NotFound(
            f"event {seq} of run {handle.id} is no step", path="step", hint="`perdure show` lists its events"
        )
    given = None if step.input is None else handle.input_of(seq)
    if as_json:
        say_json({"step": step, "input": given})
        return
    noted = {name: compact(step.notes[name]) for name in ("model", "usage") if step.notes.get(name)}
    say_facts({"step": step.name, "place": step.place, "digest": step.digest, "error": step.error, **noted})
    for heading, said in (("Input", given), ("Gave", step.value if step.gave is None else f"digest {step.gave}")):
        if said is not None:
            say_heading(heading)
            say_prose(compact(said))


def _say(found: dict[str, Any]) -> None:
    run, lost = found["run"], found["stranded"]
    say_facts(
        {
            "run": run.id,
            "agent": run.agent,
            "status": status_of(run, lost),
            "why": f"{lost.why}: start a worker with it, or `perdure pin {run.id} --any`" if lost else run.reason,
            "key": run.key,
            "session": run.session,
            "parent": run.parent,
            "what if": f"another result at {run.what_if.place} of run {run.what_if.run}" if run.what_if else None,
            "creator": run.creator,
            "created": run.created_at,
            "ended": run.ended_at,
            "held by": run.holder,
            "program": run.program,
            "versions": versions_text(run.pins),
            "versions changed": change_text(run),
            "arguments": compact([run.args, run.kwargs]),
            "result": None if run.result is None else compact(run.result),
        }
    )
    if run.error:
        say_heading("Error")
        say_prose(f"{run.error.code}: {run.error.message}")
    if found["pending"]:
        say_heading("Effects that are not settled")
        say_table(PENDING, found["pending"])
    if found["waits"]:
        say_heading("Waits for")
        for wait in found["waits"]:
            click.echo(visible(f"  {wait['id']}  {wait['kind']}  {_awaited(wait)}"))
    _say_timeline(found["timeline"])
    if found["verdict"] is not None:
        say_heading(f"Verdict: {found['verdict'].standing.value}")
        say_prose(found["verdict"].says)
    say_damaged(found.get("damaged", ()))


def _awaited(wait: dict[str, Any]) -> str:
    """The question, or the name of what is waited for; of a run both: whose it is, and which."""
    said = [wait["question"], wait["name"]] if wait["kind"] == WaitKind.CHILD else [wait["question"] or wait["name"]]
    return " ".join(each for each in said if each)


def _say_timeline(entries: Sequence[TimelineRecord]) -> None:
    if not entries:
        return
    say_heading("Timeline")
    if entries[0].seq > 1:
        click.echo("        … earlier events: --last N")
    for entry in entries:
        _say_entry(entry)


def _say_entry(entry: TimelineRecord) -> None:
    of = f" of {entry.of}" if entry.of else ""
    line = f"{entry.seq:>6}  {moment(entry.at)}  {entry.kind}{of}  {entry.about}  {entry.place}".rstrip()
    click.echo(f"{visible(line)}  {_said(entry.kind, entry.said)}".rstrip())


def _said(kind: str, doc: Any) -> str:
    """The document of an event, in a few words."""
    if not isinstance(doc, dict):
        return ""
    if kind == "run.held":
        return shortened(f"{doc.get('verb')} waits until {doc.get('holding')} is reached", SAID_CHARS)
    for name in ("error", "value", "result", "answer", "question", "args", "payload"):
        if doc.get(name) not in (None, {}, []):
            return shortened(f"{name}: {compact(doc[name])}", SAID_CHARS)
    return ""
