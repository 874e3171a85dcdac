"""The contract of changed programs: what differs is named with its place, and nothing is done (P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Changed, Parked, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class Deployed:
    """A program that began, and what deploys may have made of it: the place, what was expected and what is found."""

    CHANGES = (
        ("renamed", "0//1", "step one", "step other"),
        ("arguments", "0//2", "step one with (int), of which a step keeps no more", "step one with (int)"),
        ("fewer", "0//2", "step one", "nothing more"),
        ("more", "0//2", "step one", "effect send"),
        ("asked", "0//3", "ask with '?'", "ask with 'Another question?'"),
    )

    def __init__(self) -> None:
        self.outside = CountingWorld()
        self.send = tool(name="send")(self._sent)

    async def _sent(self) -> Any:
        return self.outside.seen("sent")

    async def one(self, n: int) -> Any:
        """A step."""
        return self.outside.seen(n)

    async def other(self, n: int) -> Any:
        """Another one."""
        return self.outside.seen(n)

    async def began(self, run: AsyncRun) -> None:
        """The program as it was."""
        await run.step(self.one, 1)
        await run.step(self.one, 2)
        await run.ask("?")

    async def renamed(self, run: AsyncRun) -> None:
        """It calls another function, and catches what it must not."""
        try:
            await run.step(self.other, 1)
        except Exception:  # noqa: BLE001 - what a careless agent does
            await run.act(self.send)

    async def arguments(self, run: AsyncRun) -> None:
        """It calls with other arguments."""
        await run.step(self.one, 1)
        await run.step(self.one, 3)
        await run.act(self.send)

    async def fewer(self, run: AsyncRun) -> None:
        """It leaves something out."""
        await run.step(self.one, 1)

    async def more(self, run: AsyncRun) -> None:
        """It does something in between."""
        await run.step(self.one, 1)
        await run.act(self.send)
        await run.step(self.one, 2)
        await run.ask("?")

    async def asked(self, run: AsyncRun) -> None:
        """It asks something else."""
        await run.step(self.one, 1)
        await run.step(self.one, 2)
        await run.ask("Another question?")


class AsyncProgramsContract:
    """A run is never guessed at."""

    @pytest.mark.parametrize(("change", "place", "expected", "found"), Deployed.CHANGES)
    async def test_a_changed_program_is_named_and_does_nothing(
        self, opener: AsyncOpener, change: str, place: str, expected: str, found: str
    ) -> None:
        deployed = Deployed()
        async with await opener() as store:
            await driven(store, program(deployed.began))
            before = deployed.outside.count
            (handle,) = await store.runs(status="waiting")
            await handle.resume()
            with pytest.raises(Changed) as parked:
                await store.drive(program(getattr(deployed, change)), key="k")
            assert all(way in parked.value.hint for way in ("perdure resume", "run.patched", "perdure pin"))
            assert (await handle.envelope()).verdict.says == f"it is parked (changed): {parked.value.hint}"
            assert parked.value.facts["reason"] == "changed"
            assert f"at {place} it did {expected}" in parked.value.message
            assert f"now does {found}" in parked.value.message
            (event,) = await store.events(kind="run.parked", limit=1)
            assert event.data["place"] == place
            assert (event.data["expected"].startswith(expected), event.data["found"].startswith(found)) == (True, True)
            await handle.unpark()
            assert type(await driven(store, program(deployed.began))) is Waiting  # the old program continues
            assert deployed.outside.count == before
            assert (await store.verify()).ok

    async def test_both_arguments_of_an_effect_are_shown(self, opener: AsyncOpener) -> None:
        outside, text = CountingWorld(), "first " + "x" * 1000

        @tool
        async def send(to: str, text: str) -> str:
            return outside.seen(f"{to} {text}")

        async def telling(run: AsyncRun) -> None:
            await run.act(send, "ann", text)
            await run.ask("?")

        async with await opener() as store:
            await driven(store, program(telling))
            text = "second"
            await (await store.runs())[0].resume()
            message = (await driven(store, program(telling))).message
            assert "it did effect send with {'text': 'first xxx" in message
            assert "now does effect send with {'text': 'second', 'to': 'ann'}" in message
            assert (len(message) < 500, outside.count) == (True, 1)

    async def test_both_ways_stand_in_a_patched_program(self, opener: AsyncOpener) -> None:
        async def note(text: str) -> str:
            return text

        async def old(run: AsyncRun) -> list[str]:
            return [await run.step(note, "old"), await run.ask("?")]

        async def new(run: AsyncRun) -> list[Any]:
            lines = []
            for _ in range(2):
                way = "new" if await run.patched("v2") else "old"
                lines.append(way)
            return [await run.step(note, lines[0]), await run.ask("?"), *lines, await run.patched("v2")]

        async with await opener() as store:
            await driven(store, program(old), key="began")
            agent = program(new)
            for key in ("began", "fresh"):
                for _ in range(2):
                    await (await store.start(agent, key=key)).resume()
                    await driven(store, agent, key=key)
                await store.answer((await store.asks())[0].id, "a")
            assert await store.drive(agent, key="began") == ["old", "a", "old", "old", False]
            assert await store.drive(agent, key="fresh") == ["new", "a", "new", "new", True]

    async def test_a_run_that_another_program_was_tried_with_can_be_pinned_to_its_own(
        self, opener: AsyncOpener
    ) -> None:
        async def one(run: AsyncRun) -> Any:
            return await run.ask("one?")

        async def two(run: AsyncRun) -> Any:
            return await run.ask("two?")

        async with await opener() as store:
            old, new = program(one), program(two)
            await driven(store, old)
            (handle,) = await store.runs()
            for _ in range(2):  # also when it is tried again in vain
                await handle.resume()
                assert type(await driven(store, new)) is Changed
                assert (await handle.refresh()).record.program == old.program
            await handle.pin(handle.record.program)
            await handle.resume()
            assert "pinned" in (await driven(store, new)).message
            assert (await handle.refresh()).status == "ready"
            await store.answer((await store.asks())[0].id, "yes")
            assert await store.drive(old, key="k") == "yes"

    async def test_whatever_parks_a_run_says_so_with_facts_of_any_name(self, opener: AsyncOpener) -> None:
        async def halt(_run: AsyncRun) -> None:
            raise Parked("look", reason="mine", why="a", stream="b", program="c", facts="d", hint="e")

        async def nested(_run: AsyncRun) -> None:
            raise Changed("another one is", reason="changed", place="0//1")

        async with await opener() as store:
            for function, reason in ((halt, "mine"), (nested, "changed")):
                await driven(store, program(function), key=function.__name__)
                (handle,) = await store.runs(status="parked", limit=1)
                assert handle.record.reason == reason

    async def test_a_pinned_run_is_for_its_program_alone(self, opener: AsyncOpener) -> None:
        async def one(_run: AsyncRun) -> int:
            return 1

        async def two(_run: AsyncRun) -> int:
            return 2

        async with await opener() as store:
            old = program(one)
            handle = await store.start(old, key="k")
            await handle.pin(old.program)
            with pytest.raises(Changed) as refused:
                await store.drive(program(two), key="k")
            assert refused.value.facts["expected"] == old.program
            assert (await handle.refresh()).status == "ready"
            await handle.pin(None)
            assert await store.drive(program(two), key="k") == 2
