"""The store's evidence: the ledger, a clean verify, and a forger who is caught (P4, P5, P6)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.store import Store

TRUE, FALSE = "is a percentage", "is a percentile"  # a forger keeps the length


class LedgerLine(msgspec.Struct, frozen=True):
    """One line of the ledger. settled: how doubt about it ended, if there was any."""

    effect: str
    tool: str
    kind: str
    attempts: int
    state: str
    settled: str


class Proof(msgspec.Struct, frozen=True):
    """One claim and whether it held."""

    claim: str
    held: bool
    detail: str = ""


def ledger(run: RunHandle) -> list[LedgerLine]:
    """The effects of the run, oldest first, as the store has them."""
    return [
        LedgerLine(each.id, each.tool, each.record.kind.value, each.record.attempt,
            each.state.value, each.record.settled_by or "")
        for each in run.effects()
    ]  # fmt: skip


def proofs(store: Store, url: str, run: str, folder: Path) -> list[Proof]:
    """Verify the store; if it is the scene's own file, also a copy of it that was forged."""
    own = url == url_of(path := folder / "demo.db")
    return [_clean(store), *([_caught(store, path.with_name("forged.db"), run)] if own else [])]


def url_of(path: Path) -> str:
    """The store in this file."""
    return f"sqlite:///{quote(str(path.absolute()))}"


def _clean(store: Store) -> Proof:
    report = store.verify()
    looked = f"{report.counts.events} events and {report.counts.rows} rows"
    return Proof(f"verify: {looked} are exactly what was written", report.ok, "; ".join(map(str, report.problems[:3])))


def _caught(store: Store, copy: Path, run: str) -> Proof:
    """Another program changes one word of one event of a copy, in the file itself, past the log and past every trigger."""
    import perdure  # noqa: PLC0415 - help must not load the stores

    store.backup(copy)
    subprocess.run([sys.executable, "-m", "perdure_testing.damage", str(copy), TRUE, FALSE], check=True)  # noqa: S603
    with perdure.open(url_of(copy), actor="visitor", read_only=True) as forged:
        problems = forged.verify().problems
    named = [each for each in problems if run in each.stream and each.seq is not None]
    event = f", event {named[0].seq}" if named else ""
    claim = f"a forger who changes one word in a copy of it is caught: run {run}{event}"
    return Proof(claim, bool(named), "verify found nothing" if not problems else "; ".join(map(str, problems[:3])))
