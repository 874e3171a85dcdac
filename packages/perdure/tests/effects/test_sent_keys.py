"""The key that a tool gets is one for its effect in all the world, where the key of its caller is one in its stream (P3)."""

from __future__ import annotations

import perdure


def test_the_same_key_in_two_sessions_is_sent_as_two_and_as_one_in_each(tmp_path) -> None:
    sent: list[str] = []

    @perdure.tool(kind="keyed", name="pay")
    def pay(amount: int, key: str) -> int:
        sent.append(key)
        return amount

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        for name in ("a", "b", "a"):
            store.session(name).act(pay, 7, key="k")
        assert len(sent) == len(set(sent)) == 2
        assert sorted(sent) == sorted(each.record.sent_key for each in store.effects())
