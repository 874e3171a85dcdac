"""State machines of the planes of a session, each beside an oracle of a few lines in memory (P5, P9).

Hypothesis calls verbs in any order; what the store answers is what the oracle says, refusals included, and at the end the log and
the tables agree. Each machine has a control in `test_machines.py`: a broken plane that it must catch.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import perdure
from perdure.planes.execution.tasks import MOVES
from perdure_testing.clock import FakeClock

WORDS = st.sampled_from(["a", "b", "c", "ä", "ab"])
NUMBERS = st.integers(0, 3)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
VALUES = st.recursive(st.none() | st.integers(-5, 5) | TEXTS, lambda each: st.lists(each, max_size=3), max_leaves=5)


class Refused:
    """What a call that was refused gives."""

    def __init__(self, error: perdure.Error) -> None:
        self.error = error


def tried(call: Callable[[], Any]) -> Any:
    """What a call gives, or that it was refused. Anything that is no error of ours comes through."""
    try:
        return call()
    except perdure.Error as error:
        return Refused(error)


def refuses(call: Callable[[], Any], error: type[perdure.Error]) -> None:
    """A call that must be refused in this way."""
    found = tried(call)
    assert isinstance(found, Refused), f"expected {error.__name__}, got {found!r}"
    assert isinstance(found.error, error), f"expected {error.__name__}, got {found.error!r}"


class Plane(RuleBasedStateMachine):
    """One store in memory with one session, and a clock that moves when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = perdure.open("memory:", clock=self.clock)
        self.session = self.store.session("s")

    def teardown(self) -> None:
        with contextlib.closing(self.store):
            assert self.store.verify().problems == []


