"""Effects and asks on the command line: what is in doubt, settling it, answering, and what went wrong."""

from __future__ import annotations

import json
import shlex
import signal
from datetime import datetime

import pytest

import forked
import perdure
from perdure import errors

EFFECT = {"id", "state", "tool", "kind", "key", "attempt", "actor", "at", "error", "settled_by", "args", "result"}
EFFECT |= {"sent_key", "what_if"}
ASK = {"id", "kind", "state", "question", "choices", "answer", "met_by", "at", "expires_at"}


@pytest.fixture
def doubted(ask, runs_url) -> str:
    """The effect of a run that is in doubt."""
    found = ask("effects", "--in-doubt", "--store", runs_url)["items"]
    return next(item["id"] for item in found if item["stream_kind"] == "run")


def effect(url: str, name: str) -> perdure.EffectRecord:
    with perdure.open(url, actor="me") as store:
        return store.effect(name).record


# -- listing -------------------------------------------------------------------------------------------------


def test_effects_as_json(ask, runs_url) -> None:
    found = ask("effects", "--store", runs_url)
    assert found["next"] is None
    assert all(item.keys() >= EFFECT for item in found["items"])
    assert sorted(item["state"] for item in found["items"]) == ["failed", "in_doubt", "in_doubt"]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--in-doubt",), 2), (("--state", "failed"), 1), (("--tool", "send"), 2), (("--errors",), 3),
        (("--errors", "--tool", "refuse"), 1), (("--since", "1h"), 3), (("--until", "1h"), 0), (("--state", "committed"), 0),
        (("--status", "failed"), 1),
    ],
)  # fmt: skip
def test_filters(ask, runs_url, words, count) -> None:
    assert len(ask("effects", "--store", runs_url, *words)["items"]) == count


def test_pages(ask, runs_url) -> None:
    first = ask("effects", "--store", runs_url, "--limit", 2)
    second = ask("effects", "--store", runs_url, "--limit", 2, "--after", first["next"])
    assert first["items"] + second["items"] == ask("effects", "--store", runs_url)["items"]


def test_a_result_that_could_not_be_kept_is_said(run, runs_url) -> None:
    with perdure.open(runs_url, actor="me") as store, pytest.raises(errors.Invalid):
        store.session("odd").act(perdure.tool(name="odd")(lambda: {"a": {1, 2}}), key="k")
    shown = run("effects", "--tool", "odd", "--store", runs_url, COLUMNS="200").stdout
    assert "its result is not kept: result.a: a set cannot be kept" in shown


def test_people_are_told_how_to_settle(run, runs_url, doubted) -> None:
    result = run("effects", "--in-doubt", "--store", runs_url)
    assert doubted in result.stdout
    assert result.stderr == "settle one: perdure settle EFFECT VERDICT (happened, absent or failed)\n"
    assert run("effects", "--in-doubt", "--state", "failed", "--store", runs_url).exit_code == 2
    assert run("effects", "--in-doubt", "--status", "failed", "--store", runs_url).exit_code == 2


def test_what_the_dead_left_is_in_doubt_before_anybody_looked(ask, run, runs_url, tmp_path) -> None:
    env = forked.environment(PERDURE_CRASH_AT="effect.call.after")
    ran = forked.run("-m", "handles.left_behind", runs_url, str(tmp_path), "left_unsafe", env=env)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    with perdure.open(runs_url, actor="me") as store:
        store.session("b").begin("under_way", key="k").dispatch()  # the control: who sends it is alive
        (left, *_) = found = ask("effects", "--in-doubt", "--store", runs_url)["items"]
        assert (left["state"], left["tool"]) == ("dispatched", "left_unsafe")
        assert "under_way" not in {item["tool"] for item in found}
        (shown,) = ask("errors", "--tool", "left_unsafe", "--store", runs_url)["items"]
        assert (shown["code"], shown["done"]) == ("Died", "in doubt: `perdure settle` it")
        assert ask("errors", "--tool", "under_way", "--store", runs_url)["items"] == []
    assert run("settle", left["id"], "happened", "--dry-run", "--store", runs_url).exit_code == 0
    assert run("settle", left["id"], "happened", "--store", runs_url).exit_code == 0
    assert left["id"] not in {item["id"] for item in ask("effects", "--in-doubt", "--store", runs_url)["items"]}


