"""State machines of the ledger and of runs with their waits: the arrows of docs/decisions/0006 and 0007 as tables in memory."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import perdure
from perdure.effects import ledger
from perdure.effects.ledger import Outcome, Sender
from perdure.model.records.effects import EffectError, EffectRecord
from perdure.model.records.runs import WaitKind
from perdure.planes.execution import leases, requests, runs, steps, waits
from perdure.planes.execution.leases import Lease
from perdure.planes.execution.runs import RunRequest
from perdure.runtime.callers import caller_of
from proof.machines import Plane, refuses

TTL_US = 60_000_000
SETTLING = {"commit": "committed", "fail": "failed", "absent": "planned"}
MINE = st.sampled_from([True, True, True, False])
ERROR = EffectError("Test", "said so")


class Effects(Plane):
    """Effects of a session, moved by their verbs: by the attempt that is asked for, and by a late one."""

    def __init__(self) -> None:
        super().__init__()
        self.state: dict[str, str] = {}
        self.attempt: dict[str, int] = {}
        self.seq: dict[str, int] = {}
        self.result: dict[str, Any] = {}
        self.quiet: set[str] = set()
        self.sender = Sender("ab" * 16, 1)

    @initialize()
    def set_out(self):
        for key in "kl":
            self.begin(key, "x")
            self.dispatch(key)

    def write(self, verb: Any, *args: Any, **kwargs: Any) -> Any:
        return self.session._write(verb, *args, **kwargs)

    def found(self, key: str) -> EffectRecord:
        return self.session._read(ledger.effect, self.seq[key])

    @rule(key=st.sampled_from("kl"), what=st.sampled_from(["x", "y"]))
    def begin(self, key, what):
        """Keys stand for their first input; the keyed one may be called again."""
        kind = "keyed" if key == "k" else "unsafe"
        call = lambda: self.session.begin("tool", {"what": what}, kind=kind, key=key)  # noqa: E731 - called once
        if key in self.state and self.result[f"args {key}"] != what:
            refuses(call, perdure.KeyReused)
            return
        effect = call()
        if key not in self.state:
            self.state[key], self.attempt[key], self.seq[key] = "planned", 0, effect.record.seq
            self.result[f"args {key}"] = what
        assert effect.record.seq == self.seq[key]
        self.look_at(key)

    def look_at(self, key: str) -> None:
        """Who sent it gives no sign of life: whoever looks at it finds doubt."""
        if self.state[key] == "dispatched":
            self.state[key] = "in_doubt"
            self.quiet.discard(key)

    @rule(key=st.sampled_from("kl"))
    def dispatch(self, key):
        if key not in self.state:
            return
        call = lambda: self.write(ledger.begin_next_attempt, self.seq[key], self.sender)  # noqa: E731 - called once
        if self.state[key] != "planned":
            refuses(call, perdure.Conflict)
            return
        call()
        self.sent(key)

    def sent(self, key: str) -> None:
        self.state[key] = "dispatched"
        self.attempt[key] += 1
        self.quiet.discard(key)

    @rule(key=st.sampled_from("kl"), late=st.booleans())
    def again(self, key, late):
        if key not in self.state:
            return
        attempt = self.attempt[key] - late
        call = lambda: self.write(ledger.begin_attempt_again, self.seq[key], attempt, self.sender)  # noqa: E731 - called once
        if key == "l" or late or self.state[key] not in ("dispatched", "in_doubt"):
            refuses(call, perdure.Conflict)
            return
        call()
        self.sent(key)

    @rule(
        key=st.sampled_from("kl"), verb=st.sampled_from(sorted(SETTLING)), late=st.booleans(), value=st.integers(0, 3)
    )
    def conclude(self, key, verb, late, value):
        if key not in self.state:
            return
        outcome = Outcome(value) if verb == "commit" else Outcome(error=ERROR)
        attempt = self.attempt[key] - late
        call = lambda: self.write(getattr(ledger, verb), self.seq[key], attempt, outcome)  # noqa: E731 - called once
        counts = not late and self.state[key] in ("dispatched", "in_doubt")
        if not self.attempt[key] and not counts:
            refuses(call, perdure.Conflict)
            return
        call()
        if counts:
            self.state[key] = SETTLING[verb]
            self.result[key] = value if verb == "commit" else None

    @rule(key=st.sampled_from("kl"), late=st.booleans(), quiet=st.booleans())
    def doubt(self, key, late, quiet):
        if key not in self.state:
            return
        self.write(ledger.doubt, self.seq[key], self.attempt[key] - late, ERROR, quiet=quiet)
        if not late and self.state[key] in ("planned", "dispatched", "in_doubt"):
            if self.state[key] != "in_doubt":
                self.quiet.discard(key)
            self.state[key] = "in_doubt"
            self.quiet |= {key} if quiet else set()

    @rule(key=st.sampled_from("kl"))
    def withdraw(self, key):
        if key not in self.state:
            return
        call = lambda: self.write(ledger.withdraw, self.seq[key], ERROR)  # noqa: E731 - called once
        if self.state[key] in ("planned", "withdrawn"):
            call()
            self.state[key] = "withdrawn"
        else:
            refuses(call, perdure.Conflict)

    @rule(
        key=st.sampled_from("kl"),
        verdict=st.sampled_from([perdure.Happened(9), perdure.Absent(), perdure.Declined("no")]),
    )
    def settle(self, key, verdict):
        if key not in self.state:
            return
        effect = self.store.effect(f"session:s/{self.seq[key]}")
        self.look_at(key)
        if self.state[key] != "in_doubt":
            refuses(lambda: effect.settle(verdict), perdure.Conflict)
            return
        effect.settle(verdict)
        self.state[key] = {"Happened": "committed", "Absent": "planned"}.get(type(verdict).__name__, "failed")
        self.result[key] = 9 if self.state[key] == "committed" else None

    @rule(key=st.sampled_from("kl"))
    def revive(self, key):
        if key in self.state and self.write(ledger.revive, self.seq[key]) is not None:
            assert self.state[key] in ("failed", "withdrawn")
            self.state[key] = "planned"

    @invariant()
    def agrees(self):
        for key, state in self.state.items():
            found = self.found(key)
            assert (found.state.value, found.attempt) == (state, self.attempt[key])
            assert state != "committed" or found.result == self.result[key]
            assert state != "in_doubt" or (found.quiet_at is not None) == (key in self.quiet)
        assert len(self.session.effects()) == len(self.state)


class Runs(Plane):
    """One run that two holders take from each other, what it waits for, and what people say to it."""

    def __init__(self) -> None:
        super().__init__()
        self.stream, _ = caller_of(self.store).write(runs.start, RunRequest("agent", [], {}, "k"), 1)
        self.status, self.token, self.holder, self.until_us = "ready", 0, "", 0
        self.leases: dict[str, Lease] = {}
        self.cancelling = False
        self.waits: dict[int, str] = {}
        self.signals = self.taken = 0

    def write(self, verb: Any, *args: Any, **kwargs: Any) -> Any:
        return caller_of(self.store).write(verb, self.stream, *args, **kwargs)

    @initialize()
    def set_out(self):
        self.claim("one", dead=False)
        self.ask(mine=True)
        self.signal()

    def driver(self, *, mine: bool) -> str:
        """Mostly who has the run; now and then who had it before."""
        return self.holder if mine else {"one": "two"}.get(self.holder, "one")

    def under_lease(self, holder: str, verb: Any, *args: Any, **kwargs: Any) -> Any:
        """As a driver writes: refused when its lease was lost."""
        lease = self.leases[holder]
        call = lambda: caller_of(self.store).write(leases.fenced, lease, verb, *args, **kwargs)  # noqa: E731 - called once
        if not (self.status == "running" and self.holder == holder and self.token == lease.token):
            refuses(call, perdure.Stale)
            return None
        result, lease.seq = call()
        return result if result is not None else True

    @rule(holder=st.sampled_from(["one", "two"]), dead=st.booleans())
    def claim(self, holder, dead):
        lapsed = self.status == "running" and (dead or self.until_us <= self.clock.now_us)
        lease = self.write(leases.claim, holder=holder, program="p", epoch=1, dead={self.holder} if dead else ())
        if self.status == "ready" or lapsed:
            if lease is None:  # it was taken from the dead too often
                self.status = "parked"
                return
            assert lease.token == self.token + 1
            self.status, self.token, self.holder = "running", lease.token, holder
            self.until_us = self.clock.now_us + TTL_US
            self.leases[holder] = lease
        else:
            assert lease is None

    @rule(mine=MINE)
    def step(self, mine):
        holder = self.driver(mine=mine)
        if holder in self.leases:
            self.under_lease(holder, steps.done, {"place": "0//0", "name": "x", "digest": "", "value": 1})

    @rule(mine=MINE, how=st.sampled_from(["wait", "wait", "wait", "release", "park", "finish"]))
    def give_up(self, mine, how):
        holder = self.driver(mine=mine)
        if holder not in self.leases:
            return
        verbs: dict[str, Any] = {
            "wait": (runs.wait, "ask", None), "release": (runs.release,), "park": (runs.park, "undo", "why"),
            "finish": (waits.end_run, perdure.RunStatus.FAILED, None, ERROR),
        }  # fmt: skip
        if self.under_lease(holder, *verbs[how]) is not None:
            self.status = {"wait": "waiting", "release": "ready", "park": "parked", "finish": "failed"}[how]
            del self.leases[holder]  # a driver that gave it up writes no more: see test_findings
            if how == "finish":
                self.waits = {seq: "over" if state == "open" else state for seq, state in self.waits.items()}

    @rule(mine=MINE)
    def ask(self, mine):
        holder = self.driver(mine=mine)
        if holder not in self.leases:
            return
        doc = waits.ask_document("?", ["a", "b"], None, None)
        found = self.under_lease(holder, waits.open_wait, WaitKind.ASK, place="0//1", doc=doc)
        if found is not None:
            self.waits[found.seq] = "open"

    @rule(answer=st.sampled_from(["a", "b", "c"]), data=st.data())
    def answer(self, answer, data):
        if not self.waits:
            return
        seq = data.draw(st.sampled_from(sorted(self.waits)))
        call = lambda: self.write(waits.answer, seq, answer, "ada")  # noqa: E731 - called once
        if answer == "c":
            refuses(call, perdure.Invalid)
        elif self.waits[seq] != "open":
            refuses(call, perdure.Conflict)
        else:
            assert call().answer == answer
            self.waits[seq] = answer
            self.wake()

    def wake(self) -> None:
        self.status = "ready" if self.status == "waiting" else self.status

    @rule()
    def signal(self):
        call = lambda: self.write(requests.signal, "go", self.signals)  # noqa: E731 - called once
        if self.status in ("failed", "completed", "cancelled"):
            refuses(call, perdure.Conflict)
            return
        call()
        self.signals += 1

    @rule(mine=MINE)
    def take_signal(self, mine):
        holder = self.driver(mine=mine)
        if holder not in self.leases or self.signals == self.taken:
            return
        found = self.under_lease(holder, waits.open_and_take, "go", "0//2", None, "m")
        if found is not None:
            assert found.answer == self.taken
            self.taken += 1

    @rule(verb=st.sampled_from(["resume", "unpark", "retry"]))
    def reopen(self, verb):
        sources = {"resume": ("waiting", "parked"), "unpark": ("parked",), "retry": ("failed", "parked", "cancelled")}[
            verb
        ]
        call = lambda: self.write(getattr(runs, verb))  # noqa: E731 - called once
        if self.status == "ready":
            call()
        elif self.status in sources:
            call()
            self.status = "ready"
            self.cancelling = False if verb == "retry" else self.cancelling
        else:
            refuses(call, perdure.Conflict)

    @rule()
    def call_off(self):
        if self.status in ("failed", "completed", "cancelled"):
            return
        self.write(runs.call_off)
        if not self.cancelling and self.status != "running":
            self.status = "ready"
        self.cancelling = True

    @rule(seconds=st.sampled_from([1, 61]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(mine=MINE)
    def look(self, mine):
        """What is asked right before something is sent outside."""
        holder = self.driver(mine=mine)
        if holder in self.leases:
            mine = self.holder == holder and self.token == self.leases[holder].token and self.status == "running"
            good = mine and self.until_us > self.clock.now_us
            assert caller_of(self.store).read(leases.holds, self.leases[holder]) == good

    @invariant()
    def agrees(self):
        found = caller_of(self.store).read(runs.run, self.stream)
        assert found.status.value == self.status
        for seq, state in self.waits.items():
            wait = caller_of(self.store).read(waits.wait, self.stream, seq)
            assert wait.state == {"open": "open", "over": "withdrawn"}.get(state, "met")
