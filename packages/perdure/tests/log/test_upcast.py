"""A body that an older schema wrote is read as the current one would have written it; a newer one is refused."""

from __future__ import annotations

import pytest

from perdure.errors import NewerSchema
from perdure.log.event import CODEC_JSON, Body, Event
from perdure.log.upcast import BODY_VERSION, Upcast, upcast

EVENT = Event(7, "thing.made", "things", "ann", 0, CODEC_JSON, b"", b"", None, None)


def test_a_body_goes_through_every_step_from_its_version_on():
    def marked(version: int) -> Upcast:
        return lambda event, body: Body(set=body.set | {f"step {version}": event.seq})

    steps = {version: marked(version) for version in (1, 2, 4)}
    assert upcast(EVENT, Body(set={"a": 1}, v=2), steps, 5).set == {"a": 1, "step 2": 7, "step 4": 7}


def test_what_a_newer_perdure_wrote_is_refused():
    body = Body(v=BODY_VERSION)
    assert upcast(EVENT, body) is body
    with pytest.raises(NewerSchema) as refused:
        upcast(EVENT, Body(v=BODY_VERSION + 1))
    assert refused.value.path == "seq 7"