def test_nobody_is_told_to_settle_what_went_elsewhere(run, runs_url, doubted) -> None:
    with perdure.open(runs_url, actor="me") as store:
        for other in store.effects(state="in_doubt"):
            if other.id != doubted:
                other.settle(perdure.Declined("looked"))
        store.run(store.effect(doubted).record.stream).hand_over()
    result = run("effects", "--in-doubt", "--store", runs_url, COLUMNS="200")
    assert doubted in result.stdout
    assert "was handed over" in result.stdout
    assert result.stderr == ""


def test_they_are_told_when_it_is_looked_at_again(ask, run, runs_url) -> None:
    @perdure.tool(name="unclear", probe=lambda: perdure.Unknown("network is down"))
    def unclear() -> None:
        raise OSError("reset")

    with perdure.open(runs_url, actor="me") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(perdure.agent(name="unclear")(lambda run: run.act(unclear)), key="unclear")
        (handle,) = store.runs(agent="unclear")
    (item,) = ask("effects", "--store", runs_url, "--tool", "unclear")["items"]
    assert datetime.fromisoformat(item["again_at"]) == handle.record.wake_at
    assert "NEXT CHECK" in run("effects", "--in-doubt", "--store", runs_url).stdout.upper()


# -- settling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("happened", "--result", '{"number": 7}'), "committed"),
        (("absent", "--reason", "I looked"), "planned"),
        (("failed", "--reason", "I stopped it"), "failed"),
    ],
)
def test_settle(ask, run, runs_url, doubted, words, state) -> None:
    shown = run("settle", doubted, *words, "--dry-run", "--store", runs_url)
    assert "a dry run" in shown.stderr
    assert "OSError" in shown.stdout  # why it is in doubt
    assert effect(runs_url, doubted).state == "in_doubt"
    found = ask("settle", doubted, *words, "--by", "carol", "--actor", "bob", "--store", runs_url)
    assert (found["state"], found["settled_by"]) == (state, "carol")
    after = effect(runs_url, doubted)
    assert (after.state, after.settled_by) == (state, "carol")
    assert after.result == ({"number": 7} if state == "committed" else None)
    with perdure.open(runs_url, actor="me") as store:
        assert store.run(doubted.partition(":")[2].partition("/")[0]).status == "ready"  # it may go on


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("happened",), ": a worker continues its run (`perdure worker MODULE`); `perdure show run:"),
        (("absent",), ": a worker sends it again (`perdure worker MODULE`); `perdure show run:"),
        (("failed",), ": a worker continues its run (`perdure worker MODULE`); `perdure show run:"),
    ],
)
def test_a_settlement_says_what_comes_next(run, runs_url, doubted, words, said) -> None:
    result = run("settle", doubted, *words, "--by", "bob", "--store", runs_url)
    assert result.stderr.startswith(f"settled by bob{said}")
    assert not any(line.endswith(": ") for line in result.stdout.splitlines())  # no reason was given: none is shown


def test_so_does_one_of_a_session(run, ask, runs_url) -> None:
    (name,) = [
        item["id"]
        for item in ask("effects", "--in-doubt", "--store", runs_url)["items"]
        if item["id"].startswith("session")
    ]
    assert run("settle", name, "absent", "--store", runs_url).stderr.endswith(
        ": acting again with its key sends it again\n"
    )