class Conversation(Plane):
    """Turns, calls and their results, under keys."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, Any, Any]] = []  # role, content, calls or the call that it answers
        self.seqs: list[int] = []
        self.keys: dict[str, int] = {}
        self.calls: dict[str, Any] = {}  # by id: its result

    def add(self, turn: perdure.Turn, role: str, content: Any, about: Any = None) -> None:
        assert not self.seqs or turn.seq > self.seqs[-1]
        self.seqs.append(turn.seq)
        self.said.append((role, content, about))

    @rule(role=st.sampled_from(["user", "assistant", "system"]), content=WORDS, key=st.none() | NUMBERS.map(str))
    def say(self, role, content, key):
        known = self.keys.get(key)
        if known is None:
            turn = self.session.say(role, content, key=key)
            self.add(turn, role, content, () if role == "assistant" else None)
            if key is not None:
                self.keys[key] = len(self.said) - 1
        elif self.said[known][:2] == (role, content):
            assert self.session.say(role, content, key=key).seq == self.seqs[known]
        else:
            refuses(lambda: self.session.say(role, content, key=key), perdure.KeyReused)

    @rule(ids=st.lists(NUMBERS.map(lambda n: f"c{n}"), min_size=1, max_size=2))
    def call(self, ids):
        calls = [perdure.Call(each, "look", {"q": 1}) for each in ids]
        if len(set(ids)) < len(ids) or any(each in self.calls for each in ids):
            refuses(lambda: self.session.say("assistant", "x", calls=calls), perdure.Conflict)
            return
        self.add(self.session.say("assistant", "x", calls=calls), "assistant", "x", tuple(ids))
        self.calls |= dict.fromkeys(ids, ...)

    @rule(call=NUMBERS.map(lambda n: f"c{n}"), value=NUMBERS)
    def result(self, call, value):
        if call not in self.calls:
            refuses(lambda: self.session.result(call, value), perdure.NotFound)
        elif self.calls[call] is ...:
            self.add(self.session.result(call, value), "tool", value, call)
            self.calls[call] = value
        elif self.calls[call] == value:
            assert self.session.result(call, value).content == value
        else:
            refuses(lambda: self.session.result(call, value), perdure.KeyReused)

    @rule(first=st.integers(0, 6), limit=st.integers(1, 5))
    def part(self, first, limit):
        after = self.seqs[first - 1] if 0 < first <= len(self.seqs) else 0
        wanted = self.seqs[first if after else 0 :][:limit]
        assert [turn.seq for turn in self.session.turns(after=after, limit=limit)] == wanted
        assert [turn.seq for turn in self.session.turns(last=limit)] == self.seqs[-limit:]

    @invariant()
    def reads_back(self):
        found = [(turn.role.value, turn.content) for turn in self.session.turns(limit=1_000)]
        assert found == [turn[:2] for turn in self.said]

    @invariant()
    def pending(self):
        spoken = [turn for turn in self.said if turn[0] != "system"]
        makers = [turn for turn in spoken if turn[0] == "assistant"]
        missing = [each for each in makers[-1][2] if self.calls[each] is ...] if makers else []
        found = self.session.pending()
        if missing:
            assert found is not None
            assert [call.id for call in found.calls] == missing
        else:
            assert (found is None) == (not spoken or spoken[-1][0] == "assistant")

    @invariant()
    def transcript(self):
        """Every call has its result right after it (P14)."""
        owed: list[str] = []
        for message in self.session.transcript(format="openai"):
            if message["role"] == "tool":
                owed.remove(message["tool_call_id"])
                continue
            assert not owed
            owed = [call["id"] for call in message.get("tool_calls", ())]
        assert not owed


class Values(Plane):
    """Values of a session and of a scope, with versions and times to live."""

    def __init__(self) -> None:
        super().__init__()
        self.places = {"session": self.session, "scope": self.store.scope("user:a")}
        self.kept: dict[tuple[str, str], Any] = {}  # value and end, if it is there
        self.versions: dict[tuple[str, str], int] = {}

    def live(self, key: tuple[str, str]) -> Any:
        value = self.kept.get(key)
        return value if value is not None and (value[1] is None or value[1] > self.clock.now_us) else None

    def version(self, key: tuple[str, str]) -> int:
        return self.versions[key] if self.live(key) else 0

    @rule(place=st.sampled_from(["session", "scope"]), name=WORDS, value=VALUES, expect=st.none() | NUMBERS,
          ttl=st.none() | st.sampled_from([1, 60]))  # fmt: skip
    def set(self, place, name, value, expect, ttl):
        key = (place, name)
        if expect is not None and expect != self.version(key):
            refuses(lambda: self.places[place].set(name, value, expect=expect, ttl=ttl), perdure.Conflict)
            return
        entry = self.places[place].set(name, value, expect=expect, ttl=ttl)
        self.versions[key] = self.versions.get(key, 0) + 1
        self.kept[key] = (value, None if ttl is None else self.clock.now_us + ttl * 1_000_000)
        assert entry.version == self.versions[key]

    @rule(place=st.sampled_from(["session", "scope"]), name=WORDS, expect=st.none() | NUMBERS)
    def delete(self, place, name, expect):
        key = (place, name)
        if expect is not None and expect != self.version(key):
            refuses(lambda: self.places[place].unset(name, expect=expect), perdure.Conflict)
            return
        was = self.live(key) is not None
        assert self.places[place].unset(name, expect=expect) == was
        if was:
            self.versions[key] += 1
            del self.kept[key]

    @rule(place=st.sampled_from(["session", "scope"]), name=WORDS)
    def update(self, place, name):
        key = (place, name)
        found = self.live(key)
        entry = self.places[place].update(name, lambda value: [value])
        self.versions[key] = self.versions.get(key, 0) + 1
        self.kept[key] = ([found[0] if found else None], None)
        assert entry.value == self.kept[key][0]

    @rule(seconds=st.sampled_from([1, 59, 3600]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(place=st.sampled_from(["session", "scope"]), prefix=WORDS)
    def listing(self, place, prefix):
        names = [
            name for where, name in self.kept if where == place and self.live((where, name)) and name.startswith(prefix)
        ]
        found = self.places[place].entries(prefix=prefix)
        assert [entry.name for entry in found] == sorted(names, key=str.encode)

    @invariant()
    def reads_back(self):
        for key, version in self.versions.items():
            found, entry = self.live(key), self.places[key[0]].entry(key[1])
            assert (entry is None) == (found is None)
            assert entry is None or (entry.value, entry.version) == (found[0], version)


class Tasks(Plane):
    """Tasks that need each other, moved by a handle that claimed them, one that did not, and one that lost its claim."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[perdure.Task] = []
        self.status: list[str] = []
        self.needs: list[set[int]] = []
        self.mine: list[bool] = []  # whether the handle believes that it has the task
        self.notes: list[str | None] = []
        self.holds: list[bool] = []  # and whether it is right

    def is_met(self, number: int) -> bool:
        return all(self.status[other] == "done" for other in self.needs[number])

    @rule(data=st.data())
    def add(self, data):
        needs = data.draw(st.sets(st.integers(0, max(len(self.tasks) - 1, 0)), max_size=1)) if self.tasks else set()
        self.tasks.append(self.session.task(f"t{len(self.tasks)}", needs=[self.tasks[i] for i in sorted(needs)]))
        for column, value in ((self.status, "todo"), (self.needs, needs), (self.mine, False), (self.notes, None)):
            column.append(value)
        self.holds.append(False)

    @rule(number=st.integers(0, 5))
    def claim(self, number):
        if number >= len(self.tasks):
            return
        if self.status[number] == "todo" and self.is_met(number):
            assert self.tasks[number].claim().status == "doing"
            self.status[number], self.mine[number], self.holds[number] = "doing", True, True
        else:
            refuses(self.tasks[number].claim, perdure.Conflict)

    @rule()
    def claim_next(self):
        """Another handle takes the first that is ready."""
        ready = [i for i, status in enumerate(self.status) if status == "todo" and self.is_met(i)]
        found = self.session.claim_next()
        assert (found is None) == (not ready)
        if found is not None:
            assert found.id == self.tasks[ready[0]].id
            self.status[ready[0]], self.holds[ready[0]] = "doing", False

    def outcome(self, number: int, verb: str, note: str | None) -> type[perdure.Error] | None:
        """What must come of a move by the handle: None if it is done."""
        status, mine, arrow = self.status[number], self.mine[number], MOVES[verb]
        lost = mine and not (status == "doing" and self.holds[number])
        if status == arrow.target and note in (None, self.notes[number]) and not lost:
            return None
        if lost:
            return perdure.Stale
        if not mine and status == "doing" and verb != "cancel":
            return perdure.Conflict
        return None if status in arrow.sources else perdure.Conflict

    @rule(number=st.integers(0, 5), verb=st.sampled_from(sorted(MOVES)))
    def move(self, number, verb):
        if number >= len(self.tasks):
            return
        task, note = self.tasks[number], "why" if verb == "block" else None
        call = (lambda: task.block("why")) if verb == "block" else getattr(task, verb)
        wanted = self.outcome(number, verb, note)
        if wanted is not None:
            refuses(call, wanted)
            return
        call()
        self.status[number], self.mine[number] = MOVES[verb].target.value, False
        self.notes[number] = note or self.notes[number]

    @rule(number=st.integers(0, 5))
    def start_afresh(self, number):
        """A new handle, which claimed nothing."""
        if number < len(self.tasks):
            self.tasks[number] = next(each for each in self.session.tasks() if each.id == self.tasks[number].id)
            self.mine[number] = False

    @invariant()
    def agrees(self):
        assert [task.status for task in self.session.tasks(limit=100)] == self.status[::-1]
        ready = [self.tasks[i].id for i, status in enumerate(self.status) if status == "todo" and self.is_met(i)]
        assert [task.id for task in self.session.ready(limit=100)] == ready


