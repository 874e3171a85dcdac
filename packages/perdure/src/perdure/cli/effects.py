"""`perdure effects`, `settle` and `errors`: calls to external systems, those in doubt, errors, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from perdure.cli.filters import filtered_by
from perdure.cli.finding import whole_id
from perdure.cli.identified import identified, say_identified
from perdure.cli.names import argument, open_effects
from perdure.cli.options import StoreOptions, command, reads, spans, writes
from perdure.cli.output import note, say_facts, say_json
from perdure.cli.runs import change_text
from perdure.cli.show import records
from perdure.cli.tables import Column, folded, is_filtered, prose, say_damaged, say_table, state
from perdure.effects.next_steps import after_settling
from perdure.effects.operator_verbs import check_in_doubt
from perdure.effects.settling import DIED
from perdure.errors import Damaged, Invalid
from perdure.handles.damage import Damage
from perdure.model.filters import EffectFilters
from perdure.model.records.effects import Absent, Declined, EffectRecord, EffectState, Happened, ToolKind, Verdict
from perdure.model.records.runs import RunRecord, RunStatus
from perdure.planes.execution.parked_runs import AWAY, ways_on

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.store import Store


def _went_wrong(record: EffectRecord) -> str | None:
    if record.error is not None:
        return f"{record.error.code}: {record.error.message}" if record.error.message else record.error.code
    return None if record.unkept is None else f"its result is not kept: {record.unkept}"


COLUMNS = (
    Column("effect", lambda effect: effect.id),
    state("state", lambda effect: f"{effect.state} (copy)" if effect.copy else effect.state),
    Column("tool", lambda effect: effect.tool),
    Column("kind", lambda effect: effect.kind, spare=True),
    Column("tries", lambda effect: effect.attempt),
    prose("error", _went_wrong),
    Column("settled by", lambda effect: effect.settled_by, spare=True),
    Column("sent key", lambda effect: effect.sent_key, spare=True),
    Column("actor", lambda effect: effect.actor, spare=True),
    Column("at", lambda effect: effect.at),
)


@command(
    "effects",
    "perdure effects --in-doubt",
    "perdure effects --state failed --tool open_pr --since 24h",
    "perdure effects --errors --json | jq -r '.items[].id'",
)
@filtered_by(EffectFilters)
@reads
def effects(asked: StoreOptions, *, in_doubt: bool, **filters: Any) -> None:
    """List calls to external systems, newest first: planned, sent, known to have happened, or in doubt."""
    if in_doubt:
        if filters["state"] is not None:
            raise click.UsageError("--in-doubt is a state of its own: leave --state out")
        filters["in_doubt"] = True
    with asked.open() as store:
        found = records(store.effects(**filters))
        runs = _doubting(store, found)
        wakes = {name: run.wake_at for name, run in runs.items() if run.wake_at is not None}
        away = {name: AWAY[run.reason] for name, run in runs.items() if run.reason in AWAY}
        columns = (
            *COLUMNS,
            *([Column("next check", lambda effect: wakes.get(effect.id))] if wakes else []),
            *([Column("what-if", lambda effect: "copied" if effect.what_if else None)] if filters["what_if"] else []),
            *([folded("its run", lambda effect: away.get(effect.id))] if away else []),
        )
        say_identified(
            found, columns, as_json=asked.as_json, what="effects", filtered=is_filtered(filters),
            besides=lambda effect: {"again_at": wakes.get(effect.id)},
        )  # fmt: skip
    if in_doubt and any(each.id not in away for each in found) and not asked.as_json:
        note("settle one: perdure settle EFFECT VERDICT (happened, absent or failed)")


def _doubting(store: Store, found: Iterable[EffectRecord]) -> dict[str, RunRecord]:
    """The runs of effects in doubt, by effect: they look at them again by themselves. Those of sessions wait for a recovery."""
    doubts = [each for each in found if each.state is EffectState.IN_DOUBT and each.stream_kind == "run"]
    runs: dict[str, RunRecord] = {}
    for name in {each.stream for each in doubts}:
        with suppress(Damaged):  # the listing of runs marks it
            runs[name] = store.run(name).record
    return {each.id: runs[each.stream] for each in doubts if each.stream in runs}


@command(
    "settle",
    "perdure settle run:4f1c2a9b77d0/12 happened --result '{\"number\": 7}'",
    "perdure settle session:issue-42/9 absent --reason 'looked at the forge' --by alice",
    "perdure settle run:4f1c2a9b77d0/12 failed --dry-run",
)
@argument("effect", open_effects)
@click.argument("verdict", type=click.Choice(["happened", "absent", "failed"]))
@click.option("--result", metavar="JSON", help="With happened: its result.")
@click.option("--reason", metavar="TEXT", default="", help="With absent or failed: how you know.")
@click.option("--by", metavar="NAME", help="Person who settles it; default: the actor.")
@click.option("--dry-run", is_flag=True, help="Only show what is in doubt.")
@click.option("--force", is_flag=True, help="With absent: also while the process that sent it lives on this machine.")
@writes
def settle(
    asked: StoreOptions,
    *,
    effect: str,
    verdict: str,
    result: str | None,
    reason: str,
    by: str | None,
    dry_run: bool,
    force: bool,
) -> None:
    """Record the outcome of EFFECT, which is in doubt. Its run continues.

    happened: it took effect, and the result is recorded. absent: it did not, and may be tried again. failed: it did not, and
        shall not be tried again. Perdure believes you: look at the other side first.
    """
    said = _verdict(verdict, result, reason)
    with asked.open() as store:
        found = store.effect(whole_id(store, effect))
        if dry_run:
            check_in_doubt(found.record)
        else:
            found.settle(said, by=by, force=force)
        record = found.record
    if asked.as_json:
        say_json({"dry_run": dry_run, **identified(record)})
        return
    facts = {"effect": record.id, "tool": record.tool, "state": record.state, "sent key": record.sent_key}
    facts["arguments"] = record.args
    say_facts({**facts, "error": _went_wrong(record)})
    note("nothing was changed: a dry run" if dry_run else f"settled by {record.settled_by}: {after_settling(record)}")


@command(
    "gone", "perdure gone build-7", "perdure gone build-7 --apply --actor alice", "perdure gone 4f1c2a9b77d0 --apply"
)
@click.argument("who", metavar="MACHINE|HOLDER")
@click.option("--apply", is_flag=True, help="Do it; without this it only lists the calls.")
@click.option("--force", is_flag=True, help="Also while it gives signs of life.")
@writes
def gone(asked: StoreOptions, *, who: str, apply: bool, force: bool) -> None:
    """Declare that a MACHINE, or a HOLDER by its id, will never come back: its open calls are settled by their tools' rules.

    Nothing can prove the death of another machine, so until then a person is asked about each of its calls. Perdure believes
    you: a machine that does come back may repeat a call that was made again meanwhile.
    """
    with asked.open() as store:
        found = store.declare_gone(who, apply=apply, force=force)
    if asked.as_json:
        say_json({"applied": apply, "effects": [identified(each) for each in found]})
        return
    for each in found:
        say_facts({"effect": each.id, "tool": each.tool, "state": each.state, "sender": each.holder})
    note(f"{who} is gone, by {asked.actor}" if apply else "nothing was changed: --apply does it")


def _verdict(verdict: str, result: str | None, reason: str) -> Verdict:
    if verdict == "happened":
        if reason:
            raise click.UsageError("--reason goes with absent or failed")
        return Happened(_parsed(result))
    if result is not None:
        raise click.UsageError("--result goes with happened")
    return Absent(reason) if verdict == "absent" else Declined(reason)


def _parsed(result: str | None) -> Any:
    try:
        return None if result is None else json.loads(result)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"expected JSON: {error}", path="result", hint="a text needs quotes: --result '\"done\"'"
        ) from None


# -- errors ------------------------------------------------------------------------------------------------------------------


DONE_MAX_CHARS = 100  # of what was done, in a table


class Mishap(NamedTuple):
    """Something that went wrong: where, with what, and what was done about it."""

    at: Any
    where: str
    what: str
    code: str
    message: str
    done: str
    versions: str | None = None  # of a run: the last change of its versions

    @property
    def shown(self) -> str:
        """The treatment of an error, as a table has room for it."""
        if len(self.done) <= DONE_MAX_CHARS:
            return self.done
        return f"{self.done.partition(';')[0]}; `perdure show {self.where}` says what to do"


MISHAPS = (
    Column("at", lambda mishap: mishap.at, spare=True),
    Column("where", lambda mishap: mishap.where),
    Column("what", lambda mishap: mishap.what, spare=True),
    Column("code", lambda mishap: mishap.code),
    prose("message", lambda mishap: mishap.message),
    prose("versions changed", lambda mishap: mishap.versions, spare=True),
    folded("done about it", lambda mishap: mishap.shown),
)
WHAT_WAS_DONE = {
    EffectState.IN_DOUBT: "in doubt",
    EffectState.FAILED: "given up",
    EffectState.WITHDRAWN: "never sent",
    EffectState.PLANNED: "to be tried again",
    EffectState.DISPATCHED: "being tried again",
    EffectState.COMMITTED: "it happened after all",
    EffectState.UNDOING: "being undone",
    EffectState.UNDONE: "undone",
}


@command("errors", "perdure errors --since 24h", "perdure errors --tool open_pr", "perdure errors --json --limit 200")
@click.option("--tool", metavar="NAME", help="Only effects of this tool.")
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@spans
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, metavar="N", help="At most so many."
)
@reads
def errors(asked: StoreOptions, *, tool: str | None, agent: str | None, limit: int, **span: Any) -> None:
    """List errors, newest first: effects and runs that went wrong, each with its code and what was done about it.

    --since and --until mean the time of the error, not the time of planning or starting. A run that is pinned to a program that
    no living worker has is always listed, because it stands still now.
    """
    with asked.open() as store:
        found: list[Mishap] = []
        damage = Damage()
        if agent is None:
            wrong = damage.rows(store.effects(errors=True, tool=tool, limit=limit, **span))
            found += [(_of_left if each.is_left() else _of_effect)(each.record) for each in wrong]
        if tool is None:
            stopped = damage.rows(store.runs(errors=True, agent=agent, limit=limit, **span))
            found += [*map(_of_run, stopped), *_of_stranded(store, agent)]
    shown = sorted(found, key=lambda mishap: mishap.at, reverse=True)[:limit]
    if asked.as_json:
        named = {"damaged": damage} if damage else {}
        say_json({"items": [mishap._asdict() for mishap in shown], "more": len(found) > limit, **named})
        return
    if shown:
        say_table(MISHAPS, shown)
        if len(found) > limit:
            note("there are more: a larger --limit, or --until, has them")
    elif not damage:
        note("nothing went wrong")
    say_damaged(damage)


def _of_effect(record: EffectRecord) -> Mishap:
    done = WHAT_WAS_DONE[record.state]
    tries = f" after {record.attempt} tries" if record.attempt > 1 else ""
    by = f" ({record.settled_by})" if record.settled_by else ""
    if record.state is EffectState.IN_DOUBT:
        by = f": {_way_out(record)}"
    code, message = (record.error.code, record.error.message) if record.error else ("", "")
    return Mishap(record.outcome_at or record.at, record.id, record.tool, code, message, f"{done}{tries}{by}")


def _of_left(record: EffectRecord) -> Mishap:
    said = "the process that made the call has died, or gives no sign of life"
    return Mishap(record.dispatched_at, record.id, record.tool, DIED, said, f"in doubt: {_way_out(record)}")


def _way_out(record: EffectRecord) -> str:
    """The ways to settle doubt: always a person; the tool's rule only where it has one."""
    if record.kind is ToolKind.UNSAFE:
        return "`perdure settle` it"
    return (
        f"`perdure settle` it, or {'let its run continue' if record.stream_kind == 'run' else 'act again with its key'}"
    )


def _of_stranded(store: Store, agent: str | None) -> list[Mishap]:
    from perdure.handles.working import stranded  # noqa: PLC0415 - help must be light

    return [
        Mishap(
            each.since, f"run:{each.run}", each.agent, "Stranded", each.why,
            f"nothing: start a worker with it, or `perdure pin {each.run} --any`",
        )
        for each in stranded(store).values() if agent in (None, each.agent)
    ]  # fmt: skip


WAYS = {
    RunStatus.FAILED: lambda run: f"it ended; `perdure retry {run.id}` tries it again",
    RunStatus.PARKED: lambda run: f"parked; {ways_on(run.id, run.reason, run.hint)}",
}


def _of_run(handle: RunHandle) -> Mishap:
    record = handle.record
    code, message = (record.error.code, record.error.message) if record.error else (record.reason or "", "")
    when = record.outcome_at or record.created_at
    way = WAYS[record.status](record)
    return Mishap(when, f"run:{record.id}", record.agent, code, message, way, versions=change_text(record))
