"""The conformance program: drives workers in any language over HTTP, lets faults strike, and counts what came of it.

A worker under test is a command. It reads PERDURE_URL, PERDURE_TOKEN and PERDURE_OUTSIDE from its environment, and drives the
agents `conformance` and `conformance-child`, whose arguments are data: see docs/guide/other-languages.md. Counted: runs that were
lost or did less than they say, calls that were done twice, runs that stand still, requests that were not fenced, and repeated
requests with another answer. Callers: `perdure conformance`, the tests.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from perdure.errors import Invalid
from perdure_evaluate.conformance.outside import Arrivals
from perdure_evaluate.conformance.rig import KILLS, PAUSES, Faults, ServedStore, Slot

LOOK_SECONDS = 0.05
KINDS = ("unsafe", "keyed", "probed", "idempotent")
AGENT, CHILD = "conformance", "conformance-child"
ENDED = ("completed", "failed", "cancelled")


class ConformanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one conformance run. A worker conforms if all of the lists are empty."""

    command: list[str]
    runs: int
    calls: int
    kills: int
    pauses: int
    server_kills: int
    faults: dict[str, int]
    settled: int
    seconds: float
    lost: list[str]
    twice: list[str]
    stranded: list[str]
    unfenced: list[str]
    unequal: list[str]
    trouble: list[str]

    @property
    def conforms(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.twice or self.stranded or self.unfenced or self.unequal or self.trouble)


class ConformancePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The extent. faults: kills and pauses, at least. patience_seconds: without any progress for so long, it ends."""

    faults: int = 20
    workers: int = 4
    seed: int = 1
    lease_seconds: float = 2.0
    patience_seconds: float = 180.0


def conform(
    command: Sequence[str], plan: ConformancePlan, tell: Callable[[str], None] = lambda _line: None,
    folder: Path | None = None,
) -> ConformanceReport:  # fmt: skip
    """Run it. folder: where the store and the logs lie; by default a temporary one. Invalid if there is no such command."""
    if not command or shutil.which(command[0]) is None:
        raise Invalid(f"there is no command {' '.join(command[:1])!r}", path="worker", hint="give its path")
    if folder is not None:
        return _Conformance(command, plan, tell, folder).run()
    with tempfile.TemporaryDirectory(prefix="perdure-conformance-") as temporary:
        return _Conformance(command, plan, tell, Path(temporary)).run()


class _Conformance:
    def __init__(
        self, command: Sequence[str], plan: ConformancePlan, tell: Callable[[str], None], folder: Path
    ) -> None:
        self._command, self._plan, self._tell = [*command], plan, tell
        self._random = random.Random(plan.seed)
        self._served = ServedStore(folder, plan.lease_seconds)
        self._arrivals = Arrivals()
        self._faults = Faults(plan.faults, plan.seed)
        about = (self._served, self._arrivals, self._faults, self._command)
        self._slots = [Slot(*about, folder / f"worker-{number}.log") for number in range(plan.workers)]
        self._started: dict[str, list[Any]] = {}
        self._settled = 0
        self._trouble: list[str] = []
        self._moved_at = time.monotonic()
        self._told = 0

    def run(self) -> ConformanceReport:
        began = time.monotonic()
        self._served.start()
        try:
            for slot in self._slots:
                slot.start()
            self._carry_on()
            return self._report(time.monotonic() - began)
        finally:
            for slot in self._slots:
                slot.stop()
            self._served.close()

    def _carry_on(self) -> None:
        """Until the plan is fulfilled and every run is over; or nothing moves any more."""
        last_state: Any = None
        while True:
            open_runs = self._open_runs()
            if not self._faults.done and len(open_runs) < 3 * len(self._slots):
                open_runs.append(self._start_one())
            if not open_runs and self._faults.done and all(map(self._is_over, self._started)):
                return
            self._act_as_person(open_runs)
            state = [(run["id"], run["status"], run["token"]) for run in open_runs], self._faults.hard
            if state != last_state:
                last_state, self._moved_at = state, time.monotonic()
            self._tell_now(len(open_runs))
            failures = [slot.failure for slot in self._slots if slot.failure]
            if failures or time.monotonic() - self._moved_at > self._plan.patience_seconds:
                self._trouble += failures
                return
            time.sleep(LOOK_SECONDS)

    def _tell_now(self, open_runs: int) -> None:
        if self._faults.hard >= self._told + 20:
            self._told = self._faults.hard
            self._tell(f"{self._told} kills and pauses, {len(self._started)} runs, {open_runs} open")

    # -- runs ------------------------------------------------------------------------------------------------------

    def _start_one(self) -> dict[str, Any]:
        number = len(self._started) + 1
        script = self._script(number)
        answer = self._served.ask("POST", "/v1/runs", {"agent": AGENT, "args": [script]}, key=f"run-{number}")
        assert answer.status == 201, answer.body
        self._started[answer.content["id"]] = script
        return answer.content

    def _script(self, number: int) -> list[Any]:
        """The work of a run: a checkpoint somewhere, and every kind of thing over a few runs."""
        ops: list[Any] = []
        for at in range(self._random.randint(4, 8)):
            name = f"{number}-{at}"
            kind = self._random.choice(KINDS)
            ops.append(self._random.choice([
                ["step", name], ["act", kind, name], ["act", kind, name], ["ask", name], ["wait", f"go-{name}"],
                ["sleep", "10ms"], ["child", at], ["checkpoint"],
                ["both", ["act", "keyed", f"{name}a"], ["step", f"{name}b"]],
            ]))  # fmt: skip
        return ops

    def _open_runs(self) -> list[dict[str, Any]]:
        runs = [
            run
            for status in ("ready", "running", "waiting", "parked")
            for run in self._served.ask("GET", f"/v1/runs?status={status}&limit=200").content["items"]
        ]
        return [*{run["id"]: run for run in runs}.values()]

    def _is_over(self, run: str) -> bool:
        """Whether a run has ended. Listings by status miss one whose status changes between them."""
        return self._served.ask("GET", f"/v1/runs/{run}").content["status"] in ENDED

    # -- the person ------------------------------------------------------------------------------------------------

    def _act_as_person(self, open_runs: list[dict[str, Any]]) -> None:
        """Answer, send the signals that are awaited, settle doubt, and let parked runs continue."""
        for ask in self._served.ask("GET", "/v1/asks?limit=200").content["items"]:
            self._served.ask("POST", f"/v1/asks/{_quoted(ask['id'])}/answer", {"value": "yes"})
        for run in open_runs:
            if run["status"] == "waiting" and run["reason"] in ("signal", "doubt", "landing"):
                self._see_to(run)
            elif run["status"] == "parked":
                self._trouble += [f"run {run['id']} is parked: {run['reason']}"] if run["reason"] != "deaths" else []
                self._served.ask("POST", f"/v1/runs/{run['id']}/unpark")

    def _see_to(self, run: dict[str, Any]) -> None:
        for wait in self._served.ask("GET", f"/v1/runs/{run['id']}/waits").content:
            if wait["kind"] == "signal":
                sent = {"name": wait["name"], "payload": {"go": True}}
                self._served.ask("POST", f"/v1/runs/{run['id']}/signals", sent, key=f"signal-{wait['seq']}")
        for effect in self._served.ask("GET", f"/v1/runs/{run['id']}/effects").content:
            if effect["state"] == "in_doubt":
                self._settle(effect)

    def _settle(self, effect: dict[str, Any]) -> None:
        """Look whether it happened. First its sender is made sure to be dead: else it may send yet."""
        for slot in self._slots:
            if not slot.is_dead(effect["holder"]):
                slot.kill()
        arrived = self._arrivals.count_of(effect["args"]["what"])
        verdict = (
            {"verdict": "happened", "result": {"arrived": arrived}} if arrived else {"verdict": "absent", "force": True}
        )
        done = self._served.ask("POST", f"/v1/effects/{_quoted(effect['id'])}/settle", verdict)
        self._settled += done.status == 200

    # -- counting --------------------------------------------------------------------------------------------------

    def _report(self, seconds: float) -> ConformanceReport:
        lost: list[str] = []
        twice: list[str] = []
        stranded: list[str] = []
        calls = 0
        for run, script in self._started.items():
            record = self._served.ask("GET", f"/v1/runs/{run}").content
            if record["status"] not in ENDED:
                stranded.append(f"run {run} is {record['status']} ({record['reason']})")
                continue
            if record["status"] != "completed" or len(record["result"]) != len(script):
                lost.append(f"run {run} is {record['status']}: {record['error'] or record['result']}")
            for kind, name in _acts(script):
                calls += 1
                self._count_call(run, kind, name, lost, twice)
            self._count_children(run, script, lost, twice)
        self._verify()
        struck = self._faults.struck
        return ConformanceReport(
            command=self._command, runs=len(self._started), calls=calls,
            kills=sum(struck[fault] for fault in KILLS), pauses=sum(struck[fault] for fault in PAUSES),
            server_kills=self._served.kills, faults={fault.value: count for fault, count in sorted(struck.items())},
            settled=self._settled, seconds=round(seconds, 1), lost=lost, twice=twice, stranded=stranded,
            unfenced=[answer for slot in self._slots for answer in slot.unfenced],
            unequal=[answer for slot in self._slots for answer in slot.unequal], trouble=self._trouble,
        )  # fmt: skip

    def _count_call(self, run: str, kind: str, name: str, lost: list[str], twice: list[str]) -> None:
        """An idempotent call may arrive twice: that is as good as once. Any other is done exactly once."""
        done = self._arrivals.count_of(f"{run}/{name}")
        if not done:
            lost.append(f"{kind} call {name} of run {run} never arrived")
        elif done > 1 and kind != "idempotent":
            twice.append(f"{kind} call {name} of run {run} was done {done} times")

    def _count_children(self, run: str, script: list[Any], lost: list[str], twice: list[str]) -> None:
        due = sum(op[0] == "child" for op in script)
        count = len(self._served.ask("GET", f"/v1/runs?parent={run}&limit=200").content["items"])
        if count != due:
            (lost if count < due else twice).append(f"run {run} has {count} children, not {due}")

    def _verify(self) -> None:
        answer = self._served.ask("GET", "/v1/verify")
        if answer.status != 200 or answer.content.get("problems"):
            self._trouble.append(f"verify: {answer.body[:500]!r}")


def _acts(script: list[Any]) -> list[tuple[str, str]]:
    """The calls of a script: kind and name."""
    calls: list[tuple[str, str]] = []
    for op in script:
        if op[0] == "act":
            calls.append((op[1], op[2]))
        elif op[0] == "both":
            calls += _acts(op[1:])
    return calls


def _quoted(text: str) -> str:
    return quote(text, safe="")