class Decisions(Plane):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[perdure.Decision] = []
        self.status: list[tuple[str, Any]] = []  # and the outcome, or what superseded it

    @rule(text=WORDS, tags=st.lists(WORDS, max_size=2, unique=True))
    def decide(self, text, tags):
        self.made.append(self.session.decide(text, because="x", tags=tags))
        self.status.append(("open", None))

    @rule(number=st.integers(0, 9), outcome=st.sampled_from(["worked", "failed"]))
    def close(self, number, outcome):
        if number >= len(self.made):
            return
        decision, now = self.made[number], self.status[number]
        if now[0] == "open" or now == ("closed", outcome):
            assert decision.close(outcome).outcome == outcome
            self.status[number] = ("closed", outcome)
        else:
            refuses(lambda: decision.close(outcome), perdure.Conflict)

    @rule(number=st.integers(0, 9), text=WORDS)
    def supersede(self, number, text):
        if number >= len(self.made):
            return
        if self.status[number][0] == "superseded":
            refuses(lambda: self.made[number].supersede(text, because="y"), perdure.Conflict)
            return
        new = self.made[number].supersede(text, because="y")
        assert new.supersedes == self.made[number].seq
        self.status[number] = ("superseded", new.seq)
        self.made.append(new)
        self.status.append(("open", None))

    @invariant()
    def agrees(self):
        found = {each.seq: each for each in self.session.decisions(limit=100)}
        for decision, (status, more) in zip(self.made, self.status, strict=True):
            seen = found[decision.seq]
            assert seen.status == status
            assert more in (None, seen.outcome, seen.superseded_by)
        left = [each.seq for each, (status, _) in zip(self.made, self.status, strict=True) if status == "open"]
        assert [each.seq for each in self.session.decisions(open=True, limit=100)] == left[::-1]


