"""Stories without runs: effects of sessions, and many threads that write everything else through the same lanes."""

from __future__ import annotations

import contextlib
from typing import Any

import perdure
from perdure_testing.simulation import Process
from proof.stage import LEASE_US
from proof.stories import TOOLS, Story


class Sessions(Story):
    """Several processes act in one session under the same keys; some carry the effect out themselves."""

    name = "sessions"
    acted = ("pay", "post", "push", "tag", "own")

    def drive(self, process: Process) -> None:
        for _ in range(self.turns):
            kind = self.stage.chance.choice(self.acted)
            self.stage.attempt(lambda kind=kind: self.act(process.store, kind))
            if self.stage.chance.random() < 0.3:
                self.stage.attempt(process.store.recover)
            self.stage.linger(process, "driver.waits")

    def act(self, store: perdure.Store, kind: str) -> None:
        session = store.session("s")
        if kind == "own":
            self.carry_out(session)
            return
        value = session.act(TOOLS[kind], f"s/{kind}/x", key=kind)
        self.stage.observe("session", kind, value)

    def carry_out(self, session: perdure.Session) -> None:
        """An effect in a loop of one's own."""
        effect = session.begin("mail", {"what": "s/own/x"}, key="own")
        if effect.state == "planned":
            effect.dispatch()
            self.stage.scheduler.reach("own.dispatched")
            # No answer: it stays dispatched, and is in doubt when its sender is gone.
            with contextlib.suppress(OSError):
                effect.commit(self.stage.world.send("s/own/x"))
        if effect.state == "committed":
            self.stage.observe("session", "own", effect.result)

    def wanted(self) -> list[Any]:
        return []

    def more(self, store: perdure.Store) -> None:
        store.recover()
        for kind in self.acted:
            self.stage.attempt(lambda kind=kind: self.act(store, kind))

    def is_over(self, store: perdure.Store) -> bool:
        return not store.session("s").effects(open=True) and not self.stage.world.under_way


class Plain(Story):
    """Threads that share lanes: turns, values, several verbs in one commit, tasks and locks."""

    name = "plain"
    drivers = 2

    def wanted(self) -> list[Any]:
        return []

    def begin(self) -> None:
        self.todo = []
        self.said: dict[str, bool] = {}  # what was said, and whether that was acknowledged
        self.added = self.tried = 0
        for i in range(self.drivers):
            self.stage.process(f"p{i}", self.write, self.write, self.write)

    def write(self, process: Process) -> None:
        deeds = (
            self.say,
            self.say_once,
            self.count,
            self.move,
            self.refuse,
            self.give_up,
            self.lock,
            self.lock,
            self.claim,
        )
        for _ in range(7):
            deed = self.stage.chance.choice(deeds)
            self.stage.attempt(lambda deed=deed: deed(process))

    def say(self, process: Process) -> None:
        text = f"t{len(self.said)}"
        self.said[text] = False
        process.store.session("s").say("user", text)
        self.said[text] = True

    def say_once(self, process: Process) -> None:
        text = f"k{self.stage.chance.randrange(5)}"
        self.said.setdefault(text, False)
        process.store.session("s").say("user", text, key=text)
        self.said[text] = True

    def count(self, process: Process) -> None:
        self.tried += 1
        process.store.session("s").update("count", lambda value: (value or 0) + 1)
        self.added += 1

    def move(self, process: Process) -> None:
        """From one account to the other: together they always hold nothing."""

        def moved(tx: Any) -> None:
            one, other = tx.scope("one"), tx.scope("other")
            one.set("sum", one.get("sum", 0) - 1)
            other.set("sum", other.get("sum", 0) + 1)

        process.store.atomic(moved)

    def refuse(self, process: Process) -> None:
        """What is refused leaves nothing behind, whoever shares its commit."""
        process.store.session("s").set("refused", 1, expect=99)

    def give_up(self, process: Process) -> None:
        def half(tx: Any) -> None:
            tx.session("s").say("user", "half")
            raise perdure.Conflict("changed my mind", path="test")

        process.store.atomic(half)

    def lock(self, process: Process) -> None:
        since_us = self.stage.machine.clock.now_us
        with process.store.session("s").lock("deploy", ttl=LEASE_US / 1e6):
            self.stage.enter("the lock", since_us)
            for _ in range(3):
                self.stage.scheduler.reach("locked")
            self.stage.leave("the lock")

    def claim(self, process: Process) -> None:
        session = process.store.session("s")
        since_us = self.stage.machine.clock.now_us
        task = session.task("work", key="work")
        task.claim()
        self.stage.enter("the task", since_us)
        for _ in range(3):
            self.stage.scheduler.reach("claimed")
        self.stage.leave("the task")
        task.release()

    def is_over(self, store: perdure.Store) -> bool:
        session = store.session("s")
        texts = [turn.content for turn in session.turns(limit=1_000)]
        for text, acknowledged in self.said.items():
            if not acknowledged <= texts.count(text) <= 1:
                self.stage.blame(
                    f"{text!r} was {'' if acknowledged else 'not '}acknowledged: {texts.count(text)} times there"
                )
        if "half" in texts or session.get("refused") is not None:
            self.stage.blame("what was refused is there")
        if not self.added <= session.get("count", 0) <= self.tried:
            self.stage.blame(f"counted {self.added} of {self.tried}, and the sum is {session.get('count')}")
        if store.scope("one").get("sum", 0) + store.scope("other").get("sum", 0) != 0:
            self.stage.blame("half of a transaction is there")
        return True
