"""The contract of values, per session and per scope."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, TooLarge
from perdure.runtime.callers import caller_of
from perdure.stores.tx import LOG
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace

HOSTILE = [
    "../../etc/passwd",
    "'; DROP TABLE entries; --",
    "<script>alert(1)</script>",
    "100%_sure",
    "ключ 🔑",
    "a\\b",
    '"',
    "%s{x}",
]


class AsyncValuesContract:
    """The duties of every store with values."""

    async def test_a_value_comes_back_with_its_version(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session = await store.session("s")
            first = await session.set("branch", "fix-42")
            assert (first.name, first.value, first.version, first.actor) == ("branch", "fix-42", 1, "alice")
            assert (await session.set("branch", "fix-43")).version == 2
            assert await session.get("branch") == "fix-43"
            entry = await session.entry("branch")
            assert entry is not None
            assert (entry.version, entry.expires_at, entry.age) == (2, None, timedelta(0))

    async def test_age_is_told_by_the_stores_clock(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            was = await session.set("x", 1)
            opener.clock.advance("90s")
            entry = await session.entry("x")
            assert entry is not None
            assert entry.age == timedelta(seconds=90)
            assert entry.updated_at == was.updated_at

    async def test_none_is_a_value_and_missing_is_not(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.set("x", None)
            assert await session.get("x", 7) is None
            assert await session.get("y", 7) == 7
            assert await session.entry("y") is None

    @pytest.mark.parametrize(
        "value",
        [
            {"deep": [1, 2.5, True, None, {"$": "odd"}]},
            (b"\x00\xff", Decimal("1.50"), date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=UTC)),
            "x" * 20_000,  # a blob in the database
            "y" * 200_000,  # a blob in the artifact place
            2**80,
        ],
        ids=["json", "tagged", "blob", "large blob", "large number"],
    )
    async def test_values_come_back_as_they_were(self, opener: AsyncOpener, value: Any) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.set("x", value)
            assert await session.get("x") == value
            assert (await session.entries())[0].value == value

    # -- compare and set -------------------------------------------------------------------------------------

    async def test_expect_lets_only_the_right_version_through(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            assert (await session.set("x", "a", expect=0)).version == 1
            assert (await session.set("x", "b", expect=1)).version == 2
            with pytest.raises(Conflict) as refused:
                await session.set("x", "c", expect=1)
            assert refused.value.path == "expect"
            assert refused.value.facts == {"version": 2, "value": "b"}
            with pytest.raises(Conflict):
                await session.set("x", "c", expect=0)
            with pytest.raises(Conflict) as missing:
                await session.set("other", "c", expect=3)
            assert missing.value.facts == {"version": 0, "value": None}
            assert await session.get("x") == "b"
            assert await session.entry("other") is None

    async def test_of_two_who_set_it_first_one_wins(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for i in range(8):
                outcomes = await AsyncRace.between(
                    partial(one.set, f"n{i}", "one", expect=0), partial(other.set, f"n{i}", "other", expect=0)
                )
                assert len(outcomes.won) == 1
                assert [type(error) for error in outcomes.refused] == [Conflict]
                assert await one.get(f"n{i}") == await other.get(f"n{i}") == outcomes.won[0].value

    async def test_of_two_who_change_a_version_one_wins(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            version = (await one.set("x", 0)).version
            for _ in range(8):
                outcomes = await AsyncRace.between(
                    partial(one.set, "x", "one", expect=version), partial(other.unset, "x", expect=version)
                )
                assert len(outcomes.won) == 1
                entry = await other.entry("x")
                assert (entry is None) == (outcomes.won == [True])
                version = (await one.set("x", 0)).version
            assert version == 17

    async def test_updates_from_two_connections_are_not_lost(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            calls = [partial(handle.update, "n", lambda n: (n or 0) + 1) for handle in [one, other] * 6]
            outcomes = await AsyncRace.between(*calls)
            assert outcomes.refused == []
            entry = await one.entry("n")
            assert entry is not None
            assert (entry.value, entry.version) == (12, 12)

    async def test_what_update_raises_changes_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.set("n", 1)
            with pytest.raises(ZeroDivisionError):
                await session.update("n", lambda n: n / 0)
            assert (await session.update("n", lambda n: n + 1, ttl="1h")).value == 2
            entry = await session.entry("n")
            assert entry is not None
            assert entry.expires_at is not None

    # -- going away ------------------------------------------------------------------------------------------

    async def test_a_value_is_gone_when_its_time_is_over(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            entry = await session.set("x", 1, ttl="10s")
            assert entry.expires_at == entry.updated_at + timedelta(seconds=10)
            opener.clock.advance("9s")
            assert await session.get("x") == 1
            opener.clock.advance("1s")
            assert await session.get("x") is None
            assert await session.entries() == []
            assert await session.unset("x") is False
            assert (await session.set("x", 2, expect=0)).version == 2

    async def test_setting_without_a_time_to_live_ends_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.set("x", 1, ttl="10s")
            await session.set("x", 2)
            opener.clock.advance("1h")
            assert await session.get("x") == 2

    async def test_versions_go_on_after_a_deletion(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.set("x", 1)
            with pytest.raises(Conflict):
                await session.unset("x", expect=9)
            assert await session.unset("x", expect=1) is True
            assert await session.unset("x") is False
            assert await session.entry("x") is None
            with pytest.raises(Conflict):
                await session.set("x", 2, expect=2)
            assert (await session.set("x", 2, expect=0)).version == 3

    # -- listing ---------------------------------------------------------------------------------------------

    async def test_entries_are_listed_by_the_bytes_of_their_names(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            names = ["a", "B", "_", "é", "z", "Z", "ä", "a b", "a-b", "ab", "\U0001f511", "ﬀ"]
            for name in names:
                await session.set(name, name)
            in_order = sorted(names, key=str.encode)
            assert [entry.name for entry in await session.entries()] == in_order
            listed, after = [], None
            while True:
                page = await session.entries(limit=5, after=after)
                listed += [entry.name for entry in page]
                if page.next is None:
                    break
                after = page.next
            assert listed == in_order

    async def test_a_prefix_is_exact_text(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            for name in [
                "a%b",
                "aXb",
                "a%c",
                "a_",
                "a",
                "b",
                "A%b",
                "a\ud7ff",
                "a\U0010ffff",
                "a\U0010ffffz",
            ]:
                if name.isprintable():
                    await session.set(name, 1)
            assert [entry.name for entry in await session.entries(prefix="a%")] == ["a%b", "a%c"]
            assert [entry.name for entry in await session.entries(prefix="a_")] == ["a_"]
            assert [entry.name for entry in await session.entries(prefix="a%c", after="a%b")] == ["a%c"]
            assert [entry.name for entry in await session.entries(prefix="nothing")] == []
            assert len(await session.entries(prefix="")) == len(await session.entries())

    # -- names and refusals ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_hostile_names_are_only_names(self, opener: AsyncOpener, name: str) -> None:
        async with await opener() as store:
            for handle in (await store.session("s"), await store.scope(name)):
                await handle.set(name, {name: name})
                assert await handle.get(name) == {name: name}
                assert [entry.name for entry in await handle.entries(prefix=name)] == [name]

    @pytest.mark.parametrize(
        ("given", "options", "error", "path"),
        [
            (("", 1), {}, Invalid, "name"),
            (("a\0b", 1), {}, Invalid, "name"),
            (("a\nb", 1), {}, Invalid, "name"),
            (("\ud800", 1), {}, Invalid, "name"),
            (("n" * 201, 1), {}, TooLarge, "name"),
            ((7, 1), {}, Invalid, "name"),
            (("x", {"a": [float("nan")]}), {}, Invalid, "value.a[0]"),
            (("x", {"a": object()}), {}, Invalid, "value.a"),
            (("x", {1: 2}), {}, Invalid, "value"),
            (("x", ["\ud800"]), {}, Invalid, "value[0]"),
            (("x", 1), {"expect": -1}, Invalid, "expect"),
            (("x", 1), {"expect": True}, Invalid, "expect"),
            (("x", 1), {"expect": "1"}, Invalid, "expect"),
            (("x", 1), {"ttl": "soon"}, Invalid, "ttl"),
            (("x", 1), {"ttl": 0}, Invalid, "ttl"),
            (("x", 1), {"ttl": -5}, Invalid, "ttl"),
            (("x", 1), {"ttl": 10**12}, Invalid, "ttl"),
            (("x", 1), {"ttl": float("inf")}, Invalid, "ttl"),
        ],
    )
    async def test_bad_input_is_refused_with_its_path(
        self, opener: AsyncOpener, given: tuple[Any, Any], options: dict[str, Any], error: type, path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(error) as refused:
                await session.set(*given, **options)
            assert (type(refused.value), refused.value.path) == (error, path)
            assert await session.entries() == []

    async def test_bad_pages_are_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            for options, path in (
                ({"limit": 0}, "limit"),
                ({"after": ""}, "after"),
                ({"prefix": 3}, "prefix"),
            ):
                with pytest.raises(Invalid) as refused:
                    await session.entries(**options)  # type: ignore[arg-type]
                assert refused.value.path == path

    # -- scopes ----------------------------------------------------------------------------------------------

    async def test_scopes_are_apart_and_outlive_sessions(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("alice"), await store.scope("alice")
            await session.set("x", "session")
            await scope.set("x", "scope")
            assert await session.get("x") == "session"
            again = await store.scope("alice")
            assert (again.uid, await again.get("x")) == (scope.uid, "scope")
            assert await (await store.scope("bob")).get("x") is None

    async def test_opening_a_scope_again_writes_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            scope = await store.scope("user:alice")
            before = await caller_of(store).read(
                lambda reads: reads.query(LOG.stream_by_uid, uid=bytes.fromhex(scope.uid))
            )
            head = await caller_of(store).read(lambda reads: reads.query(LOG.stream_head, stream=before[0][0]))
            await store.scope("user:alice")
            assert head[0][0] == 1
            assert head == await caller_of(store).read(lambda reads: reads.query(LOG.stream_head, stream=before[0][0]))

    async def test_a_scope_that_two_open_first_is_one(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            for i in range(5):
                outcomes = await AsyncRace.between(partial(a.scope, f"p{i}"), partial(b.scope, f"p{i}"))
                assert outcomes.refused == []
                assert outcomes[0].uid == outcomes[1].uid

    @pytest.mark.parametrize("name", ["", "a\0", "s" * 201, None])
    async def test_bad_names_of_scopes_are_refused(self, opener: AsyncOpener, name: Any) -> None:
        async with await opener() as store:
            with pytest.raises(Invalid) as refused:
                await store.scope(name)
            assert refused.value.path == "scope"

    async def test_another_tenant_has_its_own_values(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has no second open")
        async with await opener(tenant="one") as a, await opener(tenant="other") as b:
            await (await a.scope("user")).set("x", "secret")
            assert await (await b.scope("user")).get("x") is None
            assert await (await b.scope("user")).entries() == []

    # -- in one commit with others ---------------------------------------------------------------------------

    async def test_atomic_sees_its_own_values(self, opener: AsyncOpener) -> None:
        def both(tx: Any) -> list[Any]:
            tx.session("s").set("x", 1, ttl="1h")
            tx.scope("p").set("x", 2)
            tx.session("s").update("x", lambda n: n + 10)
            return [tx.session("s").get("x"), tx.scope("p").get("x"), len(tx.session("s").entries())]

        async with await opener() as store:
            assert await store.atomic(both) == [11, 2, 1]
            assert await (await store.session("s")).get("x") == 11

    async def test_atomic_keeps_all_or_nothing(self, opener: AsyncOpener) -> None:
        def half(tx: Any) -> None:
            tx.session("s").set("x", 2)
            tx.session("s").entries()
            tx.scope("p").set("x", 2, expect=7)

        async with await opener() as store:
            session = await store.session("s")
            await session.set("x", 1)
            with pytest.raises(Conflict):
                await store.atomic(half)
            assert await session.get("x") == 1
