"""The promises of every store about collecting unreferenced blobs, beside writers at any moment."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Damaged, Invalid
from perdure.model.records.retention import Retention
from perdure.planes.conversation import artifacts
from perdure.planes.recovery import checkpoints
from perdure.planes.retention import collect
from perdure.runtime.callers import caller_of, stream_of
from perdure_testing.contract.aio.artifacts import LARGE, SMALL, place_content
from perdure_testing.contract.aio.checkpoints import change_blob, count_blobs, grown
from perdure_testing.openers import AsyncOpener


def make_old(store: Any) -> None:
    """Let every file in the store's place have been put long ago."""
    for path in Path(caller_of(store).core.blobs.place.root).rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))


async def make_garbage(store: Any, name: str = "garbage") -> list[Any]:
    """Checkpoints of which all but the last are pruned: their own nodes are garbage."""
    session = await store.session(name)
    states = [grown(turns) for turns in (5, 9, 2)]
    for state in states:
        await session.checkpoint(state)
    await session.prune_checkpoints(keep=1)
    return states


def drop_without_asking(tx: Any, _marks: Any, dead: Any) -> Any:
    """A collector as it must not be: it trusts what it saw before."""
    tx.claim_blobs()
    tx.drop_blobs([blob.address for blob in dead])
    return dead


