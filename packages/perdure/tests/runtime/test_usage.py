"""What a model's answer says it used is noted, whatever its answer is made of; and nothing of it costs the answer."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

import perdure
from perdure.model.usage import usage_of


@dataclasses.dataclass
class Details:
    cached_tokens: int


@dataclasses.dataclass(slots=True)
class Used:
    prompt_tokens: int
    completion_tokens: int
    details: Details | None = None
    service: object = None


class Counted(msgspec.Struct):
    input_tokens: int
    output_tokens: int


class Modelled:
    """As pydantic's are: its fields are its attributes, and some of them are private."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    @property
    def broken(self) -> int:
        raise RuntimeError("not here")


class Computed:
    """As a protocol's: no fields, but attributes."""

    __slots__ = ()
    input_tokens = property(lambda _: 3)
    output_tokens = property(lambda _: 4)
    other = property(lambda _: 5)


class Spiteful:
    @property
    def usage(self) -> object:
        raise RuntimeError("not here")


@perdure.registered("usage-reply")
@dataclasses.dataclass
class Reply:
    text: str
    usage: Any = None


@perdure.registered("usage-kept")
class Kept(msgspec.Struct, dict=True):
    input_tokens: int
    output_tokens: int


looped = Modelled(input_tokens=1)
looped.__dict__["itself"] = looped


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ({"in": 5, "why": ["x"]}, {"in": 5, "why": ["x"]}),
        (None, None),
        (7, 7),
        (Used(1, 2), {"prompt_tokens": 1, "completion_tokens": 2}),
        (Used(1, 2, Details(9), object()), {"prompt_tokens": 1, "completion_tokens": 2, "details": {"cached_tokens": 9}}),
        (Counted(3, 4), {"input_tokens": 3, "output_tokens": 4}),
        (Kept(3, 4), {"input_tokens": 3, "output_tokens": 4}),
        (Modelled(input_tokens=3, cost=0.5, tier="x", _private=1), {"input_tokens": 3, "cost": 0.5, "tier": "x"}),
        (Computed(), {"input_tokens": 3, "output_tokens": 4}),
        ({"in": object()}, None),
        (object(), None),
        (float("nan"), None),
    ],
)  # fmt: skip
def test_usage_of_answers_of_any_kind(said, noted) -> None:
    assert usage_of({"usage": said}) == noted
    assert usage_of(Reply("a", said)) == noted
    assert usage_of(Modelled(usage=said)) == noted


def test_who_calls_it_otherwise_is_heard_too() -> None:
    assert usage_of({"usage_metadata": {"input_tokens": 1}}) == {"input_tokens": 1}
    assert usage_of(Modelled(usage_metadata=Counted(1, 2))) == {"input_tokens": 1, "output_tokens": 2}


@pytest.mark.parametrize("answer", ["text", None, 7, ["a"], Spiteful(), {}, Reply("a")])
def test_an_answer_that_says_nothing_of_it(answer) -> None:
    assert usage_of(answer) is None


def test_what_goes_round_in_circles_comes_to_an_end() -> None:
    found = usage_of({"usage": looped})
    assert found["input_tokens"] == 1


@pytest.mark.parametrize("used", [{"input_tokens": 3, "output_tokens": 4}, Kept(3, 4)])
def test_a_registered_answer_has_its_usage_noted(used) -> None:
    def think() -> Reply:
        return Reply("so", used)

    @perdure.agent(name="thinker")
    def thinker(run: perdure.Run) -> str:
        return run.model(think, pins={"model": "m"}).text

    with perdure.open("memory:") as store:
        assert store.drive(thinker) == "so"
        [step] = store.runs()[0].steps()
        assert step.notes == {"model": {"model": "m"}, "usage": {"input_tokens": 3, "output_tokens": 4}}
        assert step.value == Reply("so", used)
