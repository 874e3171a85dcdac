"""A client has taken a notification only when its whole answer says so."""

from __future__ import annotations

import pytest

pytest.importorskip("a2a", reason="needs the extra a2a: `make setup` installs it")

from a2a.types import a2a_pb2 as pb

from hostile_http import ENDS, WHOLE, RawServer, cuts
from perdure.doors.a2a.pushing import _post


def test_a_notification_whose_answer_is_cut_is_sent_again() -> None:
    with RawServer() as server:

        def is_taken(answer: bytes) -> bool:
            server.answers = [answer]
            return _post(pb.TaskPushNotificationConfig(url=server.url), pb.Task(id="t"))

        for kind in ("200", "200 in chunks", "204"):
            assert not any(is_taken(each) for each in cuts(WHOLE[kind])), kind
            assert is_taken(WHOLE[kind]), kind  # the control
        assert is_taken(ENDS["200"])
        assert not any(is_taken(WHOLE[kind]) for kind in ("302", "404", "500", "503"))