class Checkpoints(Plane):
    """Whole states under names, as they were when they were saved."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[tuple[int, str, Any]] = []

    @rule(name=WORDS, state=VALUES)
    def save(self, name, state):
        self.saved.append((self.session.checkpoint(state, name=name).seq, name, state))

    @rule(keep=st.integers(1, 2))
    def prune(self, keep):
        self.session.prune_checkpoints(keep=keep)
        self.store.collect(dry_run=False)
        left: dict[str, list[Any]] = {}
        for each in self.saved:
            left.setdefault(each[1], []).append(each)
        self.saved = sorted(each for kept in left.values() for each in kept[-keep:])

    @invariant()
    def restores(self):
        for seq, _, state in self.saved:
            assert self.session.restore(seq) == state
        for name in ("a", "b", "c", "ä", "ab", "none"):
            newest = [state for _, of, state in self.saved if of == name]
            assert self.session.restore(name=name, default="?") == (newest[-1] if newest else "?")
        assert [each.seq for each in self.session.checkpoints(limit=100)] == [seq for seq, _, _ in self.saved][::-1]


class Artifacts(Plane):
    """Files under names, every version, and by their content."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[str, bytes]] = []

    @rule(name=WORDS, data=st.binary(max_size=4) | st.integers(0, 2).map(lambda n: bytes([n]) * 20_000))
    def attach(self, name, data):
        assert self.session.attach(name, data).size == len(data)
        self.kept.append((name, data))

    @rule()
    def collect(self):
        self.store.collect(dry_run=False)

    @invariant()
    def agrees(self):
        assert [(each.name, each.read()) for each in self.session.artifacts(limit=100)] == self.kept[::-1]
        for name in ("a", "none"):
            versions = [data for of, data in self.kept if of == name]
            if versions:
                assert self.session.artifact(name).read() == versions[-1]
            else:
                refuses(lambda name=name: self.session.artifact(name), perdure.NotFound)
        for each in self.session.artifacts(limit=3):
            assert self.store.artifact(each.hash).read() == each.read()


