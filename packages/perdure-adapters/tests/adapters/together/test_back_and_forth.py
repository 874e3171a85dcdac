"""A framework begins a conversation, another one continues it, the first one goes on: every ordered pair, equal transcripts.

Oracle: the session holds the three steps in order, each turn once, each call once and with its result; and whoever speaks was
shown every word that was said before, once. `make test` runs it on the frameworks of the dev group; the whole table (printed at
the end, with -s) is `tools/adapters.py together`.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # also where no plugin does it

from players import PLAYERS, TOOL, step_of
from speakers import SPEAKERS, missing

import perdure
from perdure.handles.listing import every
from perdure_adapters.forms import langchain_messages as langchain
from perdure_adapters.neutral_messages import plain_text

NEEDS = {each.name: each for each in SPEAKERS}
PAIRS = [*itertools.permutations(PLAYERS, 2)]


@pytest.fixture
def store(tmp_path):
    kind = os.environ.get("PERDURE_SUITE_STORE", "sqlite")  # set by tools/adapters.py
    own = f"{kind}:///{tmp_path}/agent.db"
    server = f"{kind}{'&' if '?' in kind else '?'}schema=together_{uuid.uuid4().hex[:12]}"
    with perdure.open(own if kind in ("sqlite", "files") else server) as opened:
        yield opened


def need(*players):
    for each in players:
        if lacking := missing(NEEDS[each.name]):
            pytest.skip(f"{lacking} is not installed: `tools/adapters.py together` has all frameworks")


def said_in(session):
    """What any reader finds in a session: the words of each turn, its calls, and results by their calls."""
    for turn in every(session.turns, after=0):
        if turn.call is not None:
            yield "result", turn.call, plain_text(turn.content)
        elif turn.content is not None or turn.calls:
            if words := plain_text(turn.content):
                yield turn.role.value, words
            yield from (("call", call.id, call.tool, call.args) for call in turn.calls)


def facts_of(step):
    return [
        ("user", step.user),
        ("call", step.call, TOOL, {"sought": step.sought}),
        ("result", step.call, step.result),
        ("assistant", step.answer),
    ]


def transcript_of(steps):
    """The transcript that a reader expects, in the form of OpenAI."""
    for step in steps:
        yield from (
            ("user", step.user),
            ("call", step.call),
            ("result", step.call, step.result),
            ("assistant", step.answer),
        )


def read_transcript(session):
    for message in session.transcript("openai"):
        if message["role"] == "tool":
            yield "result", message["tool_call_id"], message["content"]
        elif message.get("content"):
            yield message["role"], plain_text(message["content"])
        yield from (("call", call["id"]) for call in message.get("tool_calls") or ())


def is_shown_once(shown, step):
    """Whether a model was shown a step, once. What was sought stands in the call, and in its result."""
    return [shown.count(each) for each in (step.user, step.sought, step.result, step.answer)] == [1, 2, 1, 1]


def fault_of(store, name, steps, shown):
    """What is wrong after the last of these steps, in which its speaker was shown this; nothing if all is as a reader expects."""
    session = store.session(name)
    found, expected = [*said_in(session)], [fact for step in steps for fact in facts_of(step)]
    if found != expected:
        return f"{len(found)} turns and calls for {len(expected)}"
    if [*read_transcript(session)] != [*transcript_of(steps)] or not session.transcript("anthropic"):
        return "another transcript"
    unseen = [step.user for step in steps[:-1] if not is_shown_once(shown, step)]
    return f"was not shown once: {unseen}" if unseen else "" if store.verify().ok else "verify"


def back_and_forth(store, first, second):
    """Let the first one begin, the second one continue and the first one go on; the first fault that shows, or nothing."""
    name, steps = first.begin(store), []
    for number, player in enumerate((first, second, first)):
        steps.append(step_of(player.name, number))
        if fault := fault_of(store, name, steps, player.play(store, name, steps[-1])):
            return f"{player.name}, step {number}: {fault}"
    return ""


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[f"{one.name}-{two.name}" for one, two in PAIRS])
def test_a_conversation_goes_to_another_framework_and_back(store, first, second):
    need(first, second)
    assert back_and_forth(store, first, second) == ""


def test_control_a_reader_that_gives_back_messages_of_no_turn_doubles_them(store, monkeypatch):
    first, second = PLAYERS[1], PLAYERS[0]
    need(first, second)
    monkeypatch.setattr(langchain, "FORM", langchain.FORM._replace(id_path=()))
    monkeypatch.setattr("perdure_adapters.langgraph.turns.FORM", langchain.FORM)
    assert back_and_forth(store, first, second) == "langgraph, step 1: 12 turns and calls for 8"


def main():
    """Print the table: a line for each framework that begins, a column for each that continues."""
    faults = {}
    for first, second in PAIRS:
        with tempfile.TemporaryDirectory() as folder, perdure.open(f"sqlite:///{folder}/agent.db") as store:
            faults[first, second] = back_and_forth(store, first, second)
    lines = ["".join(f"{name:16}" for name in ("", *(each.name for each in PLAYERS)))]
    for first in PLAYERS:
        cells = ["-" if first is each else "differs" if faults[first, each] else "equal" for each in PLAYERS]
        lines.append("".join(f"{cell:16}" for cell in (first.name, *cells)))
    lines += [f"{first.name}-{second.name}: {fault}" for (first, second), fault in faults.items() if fault]
    lines.append(f"{sum(not fault for fault in faults.values())} of {len(PAIRS)} equal")
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
