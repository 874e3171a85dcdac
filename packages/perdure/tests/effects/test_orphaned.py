"""What the dead left is found with one look at each holder, however much it was sending (P8)."""

from __future__ import annotations

import perdure
from perdure.planes.recovery import presence
from perdure_testing.clock import FakeClock


def test_a_heartbeat_is_asked_for_once_a_holder_not_once_an_effect(tmp_path, monkeypatch) -> None:
    clock = FakeClock()
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, actor="a", clock=clock) as a, perdure.open(url, actor="b", clock=clock) as b:
        for number in range(5):
            a.session("s").begin("send", key=f"k{number}").dispatch()
        clock.advance("1h")
        asked: list[str] = []
        is_alive = presence.is_alive
        monkeypatch.setattr(presence, "is_alive", lambda reads, holder: asked.append(holder) or is_alive(reads, holder))
        assert len(b.effects(in_doubt=True)) == 5
        assert len(asked) == 1