def test_of_two_who_settle_one_does(run, runs_url, doubted) -> None:
    assert run("settle", doubted, "happened", "--store", runs_url, "--by", "bob").exit_code == 0
    rehearsed = run("settle", doubted, "absent", "--dry-run", "--store", runs_url)
    assert (rehearsed.exit_code, "settled by bob" in rehearsed.stderr) == (errors.Conflict.exit_code, True)
    second = run("settle", doubted, "absent", "--store", runs_url, "--by", "carol")
    assert second.exit_code == errors.Conflict.exit_code
    assert "`perdure effects --in-doubt` lists those that are" in second.stderr
    assert effect(runs_url, doubted).settled_by == "bob"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("happened", "--result", "{no json"), errors.Invalid.exit_code),
        (("happened", "--result", "[" * 100_000), errors.Invalid.exit_code),
        (("happened", "--reason", "x"), 2),
        (("absent", "--result", "1"), 2),
        (("perhaps",), 2),
    ],
)
def test_a_settlement_that_says_nothing_clear_changes_nothing(run, runs_url, doubted, words, code) -> None:
    assert run("settle", doubted, *words, "--store", runs_url).exit_code == code
    assert effect(runs_url, doubted).state == "in_doubt"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("run:nothing/3", errors.NotFound.exit_code), ("session:issue-42/9999", errors.NotFound.exit_code),
        ("7", errors.Invalid.exit_code), ("run:../x/1", errors.NotFound.exit_code), ("run:x/-1", errors.Invalid.exit_code),
        (f"run:x/{'9' * 30}", errors.Invalid.exit_code),
    ],
)  # fmt: skip
def test_an_effect_that_is_not_there(run, runs_url, name, code) -> None:
    assert run("settle", name, "happened", "--store", runs_url).exit_code == code


def test_an_effect_of_a_session(ask, runs_url) -> None:
    found = ask("effects", "--in-doubt", "--store", runs_url)["items"]
    name = next(item["id"] for item in found if item["stream_kind"] == "session")
    assert ask("settle", name, "happened", "--result", '"sent"', "--store", runs_url)["result"] == "sent"


# -- asks ------------------------------------------------------------------------------------------------------------


def open_ask(ask, url: str) -> str:
    return next(item["id"] for item in ask("asks", "--store", url)["items"] if item["question"] == "Merge?")


def test_asks(ask, run, runs_url) -> None:
    found = ask("asks", "--store", runs_url)["items"]
    assert all(item.keys() >= ASK for item in found)
    assert {item["question"] for item in found} == {"Merge?", "A child asks?"}
    assert len(ask("asks", "--all", "--store", runs_url)["items"]) == 3
    assert "--status" not in run("asks", "--help").stdout  # it is --state, and a guess that other listings suggest
    for option in ("--state", "--status"):
        assert [item["answer"] for item in ask("asks", option, "met", "--store", runs_url)["items"]] == ["go"]
    result = run("asks", "--store", runs_url)
    assert "merge, hold" in result.stdout
    assert result.stderr == "answer one: perdure answer ASK VALUE\n"


def test_an_answer_is_taken_once_and_names_who_gave_it(ask, run, runs_url) -> None:
    name = open_ask(ask, runs_url)
    wrong = run("answer", name, "burn", "--store", runs_url)
    assert wrong.exit_code == errors.Invalid.exit_code
    assert "merge, hold" in wrong.stderr
    found = ask("answer", name, "hold", "--by", "carol", "--store", runs_url)
    assert (found["answer"], found["met_by"], found["state"]) == ("hold", "carol", "met")
    assert run("answer", name, "merge", "--store", runs_url).exit_code == errors.Conflict.exit_code
    with perdure.open(runs_url, actor="me") as store:
        assert store.run(name.partition(":")[2].partition("/")[0]).status == "ready"


def test_the_actor_answers_if_nobody_else_is_named(ask, runs_url) -> None:
    assert ask("answer", open_ask(ask, runs_url), "hold", "--actor", "bob", "--store", runs_url)["met_by"] == "bob"


def test_the_command_that_is_shown_can_be_pasted_and_chooses_nothing(run, runs_url) -> None:
    """A bar between the choices would be a pipe of the shell: whoever pasted it would have taken the first."""
    with perdure.open(runs_url, actor="me") as store:
        with pytest.raises(perdure.Waiting) as waits:
            store.session("my shop's").act(perdure.tool(name="buy")(print), key="k", approve="Buy?")
        (asked,) = waits.value.facts["asks"]
        words = shlex.split(waits.value.hint.split("`")[1])[1:]
        assert words == ["answer", asked, "CHOICE"]
        assert run(*words, "--store", runs_url).exit_code == errors.Invalid.exit_code
        assert [each.state for each in store.asks(state=None) if each.id == asked] == ["open"]
    assert run(*words[:2], "approve", "--store", runs_url).exit_code == 0


