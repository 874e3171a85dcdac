"""A framework begins a conversation, another one continues it, the first one goes on: every ordered pair, equal transcripts.

Oracle: the session holds the three steps in order, each turn once, each call once and with its result; and whoever speaks was
shown every word that was said before, once. `make test` runs it on the frameworks of the dev group; the whole table (printed at
the end, with -s) is `tools/adapters.py together`.
"""

from __future__ import annotations

import itertools
import os
import sys
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # also where no plugin does it

from players import PLAYERS, TOOL, step_of
from speakers import SPEAKERS, missing

import perdure
from perdure.adapters.conversing import plain_text
from perdure.handles.listing import every

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
    facts = []
    for step in steps:
        facts += [
            ("user", step.user),
            ("call", step.call),
            ("result", step.call, step.result),
            ("assistant", step.answer),
        ]
    return facts


def read_transcript(session):
    found = []
    for message in session.transcript("openai"):
        calls = [("call", call["id"]) for call in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            found.append(("result", message["tool_call_id"], message["content"]))
        elif message.get("content"):
            found.append((message["role"], plain_text(message["content"])))
        found += calls
    return found


def words_of(step):
    return (step.user, step.sought, step.result, step.answer)


def is_shown_once(shown, step):
    """Whether a model was shown a step, once. What was sought stands in the call, and in its result."""
    return [shown.count(each) for each in words_of(step)] == [1, 2, 1, 1]


def check(store, name, steps, shown):
    session = store.session(name)
    assert [*said_in(session)] == [fact for step in steps for fact in facts_of(step)]
    assert read_transcript(session) == transcript_of(steps)
    assert session.transcript("anthropic")
    assert [step for step in steps[:-1] if not is_shown_once(shown, step)] == []
    assert store.verify().ok


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[f"{one.name}-{two.name}" for one, two in PAIRS])
def test_a_conversation_goes_to_another_framework_and_back(store, first, second):
    need(first, second)
    name = first.begin(store)
    steps = []
    for number, player in enumerate((first, second, first)):
        steps.append(step_of(player.name, number))
        shown = player.play(store, name, steps[-1])
        check(store, name, steps, shown)