class AsyncCollectionContract:
    """Collection."""

    async def test_a_store_without_garbage_loses_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.checkpoint(grown(8))
            await session.attach("s", SMALL)
            await session.attach("l", LARGE)
            await session.say("user", "x" * 20_000)
            make_old(store)
            report = await store.collect(dry_run=False)
            assert (report.blobs, report.bytes, report.files, report.addresses) == (0, 0, 0, ())
            assert await session.restore() == grown(8)
            assert await (await session.artifact("l")).read() == LARGE
            assert (await session.turns(last=1))[0].content == "x" * 20_000

    async def test_pruned_nodes_go_and_a_dry_run_tells_which(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            states = await make_garbage(store)
            session = await store.session("garbage")
            planned = await store.collect()
            assert planned.dry_run
            assert planned.blobs == len(planned.addresses) > 3
            assert planned.bytes > 5_000
            progress: list[tuple[int, int]] = []
            done = await store.collect(dry_run=False, progress=lambda *at: progress.append(at))
            assert (done.blobs, done.bytes, done.addresses) == (
                planned.blobs,
                planned.bytes,
                planned.addresses,
            )
            assert progress[-1] == (planned.blobs, planned.blobs)
            assert await session.restore() == states[-1]
            assert (await store.collect()).blobs == 0
            raw = {bytes.fromhex(address) for address in done.addresses}
            assert await caller_of(session).read(lambda reads: reads.known(raw)) == set()
            assert await count_blobs(session) > 0

    async def test_a_file_without_a_row_goes_when_it_is_old(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            core, tenant = caller_of(store).core, caller_of(store).tenant
            row = await caller_of(store).work(artifacts.take_in, core.blobs, tenant, iter([LARGE]))
            address = row[1].hex()
            assert (await store.collect(dry_run=False)).files == 0, "it is young"
            assert await place_content(store, address) == LARGE
            make_old(store)
            planned = await store.collect()
            assert (planned.files, planned.addresses) == (1, (address,))
            assert await place_content(store, address) == LARGE
            done = await store.collect(dry_run=False)
            assert (done.files, done.addresses) == (1, (address,))
            assert await place_content(store, address) is None

    async def test_a_pinned_file_stays_until_the_pin_expires(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            core, tenant = caller_of(store).core, caller_of(store).tenant
            address = artifacts.address_ahead(core.blobs, LARGE)
            assert address is not None
            await caller_of(store).write(artifacts.pin, address, core.holder)
            await caller_of(store).work(artifacts.take_in, core.blobs, tenant, LARGE)
            make_old(store)
            assert (await store.collect(dry_run=False)).files == 0
            opener.clock.advance("25h")
            assert (await store.collect(dry_run=False)).files == 1

    async def test_the_file_of_a_blob_that_goes_goes_with_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            core, tenant = caller_of(store).core, caller_of(store).tenant
            row = await caller_of(store).work(artifacts.take_in, core.blobs, tenant, LARGE)
            await caller_of(store).write(lambda tx: tx.keep_row(row))
            make_old(store)
            done = await store.collect(dry_run=False)
            assert (done.blobs, done.bytes, done.files) == (1, len(LARGE), 0)
            assert await place_content(store, row[1].hex()) is None

    async def test_a_checkpoint_made_between_mark_and_sweep_is_spared(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            states = await make_garbage(store)
            session = await store.session("b")
            marks, dead = await caller_of(store).read(collect.find_dead)
            saved = await session.checkpoint(states[1])  # all its nodes are stored: none is written
            swept = await caller_of(store).write(collect.sweep, marks, dead)
            assert saved.hash not in {blob.address.hex() for blob in swept}
            assert await session.restore() == states[1]
            assert len(swept) < len(dead)

    async def test_control_a_collector_that_does_not_ask_again_breaks_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            states = await make_garbage(store)
            session = await store.session("b")
            marks, dead = await caller_of(store).read(collect.find_dead)
            await session.checkpoint(states[1])
            await caller_of(store).write(drop_without_asking, marks, dead)
            with pytest.raises(Damaged):
                await session.restore()

    async def test_a_checkpoint_prepared_before_the_sweep_stores_anew_what_went(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            states = await make_garbage(store)
            session = await store.session("b")
            prepared = await session._read(checkpoints.prepare, checkpoints.freeze(states[1]))
            assert prepared.rows == []
            await store.collect(dry_run=False)
            await session._write(checkpoints.save, prepared)
            assert await session.restore() == states[1]
            trusting = prepared._replace(leans_on=set())  # the control: what does not ask is broken
            await caller_of(store).write(lambda tx: (tx.claim_blobs(), tx.drop_blobs(prepared.leans_on)))
            await session._write(checkpoints.save, trusting)
            with pytest.raises(Damaged):
                await session.restore()

    async def test_an_artifact_attached_between_mark_and_sweep_is_spared(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for content in (SMALL, LARGE):
                await caller_of(store).write(lambda tx, content=content: tx.keep(content))
            make_old(store)
            marks, dead = await caller_of(store).read(collect.find_dead)
            assert len(dead) == 2
            await session.attach("s", SMALL)
            await session.attach("l", LARGE)
            assert await caller_of(store).write(collect.sweep, marks, dead) == []
            await store.collect(dry_run=False)
            assert await (await session.artifact("s")).read() == SMALL
            assert await (await session.artifact("l")).read() == LARGE

    async def test_jobs_of_one_commit_see_each_other(self, opener: AsyncOpener) -> None:
        """A sweep and writers that share a batch: whatever comes first, nothing that is referred to goes."""
        async with await opener() as store:
            states = await make_garbage(store)
            session = await store.session("b")
            marks, dead = await caller_of(store).read(collect.find_dead)
            prepared = await session._read(checkpoints.prepare, checkpoints.freeze(states[1]))

            def save_sweep_save(tx: Any) -> None:
                checkpoints.save(tx, stream_of(session), prepared, "before")
                collect.sweep(tx, marks, dead)
                again = checkpoints.prepare(tx, stream_of(session), checkpoints.freeze(states[0]))
                checkpoints.save(tx, stream_of(session), again, "after")

            await caller_of(store).write(save_sweep_save)
            assert await session.restore(name="before") == states[1]
            assert await session.restore(name="after") == states[0]

    async def test_a_damaged_checkpoint_stops_the_collection(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await make_garbage(store)
            session = await store.session("b")
            saved = await session.checkpoint(grown(3))
            await change_blob(session, bytes.fromhex(saved.hash), None)
            before = await caller_of(store).read(lambda reads: len(list(collect._unreferenced(reads))))
            with pytest.raises(Damaged) as caught:
                await store.collect(dry_run=False)
            assert saved.hash in caught.value.path
            assert await caller_of(store).read(lambda reads: len(list(collect._unreferenced(reads)))) == before

    async def test_another_tenants_blobs_are_none_of_ours(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a second open of this store is another store")
        async with await opener(tenant="one") as one, await opener(tenant="two") as two:
            await make_garbage(one)
            await (await two.session("a")).checkpoint(grown(5))  # garbage of the one is live for two
            assert (await two.collect()).blobs == 0
            planned = await one.collect()
            assert (await one.collect(dry_run=False)).addresses == planned.addresses != ()
            assert await (await two.session("a")).restore() == grown(5)

    async def test_bad_graces_are_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for grace in ("", "soon", 0, -1, "0s", None):
                with pytest.raises(Invalid) as caught:
                    await store.collect(grace)  # type: ignore[arg-type]
                assert caught.value.path == "grace"

    async def test_a_grace_that_a_write_may_outlast_is_refused_before_anything_goes(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for n in range(3):
                await session.checkpoint({"n": n})
            for ask in (store.collect, partial(store.retain, Retention(checkpoints=1))):
                for dry_run in (True, False):
                    with pytest.raises(Invalid, match="still being written") as caught:
                        await ask(grace="59s", dry_run=dry_run)
                    assert (caught.value.path, caught.value.hint) == ("grace", "60s or more")
                    with pytest.raises(Invalid):
                        await ask(grace="soon", dry_run=dry_run)
            assert len(await session.checkpoints()) == 3
            assert (await store.retain(Retention(checkpoints=1), grace="1m", dry_run=False)).checkpoints == 2
