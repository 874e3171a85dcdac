"""The key of a tool call: its own, or that of the unanswered call that it repeats, and no third call has it. P3."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from perdure_adapters.langgraph.call_keys import key_in


def asks(message, *ids, to="bob"):
    return AIMessage("", id=message, tool_calls=[{"id": id_, "name": "send", "args": {"to": to}} for id_ in ids])


def answer(id_):
    return ToolMessage("sent", tool_call_id=id_)


def keys(messages, *ids):
    return [key_in({"messages": messages}, id_) for id_ in ids]


def test_a_call_is_named_by_its_id_and_its_message():
    assert keys([asks("m1", "c1")], "c1") == ["c1@m1"]


def test_a_repetition_of_an_open_call_is_that_call():
    assert keys([asks("m1", "c1"), HumanMessage("again"), asks("m2", "c2")], "c2") == ["c1@m1"]


def test_a_third_call_is_a_new_one_once_the_repetition_is_answered():
    said = [asks("m1", "c1"), asks("m2", "c2"), answer("c2"), asks("m3", "c3")]
    assert keys(said, "c3") == ["c3@m3"]
    assert keys([*said, answer("c3"), asks("m4", "c4")], "c4") == ["c4@m4"]


def test_a_repetition_that_was_cut_off_too_leaves_the_same_call_open():
    assert keys([asks("m1", "c1"), asks("m2", "c2"), asks("m3", "c3")], "c3") == ["c1@m1"]


def test_ids_that_repeat_do_not_answer_one_another():
    said = [asks("m1", "c"), answer("c"), asks("m2", "c"), asks("m3", "c")]  # the second was cut off
    assert keys(said, "c") == ["c@m2"]
    assert keys([*said, answer("c"), asks("m4", "c")], "c") == ["c@m4"]


def test_two_like_calls_of_a_message_take_an_open_call_each_in_their_order():
    said = [asks("m1", "c1"), asks("m2", "c2", "c3")]
    assert keys(said, "c2", "c3") == ["c1@m1", "c3@m2"]
    assert keys([asks("m1", "a", "b"), answer("a"), asks("m2", "c", "d")], "c", "d") == ["b@m1", "d@m2"]


def test_a_call_with_other_arguments_repeats_nothing():
    assert keys([asks("m1", "c1"), asks("m2", "c2", to="eve")], "c2") == ["c2@m2"]


def test_messages_may_stand_under_any_name_or_have_no_id():
    said = [asks(None, "c"), answer("c"), asks(None, "c")]
    assert key_in({"turns": said}, "c") == "c@#2"
    assert key_in(said, "c") == "c@#2"
    assert key_in({}, "c") == "c"
    assert len(key_in({}, "c" * 900)) == 64