def test_an_ask_that_is_not_there(run, runs_url) -> None:
    assert run("answer", "run:nothing/3", "x", "--store", runs_url).exit_code == errors.NotFound.exit_code


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_say_what_was_done(ask, run, runs_url) -> None:
    found = ask("errors", "--store", runs_url)
    assert found["more"] is False
    said = {(item["what"], item["code"], item["done"].partition(":")[0].partition(";")[0]) for item in found["items"]}
    assert said == {
        ("send", "OSError", "in doubt"),
        ("refuse", "NoSuchUser", "given up"),
        ("failing", "NoSuchUser", "it ended"),
        ("changing", "changed", "parked"),
    }
    assert "NoSuchUser" in run("errors", "--store", runs_url).stdout
    ways = {item["where"].partition(":")[0]: item["done"] for item in found["items"] if item["what"] == "send"}
    assert set(ways.values()) == {"in doubt: `perdure settle` it"}  # it is unsafe: nobody else can
    assert ways.keys() == {"run", "session"}


def test_errors_of_runs_are_of_when_they_went_wrong_not_of_when_they_began(ask, runs_url) -> None:
    with perdure.open(runs_url, actor="me") as store:
        found = [run for status in ("failed", "parked") for run in store.runs(status=status)]
        wrong = {f"run:{run.id}": run.timeline()[-1] for run in found}
        began = max(run.record.created_at for run in found)
    assert {entry.kind for entry in wrong.values()} == {"run.failed", "run.parked"}
    expected = {name: entry.at.isoformat().replace("+00:00", "Z") for name, entry in wrong.items()}
    for span in ((), ("--since", min(entry.at for entry in wrong.values()).isoformat())):
        items = ask("errors", "--store", runs_url, *span)["items"]
        assert {item["where"]: item["at"] for item in items if item["where"] in wrong} == expected
    assert began < min(entry.at for entry in wrong.values() if entry.kind == "run.parked")
    assert ask("errors", "--agent", "failing", "--store", runs_url)["items"][0]["what"] == "failing"


def test_errors_say_where_a_rule_may_still_settle_it(ask, runs_url) -> None:
    @perdure.tool(name="unclear", probe=lambda: perdure.Unknown("network is down"))
    def unclear() -> None:
        raise OSError("reset")

    with perdure.open(runs_url, actor="me") as store:
        with pytest.raises(perdure.InDoubt):
            store.session("own").act(unclear, key="k")
        with pytest.raises(perdure.Waiting):
            store.drive(perdure.agent(name="unclear")(lambda run: run.act(unclear)), key="unclear")
    ways = {
        item["where"].partition(":")[0]: item["done"]
        for item in ask("errors", "--tool", "unclear", "--store", runs_url)["items"]
    }
    assert ways["run"] == "in doubt: `perdure settle` it, or let its run continue"
    assert ways["session"] == "in doubt: `perdure settle` it, or act again with its key"


def test_errors_are_filtered(ask, run, runs_url) -> None:
    assert [item["what"] for item in ask("errors", "--tool", "refuse", "--store", runs_url)["items"]] == ["refuse"]
    assert [item["what"] for item in ask("errors", "--agent", "failing", "--store", runs_url)["items"]] == ["failing"]
    assert run("errors", "--until", "1h", "--store", runs_url).stderr == "nothing went wrong\n"
    short = ask("errors", "--limit", 1, "--store", runs_url)
    assert (len(short["items"]), short["more"]) == (1, True)


def test_a_settlement_shows_there(ask, run, runs_url, doubted) -> None:
    run("settle", doubted, "failed", "--by", "carol", "--store", runs_url)
    done = [item["done"] for item in ask("errors", "--store", runs_url)["items"] if item["where"] == doubted]
    assert done == ["given up (carol)"]


def test_json_is_one_document(run, runs_url) -> None:
    for words in (("effects",), ("asks",), ("errors",)):
        json.loads(run(*words, "--json", "--store", runs_url).stdout)
