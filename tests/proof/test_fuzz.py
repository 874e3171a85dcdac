"""Whatever is parsed gives a value or one of our errors, never a bare exception (P10, P15).

Each parser is fed with mutants of well-formed input, by seed: PERDURE_ROUNDS says how many of each, PERDURE_SEED which. What is
protected by a digest is sealed anew after it was changed, so that what lies behind it is parsed too. Control: parsers that are
known to raise what they should not.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import perdure
from perdure.artifacts import compress, tree
from perdure.artifacts.place import check_address, place_from_url
from perdure.cli.main import cli
from perdure.effects.tool import kind_of
from perdure.log import feed
from perdure.log.anchor import Anchor
from perdure.log.event import Body, decode_body, encode_body
from perdure.model import values
from perdure.model.instants import duration_us, instant_us
from perdure.model.records.envelope import FORMAT, VERSION, Envelope
from perdure.planes.reading import body_reading, paging, row_reading
from perdure.runtime.agent import policy_of
from perdure.stores import url
from perdure.upkeep import archive
from proof.mutants import mutants

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "250"))
SEED = int(os.environ.get("PERDURE_SEED", "7"))


class Parser(NamedTuple):
    """One parser, and well-formed input for it."""

    name: str
    parse: Callable[[Any], Any]
    samples: Sequence[str] | Sequence[bytes]


def bare(parser: Parser, count: int = ROUNDS, seed: int = SEED) -> list[tuple[str, Any]]:
    """What a parser raised that is none of our errors, each with the input."""
    found = []
    for given in [*parser.samples, *mutants(parser.samples, count, seed)]:
        try:
            parser.parse(given)
        except perdure.Error:
            continue
        except BaseException as error:
            found.append((f"{type(error).__name__}: {error}"[:120], given))
    return found


# -- what is parsed ----------------------------------------------------------------------------------------------


def sealed(body: bytes) -> bytes:
    """The wrapper of an envelope with the right digest."""
    digest = hashlib.sha256(body).hexdigest()
    return f'{{"format":"{FORMAT}","version":{VERSION},"digest":"{digest}","envelope":'.encode() + body + b"}"


def an_envelope() -> bytes:
    @perdure.agent(name="fuzz.waits")
    def waits(run: perdure.Run) -> Any:
        run.step(lambda: {"x": [1, b"y"]})
        if run.restored is None:
            run.checkpoint({"a": 1})
        return run.ask("Go on?", choices=["yes", "no"], timeout="1h")

    with perdure.open("memory:") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(waits, key="k")
        text = store.runs()[0].hand_over().to_json()
    return text.partition(b'"envelope":')[2][:-1]


def adopt(body: bytes) -> None:
    """Read it and, if it can be read, go on with it: nothing is written, or the store is whole."""
    envelope = Envelope.from_json(sealed(body))
    with perdure.open("memory:") as store:
        try:
            store.adopt(envelope, {}, lost=True)
        finally:
            assert store.verify().problems == []


def nodes() -> list[bytes]:
    states = ({"a": [1, 2.5, None, "x" * 400], "b": {"c": b"y".hex()}}, list(range(3_000)), ["x"], {}, "text")
    return [node for state in states for node in tree.save(state, lambda _: set()).nodes.values()]


def load_node(node: bytes) -> Any:
    address = hashlib.sha256(node).digest()
    return tree.load(address, lambda wanted: {address: node} if address in wanted else {})


def an_archive() -> bytes:
    data = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    member = archive.ArchiveTable("streams", ["id", "uid"], 0, len(data), hashlib.sha256(data).hexdigest())
    manifest = archive.ArchiveManifest(archive.FORMAT, archive.KIND, 2, "ab" * 16, 1, 1, "", [member])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(archive.name_of("streams"), data)
        file.writestr(archive.MANIFEST, json.dumps({**_plain(manifest), "tables": [_plain(member)]}))
    return packed.getvalue()


def _plain(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


VALUES = [
    {"a": [1, -2.5, True, None, "ä"], "b": {"c": b"bytes"}}, [datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50")], {"$": "x"},
    "text", (1, 2), 10**30, 1.5e300,
]  # fmt: skip
TREES = [values.encode(each).decode() for each in VALUES]
BODIES = [
    encode_body(
        Body("set", {"seq": 1}, {"state": "open", "at": 12}, "seq", {"text": "x"}, "", [], [], ["s"], [], "pin", [])
    ),
    encode_body(Body("insert", {"name": "n"}, {}, "", None, "ab" * 32, ["ab" * 32], [], [], [], "", [("c1", "grep")])),
]
URLS = [
    "sqlite:///agent.db", "sqlite:////var/a%20b.db?artifacts=file:///x", "memory:", "postgresql://me:s%40cret@host:5432/db?schema=perdure",
    "postgresql:///db?host=/run/pg&port=1", "sqlite:///~/x.db", "files:///dir",
]  # fmt: skip
PLACES = [
    "file:///var/blobs",
    "s3://bucket/prefix?endpoint=http://127.0.0.1:9&region=x&allow_http=true",
    "file://localhost/x",
]
DURATIONS = ["1h", "30s", "2d", "1h30m", "90", "0.5s", "10ms", "3w", "PT1H", "1 h"]
INSTANTS = [
    "2026-01-02T03:04:05Z",
    "2026-01-02",
    "2026-01-02T03:04:05.678901+02:00",
    "7d",
    "1800000000",
    "20260102T030405Z",
]
CURSORS = [paging.encode_cursor(1), paging.encode_cursor(1, -2, 3), paging.encode_cursor(2**60, 0)]
FED = [feed.encode_cursor("ab" * 16, 1, feed.Position(5, 7)), feed.encode_cursor("ab" * 16, 2, feed.Position(0, 0))]
IDS = ["run:0123456789ab/12", "session:issue-42/7", "run:a/0", "session:a/b/3"]
ANCHOR = json.dumps(
    {"version": 1, "store": "ab" * 16, "epoch": 1, "at": 1, "heads": [["ab" * 16, 1, "cd" * 32]], "root": "ef" * 32}
)

PARSERS = [
    Parser("values.decode", values.decode, [values.encode(each) for each in VALUES]),
    Parser("values.from_plain", lambda text: values.from_plain(json_of(text)), TREES),
    Parser("event.decode_body", decode_body, BODIES),
    Parser("documents.inline_body", body_reading.inline_body, BODIES),
    Parser("documents.stored_value", lambda text: body_reading.stored_value(json_of(text)), TREES),
    Parser("paging.decode_cursor", lambda text: paging.decode_cursor(text, 3), CURSORS),
    Parser("feed.decode_cursor", lambda text: feed.decode_cursor(text, "ab" * 16, 1), FED),
    Parser("url.parse", url.parse, URLS),
    Parser("url.without_password", url.without_password, URLS),
    Parser("place_from_url", place_from_url, PLACES),
    Parser("check_address", check_address, ["ab" * 32]),
    Parser("duration_us", duration_us, DURATIONS),
    Parser("instant_us", lambda text: instant_us(text, 10**15), [*INSTANTS, *DURATIONS]),
    Parser("policy_of", policy_of, ["every 50 steps", "every 10m", "after effects", "every 5 steps or 1h"]),
    Parser("kind_of", kind_of, ["read", "keyed", "unsafe", "idempotent"]),
    Parser("anchor", Anchor.from_json, [ANCHOR]),
    Parser("anchor bytes", Anchor.from_json, [ANCHOR.encode()]),
    Parser("envelope, altered", Envelope.from_json, [sealed(an_envelope())]),
    Parser("envelope, sealed anew", lambda body: Envelope.from_json(sealed(body)), [an_envelope()]),
    Parser("tree.load", load_node, nodes()),
    Parser("tree.children", tree.children, nodes()),
    Parser("compress.unpack", lambda data: compress.unpack(*compress.pack(b"x")[:1], data, 1), [b"x", b"xy"]),
    Parser("compress.unpack zstd", lambda data: compress.unpack(compress.ZSTD, data, 5_000), [compress.pack(b"ab" * 2_500)[1]]),
    Parser("stored_names", lambda text: row_reading.stored_names(text, "row"), ["|a||b|", ""]),
    Parser("stored_numbers", lambda text: row_reading.stored_numbers(text, "row"), ["|1||22|", ""]),
    Parser("stored_address", lambda text: row_reading.stored_address(text, "row"), ["ab" * 32]),
]  # fmt: skip


def json_of(text: str) -> Any:
    """What text says as JSON; our own error if it says nothing."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise perdure.Invalid("no JSON", path="test") from None


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_parser_gives_a_value_or_an_error_of_ours(parser):
    assert bare(parser) == []