class Locks(Plane):
    """One lock, several who want it, and a clock that takes it away."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = [self.session.lock("l", ttl="30s") for _ in range(3)]
        self.contexts = [contextvars.copy_context() for _ in self.locks]  # of as many callers: a block fences its own
        self.tokens: dict[int, int] = {}  # by lock handle: what it believes in
        self.holder: tuple[int, int, int] | None = None  # token, until, number
        self.newest = 0

    @property
    def is_held(self) -> bool:
        return self.holder is not None and self.holder[1] > self.clock.now_us

    def holds(self, number: int) -> bool:
        return self.is_held and self.holder is not None and self.tokens.get(number) == self.holder[0]

    @rule(number=st.integers(0, 2))
    def acquire(self, number):
        enter = partial(self.contexts[number].run, self.locks[number].__enter__)
        if number in self.tokens and not self.holds(number):
            return  # whoever lost a lock leaves its block before entering another
        if self.is_held:
            refuses(enter, perdure.Conflict)
            return
        token = enter().token
        assert token == self.newest + 1
        self.newest = self.tokens[number] = token
        self.holder = (token, self.clock.now_us + 30_000_000, number)

    @rule(number=st.integers(0, 2))
    def release(self, number):
        if number not in self.tokens:
            return
        leave = partial(self.contexts[number].run, self.locks[number].__exit__, None, None, None)
        if self.holds(number):
            leave()
            self.holder = None
        else:
            refuses(leave, perdure.Stale)
        del self.tokens[number]

    @rule(number=st.integers(0, 2))
    def renew(self, number):
        if number not in self.tokens:
            return
        if self.holds(number):
            self.contexts[number].run(self.locks[number].renew)
            self.holder = (self.tokens[number], self.clock.now_us + 30_000_000, number)
        else:
            refuses(partial(self.contexts[number].run, self.locks[number].renew), perdure.Stale)

    @rule(seconds=st.sampled_from([1, 29, 30]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @invariant()
    def agrees(self):
        for number in self.tokens:
            assert isinstance(
                tried(partial(self.contexts[number].run, self.locks[number].check)), Refused
            ) != self.holds(number)


class Emitted(Plane):
    """Emitted events, folds of them, the feed page by page, and a subscription that is acknowledged or not."""

    def __init__(self) -> None:
        super().__init__()
        self.emitted: list[tuple[int, str, Any]] = []
        self.fed = 0
        self.cursor: str | None = None
        self.subscription = self.store.subscribe("reader")
        self.acknowledged = 0
        self.under_way: tuple[Any, int] | None = None
        self.lease_us = 0

    @rule(kind=st.sampled_from(["a.x", "a.y", "b.x"]), data=VALUES, expect=st.none() | st.just("now") | st.just(0))
    def emit(self, kind, data, expect):
        last = self.session.events(limit=1_000)[-1].seq
        given = last if expect == "now" else expect
        if given == 0:
            refuses(lambda: self.session.emit(kind, data, expect=0), perdure.Conflict)
            return
        self.emitted.append((self.session.emit(kind, data, expect=given).seq, kind, data))

    @rule(kind=st.sampled_from(["a.*", "a.x", "b.*", "c.*"]))
    def listing(self, kind):
        word = kind.removesuffix("*")
        wanted = [
            each for each in self.emitted if (each[1].startswith(word) if kind.endswith("*") else each[1] == word)
        ]
        found = [(each.seq, each.kind, each.data) for each in self.session.events(kind=kind, limit=1_000)]
        assert found == wanted

    @rule()
    def folded(self):
        assert self.session.fold(lambda state, event: [*state, event.data], []) == [each[2] for each in self.emitted]

    def everything(self) -> list[int]:
        return [event.seq for event in self.session.events(limit=1_000)]

    @rule(limit=st.integers(1, 4))
    def feed(self, limit):
        page = self.store.feed(self.cursor, limit)
        wanted = self.everything()[self.fed : self.fed + limit]
        assert [event.seq for event in page] == wanted
        self.cursor, self.fed = page.next, self.fed + len(page)

    @rule(limit=st.integers(1, 4))
    def take(self, limit):
        batch = self.subscription.next(limit, lease="30s")
        if self.under_way is not None and self.lease_us > self.clock.now_us:
            assert not batch
            return
        wanted = self.everything()[self.acknowledged :][:limit]
        assert [event.seq for event in batch] == wanted
        self.under_way = (batch, len(wanted)) if wanted else None
        self.lease_us = self.clock.now_us + 30_000_000

    @rule()
    def acknowledge(self):
        if self.under_way is not None:
            batch, count = self.under_way
            batch.ack()
            batch.ack()
            self.acknowledged += count
            self.under_way = None

    @rule()
    def lapse(self):
        self.clock.advance("31s")
