"""The tour: an agent is killed again and again, and everything that was acknowledged to it is still there
(P1, P6).

`perdure demo` tells it. Nothing is pretended: the agent is a real process, it dies by SIGKILL at moments that
the seed chooses, and the checks read the store anew. What kill -9 cannot show (a power loss) is not claimed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from perdure.doors.cli.tour_agent import DECIDE_EVERY, SESSION, text_of
from perdure.errors import Conflict, TimedOut
from perdure.model.records.integrity import ProblemKind

if TYPE_CHECKING:
    from perdure.handles.sync.session import Session

LIFE_SECONDS_MAX = 30.0
PAGE = 1000
CHANGED = "its text was changed after it was written"


class Round(msgspec.Struct, frozen=True):
    """One life of the agent: where it went on from, and everything that it heard was done."""

    resumed_after: int
    acknowledged: list[dict[str, Any]]
    exit_code: int


class Check(msgspec.Struct, frozen=True):
    """One claim and whether it held."""

    claim: str
    held: bool
    detail: str = ""


class Files(msgspec.Struct, frozen=True):
    """Where the tour takes place: the agent's store, and the copy that the forger gets."""

    true: Path
    forged: Path


def new_files(folder: Path) -> Files:
    """The files of a tour in this folder, which is made. Conflict when one of an earlier tour is there."""
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / "tour.db", folder / "tour-forged.db")
    for path in (files.true, files.forged):
        if path.exists():
            raise Conflict(
                f"{path} exists already: a tour begins with nothing", path="keep", hint="name another folder"
            )
    return files


class Chance:
    """Moments and counts that the seed decides: the same tour again, as far as the machine allows."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def below(self, limit: int) -> int:
        """A number from 0 up to, not including, `limit`."""
        self._drawn += 1
        digest = hashlib.sha256(f"{self._seed}:{self._drawn}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % limit


def live_and_die(store_url: str, chance: Chance) -> Round:
    """Start the agent, let it work for a while, and kill it in the middle of whatever it is doing."""
    command = [sys.executable, "-m", "perdure.doors.cli.tour_agent", store_url]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - our own module
    assert agent.stdout is not None
    too_long = threading.Timer(LIFE_SECONDS_MAX, agent.kill)  # whatever happens, reading ends
    too_long.start()
    try:
        heard = _listen(agent.stdout, 8 + chance.below(40))
        time.sleep(chance.below(4000) / 1_000_000)  # somewhere inside the next write
    finally:
        agent.kill()
        too_long.cancel()
        rest = agent.stdout.read()
        agent.stdout.close()
        code = agent.wait()
    facts = [json.loads(line) for line in (heard + rest).split(b"\n") if line.endswith(b"}")]
    return Round(facts[0]["resumed_after"], facts[1:], code)


def _listen(stdout: IO[bytes], lines: int) -> bytes:
    heard = [stdout.readline() for _ in range(lines)]
    if not heard[-1]:
        raise TimedOut("the agent of the tour ended by itself", path="demo", hint="run it again with PERDURE_DEBUG=1")
    return b"".join(heard)


# -- what must hold ---------------------------------------------------------------------------------


def check_nothing_lost(session: Session, rounds: list[Round]) -> list[Check]:
    """Every acknowledged step is there, once and whole; and each life went on from where the last one was."""
    steps = [fact for life in rounds for fact in life.acknowledged]
    turns = {turn.seq: turn.key for turn in _all_turns(session)}
    missing = [fact["step"] for fact in steps if turns.get(fact["turn"]) != f"step-{fact['step']}"]
    keys = list(turns.values())
    decisions = {decision.seq for decision in session.decisions(limit=PAGE)}
    decided = [fact for fact in steps if fact["decision"]]
    undecided = [fact["step"] for fact in decided if fact["decision"] not in decisions]
    return [
        Check(f"all {len(steps)} acknowledged turns are there", not missing, f"missing: {missing[:3]}"),
        Check(f"all {len(decided)} acknowledged decisions are there", not undecided, f"missing: {undecided[:3]}"),
        Check("no turn is there twice", len(keys) == len(set(keys))),
        _check_whole(session, len(keys), len(decisions)),
        _check_continued(rounds),
    ]


def _all_turns(session: Session) -> list[Any]:
    found: list[Any] = []
    while page := session.turns(after=found[-1].seq if found else 0, limit=PAGE):
        found += page
    return found


def _check_whole(session: Session, turns: int, decisions: int) -> Check:
    """Whatever the last commit was, it is there whole: turn, decision and value agree."""
    value = session.get("step", default=0)
    whole = value == turns and decisions == turns // DECIDE_EVERY
    return Check("no step is half there", whole, f"value {value}, {turns} turns, {decisions} decisions")


def _check_continued(rounds: list[Round]) -> Check:
    """One step more than was acknowledged may be there: committed, with no time left to say so."""
    ends = [life.acknowledged[-1]["step"] for life in rounds]
    starts = [life.resumed_after for life in rounds[1:]]
    lost = [(end, start) for end, start in zip(ends, starts, strict=False) if not end <= start <= end + 1]
    return Check("each life went on where the one before it was", not lost, f"acknowledged and resumed: {lost[:3]}")


def check_clean(store: Any) -> Check:
    """Verify finds nothing."""
    report = store.verify()
    looked = f"{report.counts.events} events and {report.counts.rows} rows"
    says = f"verify: {looked} are exactly what was written"
    return Check(says, report.ok, "; ".join(map(str, report.problems[:3])))


def target_of(rounds: list[Round]) -> dict[str, Any]:
    """The acknowledged turn that the forger picks: one in the middle."""
    steps = [fact for life in rounds for fact in life.acknowledged]
    return steps[len(steps) // 2]


def forge(path: Path, step: int) -> tuple[str, str]:
    """Another program changes one byte of one event, in the file itself; returns what it said and says."""
    true = text_of(step)
    false = true.replace("Transfer 1", "Transfer 9")
    command = [sys.executable, "-m", "perdure.testing.damage", str(path), true, false]
    subprocess.run(command, check=True)  # noqa: S603 - our own module
    return true, false


def check_caught(store: Any, seq: int) -> Check:
    """Verify names the stream and the number of the event that was forged."""
    report = store.verify()
    named = [problem for problem in report.problems if SESSION in problem.stream and problem.seq == seq]
    what = CHANGED if named and named[0].kind == ProblemKind.BODY_ALTERED else "it is not what was written"
    return Check(
        f"verify finds it: session {SESSION}, event {seq}: {what}",
        bool(named),
        "; ".join(map(str, report.problems[:3])),
    )
