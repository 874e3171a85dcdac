"""The promises of every store about checkpoints: sharing, restoring, pruning."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from perdure.artifacts import tree
from perdure.errors import Damaged, Invalid, NotFound, TooLarge
from perdure.log.change import Op
from perdure.log.event import decode_body
from perdure.planes.recovery import checkpoints
from perdure.planes.tables import CHECKPOINTS
from perdure.runtime.callers import caller_of
from perdure.stores.store import event_of
from perdure.stores.tx import LOG
from perdure_testing.openers import AsyncOpener

HOSTILE = ["../../etc/passwd", "'; DROP TABLE checkpoints; --", "<b>&amp;", "名前", "%s :x ?"]


def long_text(seed: int, size: int = 2_000) -> str:
    """Text that does not compress to nothing and differs for every seed."""
    return " ".join(f"{(seed * 7919 + i * 104729) % 1_000_003:06d}" for i in range(size // 7))


def grown(turns: int) -> dict[str, Any]:
    """A state as agents have it: a list that grows at its end, and a few fields that change."""
    return {"turns": [{"role": "user", "content": long_text(i)} for i in range(turns)], "cursor": turns}


async def count_blobs(session: Any) -> int:
    """How many nodes the checkpoints of a session have together."""
    roots = [bytes.fromhex(one.hash) for one in await session.checkpoints(limit=1000)]
    return len(await caller_of(session).read(lambda reads: tree.reachable(roots, reads.fetch)))


async def change_blob(session: Any, address: bytes, data: bytes | None) -> None:
    """Damage a blob on purpose: replace its bytes, or with None take it away."""

    def damage(tx: Any) -> None:
        tx.claim_blobs()
        tx.drop_blobs([address])
        if data is not None:
            tx.keep_row((tx.tenant, address, len(data), 0, data))

    await caller_of(session).write(damage)


class AsyncCheckpointsContract:
    """Checkpoints."""

    async def test_a_state_comes_back_equal_in_every_type(self, opener: AsyncOpener) -> None:
        state = {
            "text": "ünï", "n": -7, "big": 2**70, "pi": 3.5, "none": None, "yes": True, "bytes": b"\0\xff",
            "when": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "price": Decimal("1.10"), "pair": (1, "a"),
            "deep": {"list": [[], {}, [1, [2, [3]]]]}, "$": 1, "long": long_text(1, 40_000),
        }  # fmt: skip
        async with await opener() as store:
            session = await store.session("a")
            saved = await session.checkpoint(state)
            assert await session.restore() == state
            assert list(await session.restore()) == list(state)
            assert (saved.name, saved.parent, saved.actor) == ("default", None, store.actor)
            assert saved.ref.uid == session.uid
            assert saved.ref.seq == saved.seq
            assert len(saved.hash) == 64
            assert saved.at.tzinfo is not None

    async def test_without_a_checkpoint_restore_gives_the_default(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            assert await session.restore() is None
            assert await session.restore(default={"cursor": 0}) == {"cursor": 0}
            await session.checkpoint(None)
            assert await session.restore(default=7) is None

    async def test_names_are_apart_and_parents_follow_them(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.checkpoint(1)
            other = await session.checkpoint("x", name="plan")
            second = await session.checkpoint(2)
            assert [first.parent, other.parent, second.parent] == [None, None, first.seq]
            assert await session.restore() == 2
            assert await session.restore(name="plan") == "x"
            assert await session.restore(first.seq) == 1
            assert await session.restore(other.seq) == "x"
            assert await session.checkpoints() == [second, other, first]
            assert await session.checkpoints("plan") == [other]
            assert await session.checkpoints(limit=1) == [second]
            assert await session.checkpoints(before=second.seq) == [other, first]

    async def test_any_printable_name_is_a_name(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for name in HOSTILE:
                await session.checkpoint({"name": name}, name=name)
            for name in HOSTILE:
                assert await session.restore(name=name) == {"name": name}
                assert [one.name for one in await session.checkpoints(name)] == [name]

    async def test_bad_input_is_refused_with_its_path_and_nothing_changes(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.checkpoint({"ok": 1})
            before = await session.checkpoints()
            for bad, error, path in [
                ({"a": [1, object()]}, Invalid, "state.a[1]"),
                ({"a": float("nan")}, Invalid, "state.a"),
                ({1: 2}, Invalid, "state"),
                ({"t": "\ud800"}, Invalid, "state.t"),
            ]:
                with pytest.raises(error) as caught:
                    await session.checkpoint(bad)
                assert caught.value.path.startswith(path)
            for arguments, error, path in [
                ({"name": ""}, Invalid, "name"),
                ({"name": "x" * 300}, TooLarge, "name"),
                ({"name": "a\nb"}, Invalid, "name"),
            ]:
                with pytest.raises(error) as caught:
                    await session.checkpoint(1, **arguments)
                assert caught.value.path == path
            for refused in [10**9, 0, before[0].seq + 1]:
                with pytest.raises(NotFound) as caught:
                    await session.restore(refused)
                assert caught.value.path == "seq"
            assert await session.checkpoints() == before

    async def test_the_state_is_taken_as_it_is_at_the_call(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            state = {"list": [1]}
            await session.checkpoint(state)
            state["list"].append(2)
            assert await session.restore() == {"list": [1]}

    async def test_a_growing_state_costs_what_changed(self, opener: AsyncOpener) -> None:
        """The law of sharing (P8): nodes added by one more turn do not depend on how many there are."""
        async with await opener() as store:
            session = await store.session("a")
            added: list[int] = []
            for turns in (10, 11, 60, 61):
                before = await count_blobs(session)
                await session.checkpoint(grown(turns))
                added.append(await count_blobs(session) - before)
            assert added[1] <= 8
            assert added[3] <= added[1] + 3, "the path to a change grows with the logarithm alone"
            await session.checkpoint(grown(61))
            assert await count_blobs(session) == sum(added), "an equal state adds nothing"

    async def test_equal_states_have_equal_hashes_everywhere(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            one = await (await store.session("a")).checkpoint(grown(5))
            two = await (await store.session("b")).checkpoint(grown(5), name="x")
            assert one.hash == two.hash
            assert one.hash == tree.save(grown(5), lambda _: set()).root.hex()

    async def test_inside_atomic_all_or_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await store.session("a")

            def twice(tx: Any) -> Any:
                session = tx.session("a")
                session.checkpoint(grown(3))
                session.checkpoint(grown(4))
                return session.restore(), [one.size for one in session.checkpoints()]

            state, sizes = await store.atomic(twice)
            assert state == grown(4)
            assert len(sizes) == 2

            def fails(tx: Any) -> None:
                tx.session("a").checkpoint("never")
                raise RuntimeError

            with pytest.raises(RuntimeError):
                await store.atomic(fails)
            assert await (await store.session("a")).restore() == grown(4)

    async def test_a_missing_or_altered_node_is_damaged_and_named(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            saved = await session.checkpoint(grown(20))
            root = bytes.fromhex(saved.hash)
            nodes = await caller_of(session).read(lambda reads: tree.reachable([root], reads.fetch))
            stored = await caller_of(session).read(lambda reads: reads.fetch(nodes))
            for address in (root, min(nodes - {root}), max(nodes - {root})):
                for broken in (None, stored[address][:-1] + b"!", b"", b"Vgarbage"):
                    await change_blob(session, address, broken)
                    with pytest.raises(Damaged) as caught:
                        await session.restore()
                    assert address.hex() in caught.value.path
                await change_blob(session, address, stored[address])
                assert await session.restore() == grown(20)

    async def test_what_a_prune_keeps_reads_back_identical(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            states = {(await session.checkpoint(grown(i))).seq: grown(i) for i in range(1, 13)}
            plan_seq = (await session.checkpoint({"plan": long_text(9)}, name="plan")).seq
            planned = await session.prune_checkpoints(keep=3, dry_run=True)
            assert (len(planned.pruned), planned.kept, planned.dry_run) == (9, 4, True)
            assert planned.bytes
            assert planned.bytes > 0
            assert len(await session.checkpoints()) == 13
            done = await session.prune_checkpoints(keep=3)
            assert (done.pruned, done.kept, done.bytes) == (planned.pruned, 4, None)
            await store.collect(dry_run=False)
            for seq in list(states)[-3:]:
                assert await session.restore(seq) == states[seq]
            assert await session.restore(plan_seq) == {"plan": long_text(9)}
            for seq in done.pruned:
                with pytest.raises(NotFound):
                    await session.restore(seq)
            again = await session.prune_checkpoints(keep=3)
            assert (again.pruned, again.kept) == ((), 4)

    async def test_a_prune_by_name_and_age(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            old = [await session.checkpoint(i) for i in range(4)]
            opener.clock.advance("2d")
            await session.checkpoint("x", name="plan")
            await session.checkpoint("y", name="plan")
            young = [await session.checkpoint(i) for i in range(3)]
            report = await session.prune_checkpoints(keep=1, older_than="1d")
            assert report.pruned == tuple(one.seq for one in old)
            report = await session.prune_checkpoints(keep=1, name="default")
            assert report.pruned == tuple(one.seq for one in young[:2])
            assert len(await session.checkpoints("plan")) == 2
            for keep in (0, -1, 1.5, True, "2"):
                with pytest.raises(Invalid) as caught:
                    await session.prune_checkpoints(keep=keep)  # type: ignore[arg-type]
                assert caught.value.path == "keep"

    async def test_a_prune_is_recorded_and_names_what_it_empties(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for i in range(5):
                await session.checkpoint(i)
            pruned = (await session.prune_checkpoints(keep=2)).pruned
            rows = await session._read(
                lambda reads, stream: reads.query(LOG.events_page, stream=stream.id, after=0, upto=10**9, limit=1000)
            )
            events = [event_of(row) for row in rows]
            emptied = {event.seq for event in events if event.body is None}
            assert emptied == set(pruned)
            bodies = {event.seq: decode_body(event.body) for event in events if event.body is not None}
            seqs = [seq for event in events if event.kind == "log.pruned" for seq in bodies[event.seq].doc["emptied"]]
            assert seqs == list(pruned)
            deletions = [bodies[event.seq] for event in events if event.kind == "checkpoint.pruned"]
            assert [body.key["seq"] for body in deletions] == list(pruned)
            assert {body.op for body in deletions} == {Op.DELETE}
            saved = await session._read(lambda reads, stream: [reads.row(CHECKPOINTS, stream, seq) for seq in pruned])
            assert saved == [None] * len(pruned)

    async def test_a_fork_reads_its_parents_checkpoints(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.checkpoint(grown(3))
            second = await session.checkpoint(grown(4))
            await session.checkpoint(grown(5))
            fork = await session.fork(at=second.seq, name="try-b")
            assert await fork.restore() == grown(4)
            assert [one.seq for one in await fork.checkpoints()] == [second.seq, first.seq]
            mine = await fork.checkpoint("mine")
            assert mine.parent == second.seq
            assert (await fork.checkpoints(limit=2))[1].ref == second.ref
            assert await session.restore() == grown(5)
            assert (await session.prune_checkpoints(keep=1)).pruned == (first.seq,)
            await store.collect(dry_run=False)
            assert await fork.restore(second.seq) == grown(4), "the checkpoint that a fork continues is spared"

    async def test_the_past_has_its_own_checkpoints_and_artifacts(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.checkpoint(grown(12))
            await session.attach("x", "one")
            then = (await session.attach("y", "two" * 50_000)).seq
            await session.checkpoint(grown(13))
            await session.attach("x", "three")
            past = await session.at(then)
            assert await past.restore() == grown(12)
            assert [one.seq for one in await past.checkpoints()] == [first.seq]
            assert await (await past.artifact("x")).read() == b"one"
            assert await (await past.artifact("y")).read() == b"two" * 50_000
            assert [one.name for one in await past.artifacts()] == ["y", "x"]

    async def test_a_point_whose_checkpoint_was_pruned_says_so(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            saved = await session.checkpoint({"k": 0}, name="kept")
            states = [await session.checkpoint({"n": n}) for n in range(4)]
            message = await session.say("user", "before the prune")
            await session.prune_checkpoints(keep=1)
            last = await session.say("user", "after it")
            past = await session.at(states[2].seq)
            with pytest.raises(NotFound, match=f"{states[2].seq} of 'default' was pruned by event") as refused:
                await past.restore(default="none")
            assert refused.value.path == "name"
            assert await past.restore(name="kept") == {"k": 0}
            assert await past.restore(name="never", default="none") == "none"
            assert await (await session.at(message.seq)).restore() == {"n": 3}
            now = await session.at(last.seq)
            assert await now.restore() == {"n": 3}
            assert [turn.content for turn in await now.turns()] == ["before the prune", "after it"]
            assert await session.restore(saved.seq) == {"k": 0}

    async def test_a_fork_at_a_pruned_checkpoint_says_so_until_it_has_its_own(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.checkpoint({"k": 0}, name="kept")
            states = [await session.checkpoint({"n": n}) for n in range(4)]
            await session.prune_checkpoints(keep=1)
            fork = await session.fork(states[1].seq, name="fork")
            child = await fork.fork(name="child")
            for branch in (fork, child):
                with pytest.raises(NotFound, match="pruned"):
                    await branch.restore()
                assert await branch.restore(name="kept") == {"k": 0}
            await fork.checkpoint("own")
            assert await fork.restore() == "own"
            assert await (await session.fork(name="now")).restore() == {"n": 3}
            assert (await store.verify()).ok

    async def test_another_open_of_the_store_goes_on(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a second open of this store is another store")
        async with await opener() as one, await opener() as two:
            session, same = await one.session("a"), await two.session("a")
            first = await session.checkpoint(grown(6))
            second = await same.checkpoint(grown(7))
            assert second.parent == first.seq
            assert await session.restore() == grown(7)
            with pytest.raises(NotFound):
                await session.restore(second.seq + 1)
            assert await session._read(checkpoints.listing) == await same.checkpoints()
