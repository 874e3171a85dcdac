"""The learning export: rows that the formats' own validators take, equal bytes twice, nothing foreign, nothing that went."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.interchange import learning

SHAPES = ("openai", "trl", "preferences", "atif")
CANARY = "canary-91c2"


@perdure.tool
def send(what: str) -> str:
    return what


@perdure.agent(name="learning-asker")
def asker(run: perdure.Run) -> str:
    return run.ask("go?")


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        furnish(store)
        yield store


def furnish(store: perdure.Store) -> None:
    """A session with calls, one that was forked and went better, one with a person's answer, one that says nothing."""
    main = store.session("main")
    main.say("system", "Be brief.")
    main.say("user", [{"type": "text", "text": "Fix it"}])
    main.say(
        "assistant", "Looking", model="m-1", usage={"input_tokens": 5, "output_tokens": 2},
        calls=[perdure.Call("c1", "grep", {"q": "x"}), perdure.Call("c2", "read file", ["not", "a", "dict"])],
    )  # fmt: skip
    main.result("c1", {"hits": 3})
    main.result("c2", "gone", error=True)
    better = main.fork(name="better")
    main.say("assistant", "I give up")
    main.decide("give up", because="hard").close("failed")
    better.say("assistant", "It works now")
    better.decide("mend it", because="easy").close("worked")
    with pytest.raises(perdure.Waiting):
        store.drive(asker, key="k", session="asked")
    store.session("asked").say("user", "please")
    store.answer(next(iter(store.asks())).id, "yes")
    store.drive(asker, key="k", session="asked")
    store.session("silent")


def rows(store: perdure.Store, folder: Path, shape: str, **more: Any) -> tuple[list[dict], list[dict]]:
    done = store.export_learning(folder / f"{shape}.jsonl", shape, everything=True, **more)
    found = [[json.loads(line) for line in Path(path).read_text().splitlines()] for path in (done.path, done.lineage)]
    assert len(found[0]) == len(found[1]) == done.rows
    return found[0], found[1]


def test_openai_rows_are_what_fine_tuning_takes(store, tmp_path):
    """The published rules of the chat form, restated: known keys and roles, arguments as text, every call answered in place."""
    found, lineage = rows(store, tmp_path, "openai")
    assert [line["session"] for line in lineage] == ["asked", "better", "main"]
    for row in found:
        assert set(row) <= {"messages", "tools", "parallel_tool_calls"}
        declared = {tool["function"]["name"] for tool in row.get("tools", ())}
        open_calls: list[str] = []
        for message in row["messages"]:
            assert set(message) <= {"role", "content", "name", "tool_calls", "tool_call_id", "weight"}
            assert message["role"] in {"system", "user", "assistant", "tool"}
            if message["role"] == "tool":
                open_calls.remove(message["tool_call_id"])
                continue
            assert not open_calls, "a message between a call and its result"
            for call in message.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                assert call["function"]["name"] in declared
                open_calls.append(call["id"])
        assert not open_calls


def test_trl_rows_are_conversational(store, tmp_path):
    """TRL's own test of a conversational example (`trl.data_utils.is_conversational`), restated: role and content in each."""
    found, _ = rows(store, tmp_path, "trl")
    for row in found:
        assert all(isinstance(each["content"], str) and each["role"] for each in row["messages"])
    calls = [call for row in found for each in row["messages"] for call in each.get("tool_calls", ())]
    assert {json.dumps(call["function"]["arguments"]) for call in calls} == {
        '{"q": "x"}',
        '{"value": ["not", "a", "dict"]}',
    }


def test_a_fork_that_went_better_is_a_preference(store, tmp_path):
    found, lineage = rows(store, tmp_path, "preferences")
    assert len(found) == 1
    assert [each["content"] for each in found[0]["chosen"]] == ["It works now"]
    assert [each["content"] for each in found[0]["rejected"]] == ["I give up"]
    assert found[0]["prompt"][0] == {"role": "system", "content": "Be brief."}
    assert lineage[0]["session"] == "better"
    assert lineage[0]["forked_from"]["session"] == "main"


def test_atif_trajectories_validate(store, tmp_path):
    atif = pytest.importorskip(
        "atif", reason="needs atif, which has the models of the format: `make setup` installs it"
    )
    found, _ = rows(store, tmp_path, "atif")
    for row in found:
        made = atif.Trajectory.model_validate(row)
        assert made.schema_version == "ATIF-v1.8"
    main = next(row for row in found if row["session_id"] == "main")
    step = main["steps"][2]
    assert [each["source_call_id"] for each in step["observation"]["results"]] == ["c1", "c2"]
    assert step["metrics"] == {"prompt_tokens": 5, "completion_tokens": 2}


