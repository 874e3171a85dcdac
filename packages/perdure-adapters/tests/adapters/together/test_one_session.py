"""One conversation, all frameworks: each writes text, an image, reasoning, parallel calls, an error; all read it, and accept it.

`make test` runs it on the frameworks of the dev group; `tools/adapters.py together` on all of them, in one environment.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # also where no plugin does it

from speakers import PNG, SIGNATURE, SPEAKERS, expected, missing, said

import perdure
from perdure.handles.listing import every
from perdure_adapters.neutral_messages import FORMS, keep, plain_text, records_of

PAIRS = [(writer, reader) for writer in SPEAKERS for reader in SPEAKERS]


@pytest.fixture
def store(tmp_path):
    kind = os.environ.get("PERDURE_SUITE_STORE", "sqlite")  # set by tools/adapters.py
    own = f"{kind}:///{tmp_path}/agent.db"
    server = f"{kind}{'&' if '?' in kind else '?'}schema=together_{uuid.uuid4().hex[:12]}"
    with perdure.open(own if kind in ("sqlite", "files") else server) as opened:
        yield opened


def need(*speakers):
    for each in speakers:
        if lacking := missing(each):
            pytest.skip(f"{lacking} is not installed: `tools/adapters.py together` has all frameworks")


def own_provider(writer) -> str:
    """The provider whose reasoning a speaker writes."""
    return writer.provider or "anthropic"


def understood(facts, writer):
    """Facts as a reader can know them: a writer without a flag for errors cannot say that there was one."""
    if writer.errors_are_flags:
        return facts
    return [(*fact[:3], False) if fact[0] == "result" else fact for fact in facts]


@pytest.mark.parametrize(("writer", "reader"), PAIRS, ids=[f"{one.name}-{two.name}" for one, two in PAIRS])
def test_each_framework_reads_what_each_wrote(store, writer, reader):
    need(writer, reader)
    session = writer.write(store)
    # A provider's reasoning goes to that provider alone; OpenAI takes its own as its own items only.
    sees = writer is reader or (reader.provider == own_provider(writer) != "openai")
    wanted = understood(expected(writer.name, thought=sees), writer)
    assert reader.facts(reader.read(store, session)) == wanted


@pytest.mark.parametrize("writer", SPEAKERS, ids=[each.name for each in SPEAKERS])
@pytest.mark.parametrize("reader", [each for each in SPEAKERS if not each.provider], ids=lambda each: each.name)
def test_a_reader_of_many_providers_gets_the_reasoning_of_the_one_that_it_names(store, writer, reader):
    need(writer, reader)
    session = writer.write(store)
    found = reader.facts(reader.read(store, session, provider=own_provider(writer)))
    # OpenAI's signature is encrypted text inside its own item, and stays there.
    signature = None if writer.provider == "openai" else SIGNATURE
    assert [fact for fact in found if fact[0] == "thought"] == [("thought", said(writer.name)["thought"], signature)]


def test_one_session_in_which_all_spoke_is_read_by_all(store):
    speakers = [each for each in SPEAKERS if not missing(each)]
    need(*speakers[:1])
    session = store.session("all")
    for writer in speakers:
        for turn in every(store.session(writer.write(store)).turns, after=0):
            again(session, turn)
    for reader in speakers:
        wanted = [fact for writer in speakers for fact in understood(expected(writer.name, thought=False), writer)]
        found = [fact for fact in reader.facts(reader.read(store, "all")) if fact[0] != "thought"]
        assert found == wanted, reader.name
    assert session.transcript("openai")
    assert session.transcript("anthropic")
    assert store.verify().ok


def again(session, turn):
    """The same turn in another session, by its own form where it has one."""
    form = FORMS.get(turn.native.form) if turn.native is not None else None
    if form is not None:
        keep(session, form, *records_of(form, turn))
    elif turn.native is None and turn.call is None:
        session.say(turn.role.value, turn.content, calls=turn.calls)
    elif turn.native is None:
        session.result(turn.call, turn.content, error=turn.error)


def test_control_a_session_that_lost_an_image_and_an_error_is_caught(store):
    reader = next((each for each in SPEAKERS if not missing(each)), SPEAKERS[0])
    need(reader)
    turns = [*store.session(reader.write(store)).turns(after=0)]
    session = store.session("less")
    for turn in turns:
        if turn.call is not None:
            session.result(turn.call, turn.content)
        else:
            words = said(reader.name)["user"] if turn.role.value == "user" else plain_text(turn.content)
            session.say(turn.role.value, words, calls=turn.calls)
    found = reader.facts(reader.read(store, "less"))
    lost = [fact for fact in expected(reader.name, thought=False) if fact not in found]
    assert lost == [("image", PNG), ("result", said(reader.name)["ids"][1], said(reader.name)["error"], True)]
