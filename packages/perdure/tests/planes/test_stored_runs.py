"""What somebody altered in the documents of runs, steps, waits and effects is Damaged when it is read, with its path."""

from __future__ import annotations

import json

import pytest

import perdure
from perdure.errors import Damaged, Error, Parked
from planes.tampering import Intruder


@perdure.tool
def refuse():
    raise perdure.Failed("no")


@perdure.tool
def send():
    return 1


@perdure.agent
def failing(run):
    run.act(refuse)


@perdure.agent
def child(run):
    return 1


@perdure.agent
def asking(run):
    run.step(int)
    run.act(send)
    run.call(child)
    return run.ask("?", choices=["a"])


@pytest.fixture
def url(tmp_path):
    made = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(made) as store:
        for agent in (asking, failing):
            with pytest.raises(Error):
                store.drive(agent, key="k")
    return made


def name_of(url: str, agent: str) -> str:
    return Intruder(url).one("SELECT name FROM runs WHERE agent = ?", agent)


def alter(url: str, kind: str, **fields: object) -> None:
    """Change fields of the document of the first event of a kind."""
    intruder = Intruder(url)
    body = json.loads(intruder.one("SELECT body FROM events WHERE kind = ? ORDER BY pos", kind))
    body["doc"] |= fields
    changed = json.dumps(body).encode()
    intruder.run("UPDATE events SET body = ? WHERE pos = (SELECT min(pos) FROM events WHERE kind = ?)", changed, kind)


READ = {
    "the error of a run": ("run.failed", {"error": {"code": 1}}, lambda s: s.runs(agent="failing")),
    "an error that is text": ("run.failed", {"error": "x"}, lambda s: s.runs(agent="failing")),
    "the arguments of a run": ("run.started", {"args": 5}, lambda s: s.runs()),
    "its named arguments": ("run.started", {"kwargs": [1]}, lambda s: s.runs()),
    "the choices of an ask": ("ask.opened", {"choices": 5}, lambda s: s.asks()),
    "one choice": ("ask.opened", {"choices": [5]}, lambda s: s.asks()),
    "the arguments of an effect": ("effect.dispatched", {"args": [1]}, lambda s: s.effects()),
    "its rule": ("effect.dispatched", {"rule": {"retries": "x"}}, lambda s: s.effects()),
    "who settled it": ("effect.committed", {"by": [1]}, lambda s: s.effects()),
}
STEPS = {
    "the place of a step": {"place": [1]},
    "its digest": {"digest": 5},
    "its name": {"name": None},
    "its error": {"error": [1]},
    "its notes": {"notes": [1]},
}
ANSWERS = {
    "no answer": 5,
    "an error that is none": {"error": 5},
    "an error of one word": {"error": ["x"]},
    "nothing": None,
}


def wholly(found):
    """What was read. A listing names a row that cannot be, and shows the others: here it must miss none."""
    return found.whole() if isinstance(found, perdure.Page) else found


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_damaged(url, case):
    kind, fields, read = READ[case]
    with perdure.open(url) as store:
        read(store)
        alter(url, kind, **fields)
        with pytest.raises(Damaged) as damaged:
            wholly(read(store))
    assert damaged.value.path


@pytest.mark.parametrize("fields", STEPS.values(), ids=STEPS)
def test_a_run_with_a_damaged_step_is_not_driven(url, fields):
    alter(url, "step.done", **fields)
    with perdure.open(url) as store:
        store.run(name_of(url, "asking")).resume()
        with pytest.raises((Damaged, Parked), match=r"the stored data is no step|not fields by name"):
            store.drive(asking, key="k")


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_a_child_is_said_to_have_given_is_checked(url, answer):
    alter(url, "run.wait.answered", answer=answer)
    with perdure.open(url) as store:
        run = store.run(name_of(url, "asking")).resume()
        with pytest.raises(Error, match="the stored data is no end of a run"):
            store.drive(asking, key="k")
        assert run.refresh().record.error.code in ("Damaged", "damaged")
