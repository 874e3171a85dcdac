# Generated from testing/contract/aio/checkpoints.py by tools/unasync.py: edit that one.
"""What every store promises about checkpoints: sharing, restoring, pruning."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from perdure.artifacts import tree
from perdure.errors import Damaged, Invalid, NotFound, TooLarge
from perdure.log.change import Op
from perdure.log.event import decode_body
from perdure.planes import checkpoints
from perdure.planes.tables import CHECKPOINTS
from perdure.stores.store import event_of
from perdure.stores.tx import LOG
from perdure.testing.openers import Opener

HOSTILE = ["../../etc/passwd", "'; DROP TABLE checkpoints; --", "<b>&amp;", "名前", "%s :x ?"]


def long_text(seed: int, size: int = 2_000) -> str:
    """Text that does not compress to nothing and differs for every seed."""
    return " ".join(f"{(seed * 7919 + i * 104729) % 1_000_003:06d}" for i in range(size // 7))


def grown(turns: int) -> dict[str, Any]:
    """A state as agents have it: a list that grows at its end, and a few fields that change."""
    return {"turns": [{"role": "user", "content": long_text(i)} for i in range(turns)], "cursor": turns}


def count_blobs(session: Any) -> int:
    """How many nodes the checkpoints of a session have together."""
    roots = [bytes.fromhex(one.hash) for one in session.checkpoints(limit=1000)]
    return len(session._caller.read(lambda reads: tree.reachable(roots, reads.fetch)))


def change_blob(session: Any, address: bytes, data: bytes | None) -> None:
    """Damage a blob on purpose: replace its bytes, or with None take it away."""

    def damage(tx: Any) -> None:
        tx.claim_blobs()
        tx.drop_blobs([address])
        if data is not None:
            tx.keep_row((tx.tenant, address, len(data), 0, data))

    session._caller.write(damage)


class CheckpointsContract:
    """Checkpoints."""

    def test_a_state_comes_back_equal_in_every_type(self, opener: Opener) -> None:
        state = {
            "text": "ünï", "n": -7, "big": 2**70, "pi": 3.5, "none": None, "yes": True, "bytes": b"\0\xff",
            "when": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "price": Decimal("1.10"), "pair": (1, "a"),
            "deep": {"list": [[], {}, [1, [2, [3]]]]}, "$": 1, "long": long_text(1, 40_000),
        }  # fmt: skip
        with opener() as store:
            session = store.session("a")
            saved = session.checkpoint(state)
            assert session.restore() == state
            assert list(session.restore()) == list(state)
            assert (saved.name, saved.parent, saved.actor) == ("default", None, store.actor)
            assert saved.ref.uid == session.uid
            assert saved.ref.seq == saved.seq
            assert len(saved.hash) == 64
            assert saved.at.tzinfo is not None

    def test_without_a_checkpoint_restore_gives_the_default(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            assert session.restore() is None
            assert session.restore(default={"cursor": 0}) == {"cursor": 0}
            session.checkpoint(None)
            assert session.restore(default=7) is None

    def test_names_are_apart_and_parents_follow_them(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            first = session.checkpoint(1)
            other = session.checkpoint("x", name="plan")
            second = session.checkpoint(2)
            assert [first.parent, other.parent, second.parent] == [None, None, first.seq]
            assert session.restore() == 2
            assert session.restore(name="plan") == "x"
            assert session.restore(first.seq) == 1
            assert session.restore(other.seq) == "x"
            assert session.checkpoints() == [second, other, first]
            assert session.checkpoints("plan") == [other]
            assert session.checkpoints(limit=1) == [second]
            assert session.checkpoints(before=second.seq) == [other, first]

    def test_any_printable_name_is_a_name(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            for name in HOSTILE:
                session.checkpoint({"name": name}, name=name)
            for name in HOSTILE:
                assert session.restore(name=name) == {"name": name}
                assert [one.name for one in session.checkpoints(name)] == [name]

    def test_bad_input_is_refused_with_its_path_and_nothing_changes(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.checkpoint({"ok": 1})
            before = session.checkpoints()
            for bad, error, path in [
                ({"a": [1, object()]}, Invalid, "state.a[1]"),
                ({"a": float("nan")}, Invalid, "state.a"),
                ({1: 2}, Invalid, "state"),
                ({"t": "\ud800"}, Invalid, "state.t"),
            ]:
                with pytest.raises(error) as caught:
                    session.checkpoint(bad)
                assert caught.value.path.startswith(path)
            for arguments, error, path in [
                ({"name": ""}, Invalid, "name"),
                ({"name": "x" * 300}, TooLarge, "name"),
                ({"name": "a\nb"}, Invalid, "name"),
            ]:
                with pytest.raises(error) as caught:
                    session.checkpoint(1, **arguments)
                assert caught.value.path == path
            for refused in [10**9, 0, before[0].seq + 1]:
                with pytest.raises(NotFound) as caught:
                    session.restore(refused)
                assert caught.value.path == "seq"
            assert session.checkpoints() == before

    def test_the_state_is_taken_as_it_is_at_the_call(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            state = {"list": [1]}
            session.checkpoint(state)
            state["list"].append(2)
            assert session.restore() == {"list": [1]}

    def test_a_growing_state_costs_what_changed(self, opener: Opener) -> None:
        """The law of sharing (P8): nodes added by one more turn do not depend on how many there are."""
        with opener() as store:
            session = store.session("a")
            added: list[int] = []
            for turns in (10, 11, 60, 61):
                before = count_blobs(session)
                session.checkpoint(grown(turns))
                added.append(count_blobs(session) - before)
            assert added[1] <= 8
            assert added[3] <= added[1] + 3, "the path to a change grows with the logarithm alone"
            session.checkpoint(grown(61))
            assert count_blobs(session) == sum(added), "an equal state adds nothing"

    def test_equal_states_have_equal_hashes_everywhere(self, opener: Opener) -> None:
        with opener() as store:
            one = (store.session("a")).checkpoint(grown(5))
            two = (store.session("b")).checkpoint(grown(5), name="x")
            assert one.hash == two.hash
            assert one.hash == tree.save(grown(5), lambda _: set()).root.hex()

    def test_inside_atomic_all_or_nothing(self, opener: Opener) -> None:
        with opener() as store:
            store.session("a")

            def twice(tx: Any) -> Any:
                session = tx.session("a")
                session.checkpoint(grown(3))
                session.checkpoint(grown(4))
                return session.restore(), [one.size for one in session.checkpoints()]

            state, sizes = store.atomic(twice)
            assert state == grown(4)
            assert len(sizes) == 2

            def fails(tx: Any) -> None:
                tx.session("a").checkpoint("never")
                raise RuntimeError

            with pytest.raises(RuntimeError):
                store.atomic(fails)
            assert (store.session("a")).restore() == grown(4)

    def test_a_missing_or_altered_node_is_damaged_and_named(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            saved = session.checkpoint(grown(20))
            root = bytes.fromhex(saved.hash)
            nodes = session._caller.read(lambda reads: tree.reachable([root], reads.fetch))
            stored = session._caller.read(lambda reads: reads.fetch(nodes))
            for address in (root, min(nodes - {root}), max(nodes - {root})):
                for broken in (None, stored[address][:-1] + b"!", b"", b"Vgarbage"):
                    change_blob(session, address, broken)
                    with pytest.raises(Damaged) as caught:
                        session.restore()
                    assert address.hex() in caught.value.path
                change_blob(session, address, stored[address])
                assert session.restore() == grown(20)

    def test_what_a_prune_keeps_reads_back_identical(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            states = {(session.checkpoint(grown(i))).seq: grown(i) for i in range(1, 13)}
            plan_seq = (session.checkpoint({"plan": long_text(9)}, name="plan")).seq
            planned = session.prune_checkpoints(keep=3, dry_run=True)
            assert (len(planned.pruned), planned.kept, planned.dry_run) == (9, 4, True)
            assert planned.bytes
            assert planned.bytes > 0
            assert len(session.checkpoints()) == 13
            done = session.prune_checkpoints(keep=3)
            assert (done.pruned, done.kept, done.bytes) == (planned.pruned, 4, None)
            store.collect(dry_run=False)
            for seq in list(states)[-3:]:
                assert session.restore(seq) == states[seq]
            assert session.restore(plan_seq) == {"plan": long_text(9)}
            for seq in done.pruned:
                with pytest.raises(NotFound):
                    session.restore(seq)
            again = session.prune_checkpoints(keep=3)
            assert (again.pruned, again.kept) == ((), 4)

    def test_a_prune_by_name_and_age(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            old = [session.checkpoint(i) for i in range(4)]
            opener.clock.advance("2d")
            session.checkpoint("x", name="plan")
            session.checkpoint("y", name="plan")
            young = [session.checkpoint(i) for i in range(3)]
            report = session.prune_checkpoints(keep=1, older_than="1d")
            assert report.pruned == tuple(one.seq for one in old)
            report = session.prune_checkpoints(keep=1, name="default")
            assert report.pruned == tuple(one.seq for one in young[:2])
            assert len(session.checkpoints("plan")) == 2
            for keep in (0, -1, 1.5, True, "2"):
                with pytest.raises(Invalid) as caught:
                    session.prune_checkpoints(keep=keep)  # type: ignore[arg-type]
                assert caught.value.path == "keep"

    def test_a_prune_is_recorded_and_names_what_it_empties(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            for i in range(5):
                session.checkpoint(i)
            pruned = (session.prune_checkpoints(keep=2)).pruned
            rows = session._read(
                lambda reads, stream: reads.query(LOG.events_page, stream=stream.id, after=0, upto=10**9, limit=1000)
            )
            events = [event_of(row) for row in rows]
            emptied = {event.seq for event in events if event.body is None}
            assert emptied == set(pruned)
            bodies = {event.seq: decode_body(event.body) for event in events if event.body is not None}
            named = [seq for event in events if event.kind == "log.pruned" for seq in bodies[event.seq].doc["emptied"]]
            assert named == list(pruned)
            taken = [bodies[event.seq] for event in events if event.kind == "checkpoint.pruned"]
            assert [body.key["seq"] for body in taken] == list(pruned)
            assert {body.op for body in taken} == {Op.DELETE}
            gone = session._read(lambda reads, stream: [reads.row(CHECKPOINTS, stream, seq) for seq in pruned])
            assert gone == [None] * len(pruned)

    def test_a_fork_reads_its_parents_checkpoints(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            first = session.checkpoint(grown(3))
            second = session.checkpoint(grown(4))
            session.checkpoint(grown(5))
            fork = session.fork(at=second.seq, name="try-b")
            assert fork.restore() == grown(4)
            assert [one.seq for one in fork.checkpoints()] == [second.seq, first.seq]
            mine = fork.checkpoint("mine")
            assert mine.parent == second.seq
            assert (fork.checkpoints(limit=2))[1].ref == second.ref
            assert session.restore() == grown(5)
            assert (session.prune_checkpoints(keep=1)).pruned == (first.seq,)
            store.collect(dry_run=False)
            assert fork.restore(second.seq) == grown(4), "what a fork goes on from is spared"

    def test_the_past_has_its_own_checkpoints_and_artifacts(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            first = session.checkpoint(grown(12))
            session.attach("x", "one")
            then = (session.attach("y", "two" * 50_000)).seq
            session.checkpoint(grown(13))
            session.attach("x", "three")
            past = session.at(then)
            assert past.restore() == grown(12)
            assert [one.seq for one in past.checkpoints()] == [first.seq]
            assert (past.artifact("x")).read() == b"one"
            assert (past.artifact("y")).read() == b"two" * 50_000
            assert [one.name for one in past.artifacts()] == ["y", "x"]

    def test_a_point_whose_checkpoint_was_pruned_says_so(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            kept = session.checkpoint({"k": 0}, name="kept")
            states = [session.checkpoint({"n": n}) for n in range(4)]
            said = session.say("user", "before the prune")
            session.prune_checkpoints(keep=1)
            last = session.say("user", "after it")
            past = session.at(states[2].seq)
            with pytest.raises(NotFound, match=f"{states[2].seq} of 'default' was pruned by event") as refused:
                past.restore(default="none")
            assert refused.value.path == "name"
            assert past.restore(name="kept") == {"k": 0}
            assert past.restore(name="never", default="none") == "none"
            assert (session.at(said.seq)).restore() == {"n": 3}
            now = session.at(last.seq)
            assert now.restore() == {"n": 3}
            assert [turn.content for turn in now.turns()] == ["before the prune", "after it"]
            assert session.restore(kept.seq) == {"k": 0}

    def test_a_fork_at_a_pruned_checkpoint_says_so_until_it_has_its_own(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.checkpoint({"k": 0}, name="kept")
            states = [session.checkpoint({"n": n}) for n in range(4)]
            session.prune_checkpoints(keep=1)
            fork = session.fork(states[1].seq, name="fork")
            child = fork.fork(name="child")
            for each in (fork, child):
                with pytest.raises(NotFound, match="pruned"):
                    each.restore()
                assert each.restore(name="kept") == {"k": 0}
            fork.checkpoint("own")
            assert fork.restore() == "own"
            assert (session.fork(name="now")).restore() == {"n": 3}
            assert (store.verify()).ok

    def test_another_open_of_the_store_goes_on(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a second open of this store is another store")
        with opener() as one, opener() as two:
            session, same = one.session("a"), two.session("a")
            first = session.checkpoint(grown(6))
            second = same.checkpoint(grown(7))
            assert second.parent == first.seq
            assert session.restore() == grown(7)
            with pytest.raises(NotFound):
                session.restore(second.seq + 1)
            assert session._read(checkpoints.listing) == same.checkpoints()