def test_an_envelope_that_can_be_read_is_adopted_whole_or_not_at_all():
    assert bare(Parser("adopt", adopt, [an_envelope()]), max(ROUNDS // 5, 20)) == []


def test_an_archive_is_read_or_refused(tmp_path):
    path = tmp_path / "a.zip"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with archive.reading(path) as found:
            for member in found.manifest.tables:
                for _ in found.pieces(member):
                    pass

    read(an_archive())
    assert bare(Parser("archive", read, [an_archive()])) == []


# -- names, as people give them ----------------------------------------------------------------------------------


def test_names_are_found_or_refused():
    with perdure.open("memory:") as store:
        session = store.session("issue-42")
        asks: list[tuple[Callable[[Any], Any], Sequence[str]]] = [
            (store.effect, IDS), (lambda text: store.answer(text, "x"), IDS), (store.run, ["0123456789ab"]),
            (store.artifact, ["ab" * 32, "abcdef12"]), (store.session, ["issue-42"]), (store.scope, ["user:alice"]),
            (lambda text: session.events(kind=text), ["deploy.*", "turn.said"]), (store.feed, FED),
            (lambda text: store.effects(state=text), ["in_doubt"]), (lambda text: store.runs(since=text), INSTANTS),
            (lambda text: store.runs(after=text), CURSORS), (lambda text: store.sessions(label=text), ["prod"]),
            (session.at, INSTANTS), (lambda text: session.transcript(format=text), ["openai"]),
        ]  # fmt: skip
        found = [each for ask, samples in asks for each in bare(Parser("", ask, samples), max(ROUNDS // 5, 20))]
        assert found == []
        assert store.verify().problems == []


COMMANDS = [
    ["show"],
    ["settle", "--by", "ada"],
    ["answer"],
    ["envelope"],
    ["runs", "--since"],
    ["effects", "--after"],
    ["cancel"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_exits_with_one_of_our_codes(command, tmp_path):
    where = ["--store", f"sqlite:///{tmp_path}/a.db"]
    with perdure.open(where[1]) as store:
        store.session("issue-42")
    for given in mutants([*IDS, *INSTANTS], max(ROUNDS // 20, 12), SEED):
        done = CliRunner().invoke(
            cli, [command[0], *where, *command[1:], given, *(["x"] if command[0] in ("settle", "answer") else [])]
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), (given, done.exception)


# -- controls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "samples"),
    [(int, ["1", "22"]), (json.loads, ['{"a": 1}']), (lambda data: data.decode(), [b"text"]), (bytes.fromhex, ["ab"])],
)
def test_control_a_parser_that_raises_what_it_likes_shows(parse, samples):
    assert bare(Parser("broken", parse, samples))
