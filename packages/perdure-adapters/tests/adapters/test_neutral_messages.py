"""Records of frameworks become turns and come back; other frameworks read them. No framework is needed for it."""

from __future__ import annotations

import pytest

import perdure
from perdure_adapters.forms import adk_events as adk
from perdure_adapters.forms import claude_lines as claude
from perdure_adapters.forms import langchain_messages as langchain
from perdure_adapters.forms import openai_items as openai
from perdure_adapters.neutral_messages import for_provider, identity_in, identity_of, keep, show, thought, unanswered

PNG = "data:image/png;base64,iVBORw0KGgo="
ITEMS = [
    {"role": "user", "content": "hello"},
    {"role": "user", "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": PNG}]},
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA"},
    {"type": "function_call", "id": "f1", "call_id": "c1", "name": "find", "arguments": '{"q": 1}', "status": "completed"},
    {"type": "function_call", "call_id": "c2", "name": "find", "arguments": "not json"},
    {"type": "function_call_output", "call_id": "c1", "output": "1 hit"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "no"}]},
    {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "done", "annotations": []}]},
    {"type": "compaction", "id": "k", "encrypted_content": "x\x00\ud800"},
    {"type": "function_call_output", "call_id": "nobody", "output": "orphan"},
    {"anything": [1, 2.5, None]},
]  # fmt: skip
LINES = [
    {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hi"}},
    {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": {"model": "m", "usage": {"n": 1}, "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]}},
    {"type": "user", "uuid": "u3", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "a.py", "is_error": True}]}},
    {"type": "summary", "summary": "x"},
]  # fmt: skip


@pytest.fixture
def session(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store.session("s")


@pytest.mark.parametrize(("form", "records"), [(openai.ITEMS, ITEMS), (claude.LINES, LINES)])
def test_every_record_comes_back_as_it_was(session, form, records):
    for record in records:
        keep(session, form, record)
    shown = show(form, list(session.turns(after=0)), completes=False)
    assert shown.records == records
    assert shown.skipped == 0
    assert session.transcript()
    assert session.transcript("anthropic")


def test_a_session_of_one_framework_is_read_by_another(session):
    for line in LINES:
        keep(session, claude.LINES, line)
    shown = show(openai.ITEMS, list(session.turns(after=0)))
    assert shown.skipped == 1  # the summary line
    assert shown.records == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I look"},
        {"call_id": "t1", "name": "Bash", "arguments": '{"command":"ls"}', "type": "function_call"},
        {"call_id": "t1", "output": "error: a.py", "type": "function_call_output"},
    ]
    anthropic = session.transcript("anthropic")
    assert anthropic[1]["content"][0] == {
        "type": "thinking",
        "thinking": "hm",
        "provider": "anthropic",
        "signature": "sig",
    }
    usage = [turn.usage for turn in session.turns() if turn.usage]
    assert usage == [{"n": 1}]


def test_a_call_without_a_result_is_shown_as_interrupted(session):
    for item in ITEMS[:4]:
        keep(session, openai.ITEMS, item)
    turns = list(session.turns(after=0))
    assert unanswered(turns) == {turns[-1].seq: {"c1"}}
    assert "interrupted" in show(openai.ITEMS, turns).records[-1]["output"]


def test_signed_reasoning_goes_to_its_own_provider_alone():
    mine, theirs = thought("a", "anthropic", "s"), thought("b", "openai")
    assert for_provider([mine, theirs], "anthropic") == [mine]
    assert for_provider([mine], "openai") is None


def test_an_item_that_comes_twice_under_a_key_is_one_turn(session):
    first = keep(session, claude.LINES, LINES[0], key="u1")
    assert keep(session, claude.LINES, LINES[0], key="u1") == first
    assert len(session.turns()) == 1


# -- the identity of a turn ----------------------------------------------------------------------------------------

BEARING = [adk.FORM, claude.LINES, langchain.FORM]  # forms whose records bear ids


@pytest.mark.parametrize("form", BEARING, ids=lambda form: form.name)
def test_a_record_that_comes_back_is_the_turn_that_it_was_rendered_of(session, form):
    for item in ITEMS[:7]:
        keep(session, openai.ITEMS, item)
    turns = [*session.turns(after=0)]
    records = show(form, turns).records
    assert {keep(session, form, record).seq for record in records} <= {turn.seq for turn in turns}
    assert [*session.turns(after=0)] == turns


@pytest.mark.parametrize("form", BEARING, ids=lambda form: form.name)
def test_a_result_that_only_says_that_it_is_missing_is_never_kept(session, form):
    for item in ITEMS[:4]:
        keep(session, openai.ITEMS, item)
    turns = [*session.turns(after=0)]
    missing = show(form, turns).records[-1]
    assert "interrupted" in str(missing)
    assert keep(session, form, missing) == turns[-1]
    assert session.result_of("c1") is None


def test_a_record_of_a_retracted_turn_or_of_another_session_is_new(session):
    turn = session.say("user", "hello")
    [record] = show(langchain.FORM, [turn]).records
    session.retract(turn)
    again = keep(session, langchain.FORM, record)
    assert again.content == "hello"
    assert again.seq > turn.seq
    uid = "0" * 32
    record["data"]["id"] = identity_of(turn).replace(turn.ref.uid, uid)
    assert keep(session, langchain.FORM, record).seq > again.seq


@pytest.mark.parametrize("name", ["", "m1", None, 7, "perdure:x:1", f"perdure:{'a' * 32}:", f"perdure:{'a' * 32}:1 "])
def test_an_id_of_a_frameworks_own_is_no_identity(name):
    assert identity_in(name) is None


def test_an_id_that_another_framework_used_again_hides_no_result(session):
    own = [
        {"type": "assistant", "uuid": "u1", "message": {"content": [{"type": "tool_use", "id": "c1", "name": "a", "input": {}}]}},
        {"type": "user", "uuid": "u2", "message": {"content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}]}},
    ]  # fmt: skip
    for line in own:
        keep(session, claude.LINES, line)
    for item in ({"type": "function_call", "call_id": "c1", "name": "b", "arguments": "{}"},
                 {"type": "function_call_output", "call_id": "c1", "output": "2"}):  # fmt: skip
        keep(session, openai.ITEMS, item)
    results = [
        line["message"]["content"][0].get("content") for line in show(claude.LINES, [*session.turns(after=0)]).records
    ]
    assert results == [None, "1", None, "2"]


def test_a_framework_that_resumes_is_shown_results_of_its_calls_when_another_one_has_spoken(session):
    uses = [{"type": "tool_use", "id": each, "name": "a", "input": {}} for each in ("c1", "c2")]
    call = {"type": "assistant", "uuid": "u1", "message": {"content": uses}}
    keep(session, claude.LINES, call)
    session.result("c1", "from the ledger")
    assert show(claude.LINES, [*session.turns(after=0)], resumes=True).records == [call]
    session.say("user", "go on")
    shown = str(show(claude.LINES, [*session.turns(after=0)], resumes=True).records)
    assert shown.count("from the ledger") == shown.count("interrupted") == 1
