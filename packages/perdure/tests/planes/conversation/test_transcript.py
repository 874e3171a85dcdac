"""The transcript is always one that a provider accepts (P14): checked by validators that know nothing of
how it is made.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from perdure.errors import Invalid
from perdure.model.records.conversation import Call, Cover, Role, Turn
from perdure.planes.conversation.transcript import CONTINUED, EMPTY, INTERRUPTED, TranscriptFormat, format_of, render

AT = datetime(2026, 1, 1, tzinfo=UTC)
ALLOWED = re.compile(r"[a-zA-Z0-9_-]+")


# -- what providers demand -----------------------------------------------------------------------------------


def check_name(name, longest):
    assert isinstance(name, str)
    assert ALLOWED.fullmatch(name)
    assert len(name) <= longest


def check_openai(messages):
    """What the chat completions API refuses, as its errors say it."""
    open_calls: list[str] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            assert message["tool_call_id"] in open_calls, "a tool message must answer a call right before it"
            open_calls.remove(message["tool_call_id"])
            assert isinstance(content, str)
            assert content
            continue
        assert not open_calls, "a call must be answered before anything else is said"
        assert role in ("system", "user", "assistant")
        calls = message.get("tool_calls", [])
        assert "tool_calls" not in message or calls, "tool_calls must not be empty"
        assert not calls or role == "assistant"
        assert content is not None or calls
        if isinstance(content, list):
            assert role == "user"
            assert content
            assert all(part["type"] in ("text", "image_url", "input_audio", "file") for part in content)
            assert all(part["text"] for part in content if part["type"] == "text")
        elif content is not None:
            assert content.strip()
        for call in calls:
            assert call["type"] == "function"
            check_name(call["id"], 40)
            check_name(call["function"]["name"], 64)
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            open_calls.append(call["id"])
        assert len(set(open_calls)) == len(open_calls)
    assert not open_calls, "the last calls must be answered"


def check_anthropic(messages):
    """What the messages API refuses, as its errors say it."""
    asked: list[str] = []
    ever: set[str] = set()
    for number, message in enumerate(messages):
        assert set(message) == {"role", "content"}
        assert message["role"] == ("user", "assistant")[number % 2], "roles take turns, and the user begins"
        blocks = message["content"]
        assert blocks, "no empty content"
        kinds = [block["type"] for block in blocks]
        if message["role"] == "user":
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
            assert sorted(results) == sorted(asked), "each call has exactly one result in the next message"
            assert set(kinds) <= {"tool_result", "text", "image", "document"}
            asked = []
        else:
            assert set(kinds) <= {"text", "tool_use", "thinking", "redacted_thinking"}
            asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert len(set(asked)) == len(asked)
            assert ever.isdisjoint(asked), "ids are unique in a conversation"
            ever.update(asked)
        for block in blocks:
            if block["type"] == "text":
                assert block["text"].strip()
            elif block["type"] == "tool_use":
                check_name(block["id"], 64)
                check_name(block["name"], 64)
                assert isinstance(block["input"], dict)
            elif block["type"] == "tool_result":
                assert block["content"]
    assert not asked, "the last calls must be answered"
    if messages and messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        text = messages[-1]["content"][-1]["text"]
        assert text == text.rstrip()


CHECKS = {TranscriptFormat.OPENAI: check_openai, TranscriptFormat.ANTHROPIC: check_anthropic}


# -- conversations -------------------------------------------------------------------------------------------


def turn(seq, role, content=None, calls=(), call=None, error=False):
    return Turn(seq, Role(role), content, tuple(calls), AT, "me", None, call, error)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
NAMES = st.one_of(st.sampled_from(["grep", "c1", "é/../x", "a b", "<b>", "x" * 90]), TEXT.filter(bool))
PARTS = st.sampled_from([
    {"type": "text", "text": "hi"}, {"type": "text", "text": " "}, {"type": "text", "text": None},
    {"type": "text"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    {"type": "image_url", "image_url": "x"},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}, {"type": "image"},
    {"type": "tool_use", "id": "c9", "name": "x", "input": {}}, {"type": "tool_result", "tool_use_id": "c9"},
    {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "odd"}, {"type": "thinking", "thinking": "hm"},
    {"type": "redacted_thinking", "data": "x"}, {"type": "redacted_thinking"},
    {"type": ["text"]}, {}, "text", 7,
])  # fmt: skip
CONTENTS = st.one_of(
    st.none(), st.sampled_from(["", " \n", "hello ", "x"]), TEXT, st.lists(PARTS, max_size=3),
    st.dictionaries(TEXT, st.integers(), max_size=2), st.booleans(), st.binary(max_size=2),
)  # fmt: skip
ARGS = st.one_of(st.just({}), st.none(), st.dictionaries(TEXT, TEXT), st.lists(st.integers()))


@st.composite
def conversations(draw):
    """Any log that sessions allow: calls with unique ids, at most one result each, whenever it came, and
    crashes.
    """
    items, waiting, used = [], [], set()
    for seq in range(1, draw(st.integers(0, 14)) + 1):
        role = draw(st.sampled_from(["system", "user", "assistant", "assistant", "tool", "cover"]))
        if role == "cover":
            items.append(Cover(seq, 1, seq, draw(st.sampled_from(["", "so far"])), AT, "me"))
        elif role == "tool":
            orphan = draw(st.booleans()) or not waiting
            call = draw(NAMES) if orphan else waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            items.append(turn(seq, "tool", draw(CONTENTS), call=call, error=draw(st.booleans())))
        else:
            ids = draw(st.lists(NAMES, max_size=3, unique=True)) if role == "assistant" else []
            fresh = [call for call in ids if call not in used]
            used.update(fresh)
            waiting += fresh
            items.append(turn(seq, role, draw(CONTENTS), [Call(call, draw(NAMES), draw(ARGS)) for call in fresh]))
    return items


def naive_openai(items):
    """What people write first: one message a turn."""
    for item in items:
        if item.role is Role.TOOL:
            yield {"role": "tool", "tool_call_id": item.call, "content": str(item.content)}
        else:
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": "{}"}}
                for call in item.calls
            ]
            yield {"role": item.role.value, "content": item.content} | ({"tool_calls": calls} if calls else {})


def naive_anthropic(items):
    for item in items:
        if item.role is Role.TOOL:
            yield {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": item.call, "content": "1"}],
            }
        else:
            calls = [{"type": "tool_use", "id": call.id, "name": call.tool, "input": {}} for call in item.calls]
            text = [] if item.content is None else [{"type": "text", "text": item.content}]
            yield {"role": item.role.value, "content": [*text, *calls]}


NAIVE = {TranscriptFormat.OPENAI: naive_openai, TranscriptFormat.ANTHROPIC: naive_anthropic}


# -- the proof and its control -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", list(TranscriptFormat))
@given(items=conversations())
def test_every_crash_prefix_of_every_conversation_is_accepted(shape, items):
    for length in range(len(items) + 1):
        CHECKS[shape](render(items[:length], shape))
        CHECKS[shape](render(items[length:], shape))
    event(f"{len(items)} items")


@pytest.mark.parametrize(
    "items",
    [
        [turn(1, "user", "hi"), turn(2, "assistant", None, [Call("c1", "t")])],
        [turn(1, "assistant", None, [Call("c1", "t")]), turn(2, "user", "?"), turn(3, "tool", 1, call="c1")],
        [turn(1, "tool", 1, call="c1")],
        [turn(1, "user", "")],
        [turn(1, "assistant", None, [Call("c 1", "t")]), turn(2, "tool", 1, call="c 1")],
    ],
)
def test_control_the_validators_refuse_a_naive_transcript(items):
    for shape, check in CHECKS.items():
        with pytest.raises(AssertionError):
            check(list(NAIVE[shape](items)))
        check(render(items, shape))


def test_control_the_validators_accept_a_naive_transcript_of_what_went_well():
    items = [
        turn(1, "user", "hi"),
        turn(2, "assistant", None, [Call("c1", "t")]),
        turn(3, "tool", 1, call="c1"),
    ]
    for shape, check in CHECKS.items():
        check(list(NAIVE[shape](items)))


@given(items=conversations())
def test_nothing_that_was_said_is_lost_and_results_stay_with_their_calls(items):
    messages = render(items, TranscriptFormat.OPENAI)
    said = [item for item in items if isinstance(item, Turn) and item.role is not Role.TOOL]
    covers = [item for item in items if isinstance(item, Cover)]
    assert len([message for message in messages if message["role"] != "tool"]) == len(said) + len(covers)
    answers = {item.call: item for item in items if isinstance(item, Turn) and item.role is Role.TOOL}
    made = [call.id for item in said for call in item.calls]
    unknown = [message for message in messages if message["content"] == INTERRUPTED]
    assert len(unknown) == len([call for call in made if call not in answers])


# -- how it looks --------------------------------------------------------------------------------------------


def test_a_whole_conversation_in_both_formats():
    items = [
        turn(1, "system", "Be kind"),
        turn(2, "user", "Login fails"),
        turn(3, "assistant", "Let me look", [Call("c1", "grep", {"q": "Safari"}), Call("c2", "ls")]),
        turn(4, "user", "And?"),
        turn(5, "tool", {"hits": 3}, call="c2"),
        turn(6, "assistant", "Found it "),
    ]
    assert render(items, TranscriptFormat.OPENAI) == [
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": "Login fails"},
        {"role": "assistant", "content": "Let me look", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"q":"Safari"}'}},
            {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": INTERRUPTED},
        {"role": "tool", "tool_call_id": "c2", "content": '{"hits":3}'},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "Found it "},
    ]  # fmt: skip
    messages = render(items, TranscriptFormat.ANTHROPIC)
    assert messages.system == "Be kind"
    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "Login fails"}]},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Let me look"},
            {"type": "tool_use", "id": "c1", "name": "grep", "input": {"q": "Safari"}},
            {"type": "tool_use", "id": "c2", "name": "ls", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": INTERRUPTED, "is_error": True},
            {"type": "tool_result", "tool_use_id": "c2", "content": '{"hits":3}'},
            {"type": "text", "text": "And?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Found it"}]},
    ]  # fmt: skip


def test_images_are_translated():
    openai = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    anthropic = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    for part in (openai, anthropic):
        items = [turn(1, "user", [{"type": "text", "text": "see"}, part])]
        assert render(items, TranscriptFormat.OPENAI)[0]["content"][1] == openai
        assert render(items, TranscriptFormat.ANTHROPIC)[0]["content"][1] == anthropic


def test_what_is_missing_is_said():
    assert render([turn(1, "user", " ")], TranscriptFormat.OPENAI) == [{"role": "user", "content": EMPTY}]
    begins = render([turn(1, "assistant", "hi")], TranscriptFormat.ANTHROPIC)[0]
    assert begins == {"role": "user", "content": [{"type": "text", "text": CONTINUED}]}
    failed = render(
        [turn(1, "assistant", calls=[Call("c", "t")]), turn(2, "tool", "no", call="c", error=True)],
        TranscriptFormat.OPENAI,
    )
    assert failed[1]["content"] == "error: no"


def test_two_names_that_look_alike_stay_apart():
    calls = [Call("a b", "t"), Call("a/b", "t"), Call("a_b", "t")]
    made = render([turn(1, "assistant", calls=calls)], TranscriptFormat.OPENAI)[0]["tool_calls"]
    assert len({call["id"] for call in made}) == 3
    assert made[2]["id"] == "a_b"


@pytest.mark.parametrize("name", ["xml", "", None, ["openai"]])
def test_an_unknown_format_is_refused(name):
    with pytest.raises(Invalid) as caught:
        format_of(name)
    assert caught.value.path == "format"


def test_thoughts_are_sent_to_who_signed_them_and_are_words_to_nobody():
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    unsigned = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "thinking": "hm", "signature": None},
        {"type": "redacted_thinking"},
    ]
    said = {"type": "text", "text": "Hello"}
    talk = [turn(1, "user", "hi"), turn(2, "assistant", [signed, redacted, *unsigned, said])]
    assert render(talk, TranscriptFormat.ANTHROPIC)[1]["content"] == [signed, redacted, said]
    assert render(talk, TranscriptFormat.OPENAI)[1]["content"] == "Hello"
    only = [turn(1, "user", "hi"), turn(2, "assistant", unsigned)]
    for shape in TranscriptFormat:
        assert "thinking" not in str(render(only, shape))
