"""What somebody altered in a row is Damaged when it is read, with its path; no foreign exception gets out."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import Damaged
from perdure.model.records.tasks import TaskStatus
from perdure.planes.reading import row_reading
from planes.tampering import Intruder

HUGE = 9223372036854775807


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "a.db"
    with perdure.open(f"sqlite:///{path}") as store:
        session = store.session("a", labels=["l"], pins={"model": "m"})
        session.say("user", "hi")
        session.say("assistant", calls=[perdure.Call("c", "t")])
        session.task("t", labels=["x"])
        session.set("k", 1)
        session.decide("d", because="b", tags=["x"])
        session.checkpoint({"a": 1})
        session.attach("n.txt", b"data")
        session.summarise(upto=session.turns()[0].seq, text="s")
        session.fork(name="f")
    return path.read_bytes()


BODIES = "UPDATE events SET body = x'7b22646f63223a5b315d7d'"  # {"doc":[1]}
CASES = {
    "labels": ("UPDATE sessions SET labels = 'nojson'", lambda s: s.session("a").label("z")),
    "labels in a list": ("UPDATE sessions SET labels = '[1]'", lambda s: s.sessions()),
    "labels of tasks": ("UPDATE tasks SET labels = '{'", lambda s: s.session("a").tasks()),
    "needs": ("UPDATE tasks SET needs = '[\"a\"]'", lambda s: s.session("a").tasks()),
    "status of a task": ("UPDATE tasks SET status = 'odd'", lambda s: s.session("a").tasks()),
    "status of a session": ("UPDATE sessions SET status = 'odd'", lambda s: s.session("a").info()),
    "role": ("UPDATE turns SET role = 'odd'", lambda s: s.session("a").turns()),
    "tags": ("UPDATE decisions SET tags = 'x'", lambda s: s.session("a").decisions()),
    "root": ("UPDATE checkpoints SET root = 'zz'", lambda s: s.session("a").restore()),
    "root in a collection": ("UPDATE checkpoints SET root = 'zz'", lambda s: s.collect()),
    "address": ("UPDATE artifacts SET address = 'zz'", lambda s: s.session("a").artifacts()),
    "bodies of turns": (BODIES, lambda s: s.session("a").turns()),
    "bodies of tasks": (BODIES, lambda s: s.session("a").tasks()),
    "bodies of decisions": (BODIES, lambda s: s.session("a").decisions()),
    "bodies of covers": (BODIES, lambda s: s.session("a").covers()),
    "bodies of pins": (BODIES, lambda s: s.session("a").pins()),
    "the past": (BODIES, lambda s: s.session("a").at(5)),
    "blobs": ('UPDATE events SET body = CAST(\'{"doc_blob":"zz"}\' AS BLOB)', lambda s: s.session("a").turns()),
}


INSTANTS = {
    "at of a decision": (f"UPDATE decisions SET at = {HUGE}", lambda s: s.session("a").decisions()),
    "at of a task": (f"UPDATE tasks SET at = {HUGE}", lambda s: s.tasks()),
    "updated_at": (f"UPDATE entries SET updated_at = {HUGE}", lambda s: s.session("a").entry("k")),
    "expires_at": (f"UPDATE entries SET expires_at = {HUGE}", lambda s: s.session("a").entry("k")),
    "created_at": (f"UPDATE sessions SET created_at = {-HUGE}", lambda s: s.sessions()),
    "at of a checkpoint": (f"UPDATE checkpoints SET at = {HUGE}", lambda s: s.session("a").checkpoints()),
    "at of an artifact": (f"UPDATE artifacts SET at = {HUGE}", lambda s: s.artifacts()),
    "at of an event": (f"UPDATE events SET at = {HUGE}", lambda s: s.session("a").turns()),
}


@pytest.mark.parametrize("what", INSTANTS)
def test_an_instant_that_no_calendar_has_ends_no_listing(furnished, tmp_path, what):
    """It is shown as the last or first that there is; verify finds who altered it. Older versions imported such instants."""
    text, use = INSTANTS[what]
    path = tmp_path / "a.db"
    path.write_bytes(furnished)
    url = f"sqlite:///{path}"
    Intruder(url).run(text)
    with perdure.open(url) as store:
        assert use(store)
        assert not store.verify().ok


def wholly(found):
    """What was read. A listing names a row that cannot be, and shows the others: here it must miss none."""
    return found.whole() if isinstance(found, perdure.Page) else found


@pytest.mark.parametrize("what", CASES)
def test_an_altered_row_is_damaged(furnished, tmp_path, what):
    text, use = CASES[what]
    path = tmp_path / "a.db"
    path.write_bytes(furnished)
    url = f"sqlite:///{path}"
    with perdure.open(url) as store:
        use(store)  # the control: it can be read as it was
    Intruder(url).run(text)
    with perdure.open(url) as store, pytest.raises(Damaged) as refused:
        wholly(use(store))
    assert refused.value.path


@pytest.mark.parametrize("column", ["", "{", "{}", "[1]", "null", '["a",', "\ud800"])
def test_a_column_of_names(column):
    with pytest.raises(Damaged, match="names"):
        row_reading.stored_names(column, "here")


def test_columns_as_we_write_them():
    assert row_reading.stored_names('["a", "ä"]', "here") == ("a", "ä")
    assert row_reading.stored_names("[]", "here") == ()
    assert row_reading.stored_numbers("[1, 2]", "here") == (1, 2)
    assert row_reading.stored_address("ff", "here") == b"\xff"
    assert row_reading.stored_state(TaskStatus, "todo", "here") is TaskStatus.TODO
    assert row_reading.stored_instant_or_none(None, "here") is None