def test_control_a_broken_trajectory_does_not_validate(store, tmp_path):
    atif = pytest.importorskip("atif", reason="as above")
    found, _ = rows(store, tmp_path, "atif")
    found[0]["steps"][0]["step_id"] = 7
    with pytest.raises(ValueError, match="sequential"):
        atif.Trajectory.model_validate(found[0])


def test_lineage_names_outcome_corrections_and_events(store, tmp_path):
    _, lineage = rows(store, tmp_path, "openai")
    by_name = {line["session"]: line for line in lineage}
    assert by_name["better"]["outcome"]["label"] == "worked"
    assert by_name["main"]["outcome"]["label"] == "failed"
    assert by_name["asked"]["outcome"] == {
        "label": "worked", "runs": {"completed": 1}, "effects": {}, "decisions": {}
    }  # fmt: skip
    assert [(each["kind"], each["answer"]) for each in by_name["asked"]["corrections"]] == [("answered", "yes")]
    assert all(len(line["head_hash"]) == 64 and line["head_seq"] > 1 and len(line["uid"]) == 32 for line in lineage)


def test_a_call_that_was_refused_is_not_learnt(tmp_path):
    """Its answer stays as context with weight 0; the lineage names it. An answer whose call went through is learnt."""
    refused = perdure.Call("c1", "send", {"what": "x"})
    passed = perdure.Call("c2", "send", {"what": "y"})
    guard = lambda intent, _: perdure.Refuse("no") if intent.args["what"] == "x" else None  # noqa: E731
    with perdure.open(f"sqlite:///{tmp_path}/a.db", guards=[guard]) as store:
        session = store.session("s")
        for call in (refused, passed):
            session.say("assistant", "sending", calls=[call])
            with contextlib.suppress(perdure.Error):
                session.act(send, call.args["what"], call=call)
        found, lineage = rows(store, tmp_path, "openai")
    answers = [each for each in found[0]["messages"] if each["role"] == "assistant"]
    assert [each.get("weight", 1) for each in answers] == [0, 1]
    assert [each["kind"] for each in lineage[0]["corrections"]] == ["withdrawn"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_state_gives_the_same_bytes(store, tmp_path, shape):
    first = store.export_learning(tmp_path / "1", shape, everything=True)
    second = store.export_learning(tmp_path / "2", shape, everything=True)
    assert first.digest == second.digest == hashlib.sha256((tmp_path / "1").read_bytes()).hexdigest()
    assert (tmp_path / "1.lineage.jsonl").read_bytes() == (tmp_path / "2.lineage.jsonl").read_bytes()


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_foreign_and_nothing_that_went(tmp_path, shape):
    """Another tenant's turns, a retracted one and one that retention took: in no format, and not in the lineage."""
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, tenant="other") as other:
        furnish(other)
        other.session("main").say("user", CANARY)
    with perdure.open(url) as store:
        session = store.session("s")
        session.retract(session.say("user", CANARY))
        session.say("assistant", "kept")
        over = store.session("over")
        over.say("user", CANARY)
        over.close()
        store.retain(perdure.Retention(sessions=True), dry_run=False)
        done = store.export_learning(tmp_path / "out", shape, everything=True)
        text = Path(done.path).read_text() + Path(done.lineage).read_text()
        assert CANARY not in text
        assert done.rows == (shape != "preferences")


def test_a_long_session_is_cut_where_no_call_is_open(store, tmp_path, monkeypatch):
    """Chunks of any size give the same bytes: a call and its results never come apart."""
    before = store.export_learning(tmp_path / "before", "openai", everything=True)
    monkeypatch.setattr(learning, "PAGE_ROWS", 1)
    assert store.export_learning(tmp_path / "after", "openai", everything=True).digest == before.digest


def test_sessions_by_outcome(store, tmp_path):
    _, lineage = rows(store, tmp_path, "openai", outcome="failed")
    assert [line["session"] for line in lineage] == ["main"]


def test_wrong_words_and_files_are_refused(store, tmp_path):
    with pytest.raises(perdure.Invalid, match="openai or trl"):
        store.export_learning(tmp_path / "x", "sharegpt")
    with pytest.raises(perdure.Invalid, match="worked or failed"):
        store.export_learning(tmp_path / "x", "openai", outcome="good")
    with pytest.raises(perdure.NotFound):
        store.export_learning(tmp_path / "x", "openai", ["nobody"])
    (tmp_path / "x.lineage.jsonl").touch()
    with pytest.raises(perdure.Conflict):
        store.export_learning(tmp_path / "x", "openai", everything=True)
    assert not (tmp_path / "x").exists()
