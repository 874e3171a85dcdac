# Generated from testing/contract/aio/values.py by tools/unasync.py: edit that one.
"""The contract of values, per session and per scope."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, TooLarge
from perdure.stores.tx import LOG
from perdure.testing.openers import Opener
from perdure.testing.races import Race

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


class ValuesContract:
    """What every store must do with values."""

    def test_a_value_comes_back_with_its_version(self, opener: Opener) -> None:
        with opener(actor="alice") as store:
            session = store.session("s")
            first = session.set("branch", "fix-42")
            assert (first.name, first.value, first.version, first.actor) == ("branch", "fix-42", 1, "alice")
            assert (session.set("branch", "fix-43")).version == 2
            assert session.get("branch") == "fix-43"
            found = session.entry("branch")
            assert found is not None
            assert (found.version, found.expires_at, found.age) == (2, None, timedelta(0))

    def test_age_is_told_by_the_stores_clock(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            was = session.set("x", 1)
            opener.clock.advance("90s")
            found = session.entry("x")
            assert found is not None
            assert found.age == timedelta(seconds=90)
            assert found.updated_at == was.updated_at

    def test_none_is_a_value_and_missing_is_not(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            session.set("x", None)
            assert session.get("x", 7) is None
            assert session.get("y", 7) == 7
            assert session.entry("y") is None

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
    def test_values_come_back_as_they_were(self, opener: Opener, value: Any) -> None:
        with opener() as store:
            session = store.session("s")
            session.set("x", value)
            assert session.get("x") == value
            assert (session.entries())[0].value == value

    # -- compare and set -------------------------------------------------------------------------------------

    def test_expect_lets_only_the_right_version_through(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            assert (session.set("x", "a", expect=0)).version == 1
            assert (session.set("x", "b", expect=1)).version == 2
            with pytest.raises(Conflict) as refused:
                session.set("x", "c", expect=1)
            assert refused.value.path == "expect"
            assert refused.value.facts == {"version": 2, "value": "b"}
            with pytest.raises(Conflict):
                session.set("x", "c", expect=0)
            with pytest.raises(Conflict) as missing:
                session.set("other", "c", expect=3)
            assert missing.value.facts == {"version": 0, "value": None}
            assert session.get("x") == "b"
            assert session.entry("other") is None

    def test_of_two_who_set_it_first_one_wins(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for i in range(8):
                outcomes = Race.between(
                    partial(one.set, f"n{i}", "one", expect=0), partial(other.set, f"n{i}", "other", expect=0)
                )
                assert len(outcomes.won) == 1
                assert [type(error) for error in outcomes.refused] == [Conflict]
                assert one.get(f"n{i}") == other.get(f"n{i}") == outcomes.won[0].value

    def test_of_two_who_change_a_version_one_wins(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            version = (one.set("x", 0)).version
            for _ in range(8):
                outcomes = Race.between(
                    partial(one.set, "x", "one", expect=version), partial(other.delete, "x", expect=version)
                )
                assert len(outcomes.won) == 1
                found = other.entry("x")
                assert (found is None) == (outcomes.won == [True])
                version = (one.set("x", 0)).version
            assert version == 17

    def test_updates_from_two_connections_are_not_lost(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            calls = [partial(handle.update, "n", lambda n: (n or 0) + 1) for handle in [one, other] * 6]
            outcomes = Race.between(*calls)
            assert outcomes.refused == []
            found = one.entry("n")
            assert found is not None
            assert (found.value, found.version) == (12, 12)

    def test_what_update_raises_changes_nothing(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            session.set("n", 1)
            with pytest.raises(ZeroDivisionError):
                session.update("n", lambda n: n / 0)
            assert (session.update("n", lambda n: n + 1, ttl="1h")).value == 2
            found = session.entry("n")
            assert found is not None
            assert found.expires_at is not None

    # -- going away ------------------------------------------------------------------------------------------

    def test_a_value_is_gone_when_its_time_is_over(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            entry = session.set("x", 1, ttl="10s")
            assert entry.expires_at == entry.updated_at + timedelta(seconds=10)
            opener.clock.advance("9s")
            assert session.get("x") == 1
            opener.clock.advance("1s")
            assert session.get("x") is None
            assert session.entries() == []
            assert session.delete("x") is False
            assert (session.set("x", 2, expect=0)).version == 2

    def test_setting_without_a_time_to_live_ends_it(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            session.set("x", 1, ttl="10s")
            session.set("x", 2)
            opener.clock.advance("1h")
            assert session.get("x") == 2

    def test_versions_go_on_after_a_deletion(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            session.set("x", 1)
            with pytest.raises(Conflict):
                session.delete("x", expect=9)
            assert session.delete("x", expect=1) is True
            assert session.delete("x") is False
            assert session.entry("x") is None
            with pytest.raises(Conflict):
                session.set("x", 2, expect=2)
            assert (session.set("x", 2, expect=0)).version == 3

    # -- listing ---------------------------------------------------------------------------------------------

    def test_entries_are_listed_by_the_bytes_of_their_names(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            names = ["a", "B", "_", "é", "z", "Z", "ä", "a b", "a-b", "ab", "\U0001f511", "ﬀ"]
            for name in names:
                session.set(name, name)
            in_order = sorted(names, key=str.encode)
            assert [entry.name for entry in session.entries()] == in_order
            seen, after = [], None
            while True:
                page = session.entries(limit=5, after=after)
                seen += [entry.name for entry in page]
                if page.next is None:
                    break
                after = page.next
            assert seen == in_order

    def test_a_prefix_is_exact_text(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
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
                    session.set(name, 1)
            assert [entry.name for entry in session.entries(prefix="a%")] == ["a%b", "a%c"]
            assert [entry.name for entry in session.entries(prefix="a_")] == ["a_"]
            assert [entry.name for entry in session.entries(prefix="a%c", after="a%b")] == ["a%c"]
            assert [entry.name for entry in session.entries(prefix="nothing")] == []
            assert len(session.entries(prefix="")) == len(session.entries())

    # -- names and refusals ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", HOSTILE)
    def test_hostile_names_are_only_names(self, opener: Opener, name: str) -> None:
        with opener() as store:
            for handle in (store.session("s"), store.scope(name)):
                handle.set(name, {name: name})
                assert handle.get(name) == {name: name}
                assert [entry.name for entry in handle.entries(prefix=name)] == [name]

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
    def test_bad_input_is_refused_with_its_path(
        self, opener: Opener, given: tuple[Any, Any], options: dict[str, Any], error: type, path: str
    ) -> None:
        with opener() as store:
            session = store.session("s")
            with pytest.raises(error) as refused:
                session.set(*given, **options)
            assert (type(refused.value), refused.value.path) == (error, path)
            assert session.entries() == []

    def test_bad_pages_are_refused(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            for options, path in (
                ({"limit": 0}, "limit"),
                ({"after": ""}, "after"),
                ({"prefix": 3}, "prefix"),
            ):
                with pytest.raises(Invalid) as refused:
                    session.entries(**options)  # type: ignore[arg-type]
                assert refused.value.path == path

    # -- scopes ----------------------------------------------------------------------------------------------

    def test_scopes_are_apart_and_outlive_sessions(self, opener: Opener) -> None:
        with opener() as store:
            session, scope = store.session("alice"), store.scope("alice")
            session.set("x", "session")
            scope.set("x", "scope")
            assert session.get("x") == "session"
            again = store.scope("alice")
            assert (again.uid, again.get("x")) == (scope.uid, "scope")
            assert (store.scope("bob")).get("x") is None

    def test_opening_a_scope_again_writes_nothing(self, opener: Opener) -> None:
        with opener() as store:
            scope = store.scope("user:alice")
            before = store._caller.read(lambda reads: reads.query(LOG.stream_by_uid, uid=bytes.fromhex(scope.uid)))
            head = store._caller.read(lambda reads: reads.query(LOG.stream_head, stream=before[0][0]))
            store.scope("user:alice")
            assert head[0][0] == 1
            assert head == store._caller.read(lambda reads: reads.query(LOG.stream_head, stream=before[0][0]))

    def test_a_scope_that_two_open_first_is_one(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            for i in range(5):
                outcomes = Race.between(partial(a.scope, f"p{i}"), partial(b.scope, f"p{i}"))
                assert outcomes.refused == []
                assert outcomes[0].uid == outcomes[1].uid

    @pytest.mark.parametrize("name", ["", "a\0", "s" * 201, None])
    def test_bad_names_of_scopes_are_refused(self, opener: Opener, name: Any) -> None:
        with opener() as store:
            with pytest.raises(Invalid) as refused:
                store.scope(name)
            assert refused.value.path == "scope"

    def test_another_tenant_has_its_own_values(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has no second open")
        with opener(tenant="one") as a, opener(tenant="other") as b:
            (a.scope("user")).set("x", "secret")
            assert (b.scope("user")).get("x") is None
            assert (b.scope("user")).entries() == []

    # -- in one commit with others ---------------------------------------------------------------------------

    def test_atomic_sees_its_own_values(self, opener: Opener) -> None:
        def both(tx: Any) -> list[Any]:
            tx.session("s").set("x", 1, ttl="1h")
            tx.scope("p").set("x", 2)
            tx.session("s").update("x", lambda n: n + 10)
            return [tx.session("s").get("x"), tx.scope("p").get("x"), len(tx.session("s").entries())]

        with opener() as store:
            assert store.atomic(both) == [11, 2, 1]
            assert (store.session("s")).get("x") == 11

    def test_atomic_keeps_all_or_nothing(self, opener: Opener) -> None:
        def half(tx: Any) -> None:
            tx.session("s").set("x", 2)
            tx.session("s").entries()
            tx.scope("p").set("x", 2, expect=7)

        with opener() as store:
            session = store.session("s")
            session.set("x", 1)
            with pytest.raises(Conflict):
                store.atomic(half)
            assert session.get("x") == 1
