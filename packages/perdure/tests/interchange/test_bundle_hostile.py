"""Hostile bundles: whatever is wrong with one is a clear error that names the place, and nothing is written (P10).

The corpus is generated from one sound bundle. `forged` cases are by somebody who knows the format: all sums are right, and if
need be every hash of the chain was made anew. The control switches checks off, and the same corpus gets through.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from forged import Members, exported, lines_of, manifest_of, packed, summed, with_lines, with_manifest
from furnished import furnish
from perdure import errors
from perdure.interchange import bundle, bundle_in
from perdure.interchange.bundle import LINE_MAX_BYTES
from perdure.log.event import GENESIS, commit_to, hash_header
from perdure.stores import replay
from perdure_testing.contract.sync.history import lived_in

Case = tuple[str, Callable[[Members], "bytes | Members"]]

WRONG: tuple[Any, ...] = (
    None,
    -1,
    2**70,
    1.5,
    True,
    "",
    "\0",
    "../../x",
    "x" * 300,
    [],
    [1],
    {},
    {"a": 1},
    "0" * 32,
    "f" * 64,
)


@pytest.fixture(scope="module")
def sound() -> Members:
    return exported(furnish, everything=True)


@perdure.agent(name="alone")
def alone(run: perdure.Run) -> str:
    return run.step(str, 7)


@cache
def single(kind: str) -> Members:
    """A bundle of one stream."""
    if kind == "run":
        return exported(lambda store: store.drive(alone, key="k"), everything=True)
    return exported(lived_in, sessions=["a"])


@pytest.fixture
def empty() -> Iterator[Any]:
    with perdure.open("memory:") as store:
        yield store


# -- how forgers work ----------------------------------------------------------------------------------------------------------


def first_event(members: Members, uid: str | None = None) -> int:
    """The line of the first event (of a stream)."""
    lines = [json.loads(line) for line in lines_of(members)]
    return next(at for at, line in enumerate(lines) if "seq" in line and uid in (None, line["stream"]))


def edited(members: Members, at: int, /, **fields: Any) -> Members:
    lines = lines_of(members)
    lines[at] = json.dumps(json.loads(lines[at]) | fields).encode()
    return with_lines(members, lines)


def rehashed(change: Callable[[list[dict[str, Any]]], Any], kind: str = "session") -> Members:
    """A history that was written anew from its first event on: every hash is right, and the heads too."""
    members = single(kind)
    manifest = manifest_of(members)
    listed = next(each for each in manifest["streams"] if each["kind"] == kind)
    lines = [json.loads(line) for line in lines_of(members)]
    streams = [line for line in lines if line.get("uid") == listed["uid"]]
    events = [line for line in lines if line.get("stream") == listed["uid"]]
    change(events)
    previous, texts = GENESIS, [json.dumps(each).encode() for each in streams]
    for seq, event in enumerate(events, 1):
        raw = json.dumps(event.pop("body")) if "body" in event else ""
        commitment = (
            commit_to(bytes.fromhex(event["salt"]), raw.encode()) if raw else bytes.fromhex(event["commitment"])
        )
        names = (event["kind"], event["table"], event["actor"])
        previous = hash_header(bytes.fromhex(listed["uid"]), seq, previous, *names, event["at"], 1, commitment)
        event |= {"seq": seq, "commitment": commitment.hex(), "hash": previous.hex()}
        texts.append((json.dumps(event)[:-1] + (f', "body": {raw}}}' if raw else "}")).encode())
    listed |= {"last": len(events), "head": previous.hex()}
    manifest |= {"streams": [listed], "events": len(events)}
    return with_lines(with_manifest(members, manifest), texts)


def bodies(change: Callable[[dict[str, Any]], Any], table: str, kind: str = "session") -> Callable[[Members], Members]:
    """A forger who changes what an event of a table says: of a run the last one, because what is said later stands."""

    def forge(events: list[dict[str, Any]]) -> None:
        found = [event["body"] for event in events if event["table"] == table]
        change(found[-1 if kind == "run" else 0])

    return lambda _: rehashed(forge, kind)


def setting(table: str, kind: str = "session", **columns: Any) -> Callable[[Members], Members]:
    return bodies(lambda body: body.setdefault("set", {}).update(columns), table, kind)


# -- the corpus ----------------------------------------------------------------------------------------------------------------


def containers() -> Iterator[Case]:
    for name in ("../evil", "/etc/evil", "C:\\evil", "blobs/../evil", "blobs/", "blobs/" + "A" * 64, "log.jsonl/", "x" * 60_000,
                 "INCIDENT.md", "blobs/" + "0" * 64, ".", "manifest.json ", "log.jsonl\0.txt"):  # fmt: skip
        yield f"member {name[:20]!r}", lambda it, name=name: packed(it | {name: b"x"})
        if name not in ("blobs/", "log.jsonl/", "INCIDENT.md", "blobs/" + "0" * 64):
            yield f"summed member {name[:20]!r}", lambda it, name=name: packed(summed(it | {name: b"x"}))
    yield "symlink", lambda it: packed(it, lambda info: setattr(info, "external_attr", (stat.S_IFLNK | 0o777) << 16))
    yield "device", lambda it: packed(it, lambda info: setattr(info, "external_attr", (stat.S_IFCHR | 0o777) << 16))
    yield "folder", lambda it: packed(it, lambda info: setattr(info, "external_attr", (stat.S_IFDIR | 0o777) << 16))
    yield "comment", lambda it: packed(it, lambda info: setattr(info, "comment", b"x"))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"compressed {method}", lambda it, method=method: packed(it, compression=method)
        yield (
            f"bomb {method}",
            lambda it, method=method: packed(it | {"log.jsonl": bytes(30_000_000)}, compression=method),
        )
    yield "twice", lambda it: twice(it, "log.jsonl")
    yield "manifest twice", lambda it: twice(it, "manifest.json")
    for name in ("log.jsonl", "manifest.json"):
        yield f"no {name}", lambda it, name=name: packed({key: data for key, data in it.items() if key != name})
    yield "empty zip", lambda _: packed({})
    yield "empty file", lambda _: b""
    yield "text", lambda _: b"hello\n" * 100
    yield "says too large", overstated
    for part in range(1, 24):
        yield f"truncated {part}", lambda it, part=part: packed(it)[: len(packed(it)) * part // 24]


def twice(members: Members, name: str) -> bytes:
    out = io.BytesIO(packed(members))
    with zipfile.ZipFile(out, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(zipfile.ZipInfo(name), members[name])
    return out.getvalue()


def overstated(members: Members) -> bytes:
    """The directory says that a member holds four gigabytes."""
    data = bytearray(packed(members))
    at = data.index(b"PK\x01\x02")
    data[at + 20 : at + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    return bytes(data)


def flips() -> Iterator[Case]:
    """One bit of a member's content, the sums as they were."""
    for number in range(40):
        yield f"flip {number}", lambda it, number=number: flipped(it, random.Random(number))


def flipped(members: Members, dice: random.Random) -> bytes:
    name = dice.choice(sorted(name for name, data in members.items() if data and name != "manifest.json"))
    data = bytearray(members[name])
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return packed(members | {name: bytes(data)})


FIELDS = [("format",), ("kind",), ("tenant",), ("events",), ("streams",), ("members",), ("streams", 0), ("members", 0)]
FIELDS += [("streams", 0, name) for name in ("uid", "kind", "name", "first", "last", "head")]
FIELDS += [("members", 0, name) for name in ("name", "size", "sha256")]


def manifests() -> Iterator[Case]:
    for field in FIELDS:
        for at, value in enumerate(WRONG):
            yield f"manifest {field} {at}", lambda it, field=field, value=value: put(it, field, value)
    yield (
        "member named twice",
        lambda it: put(it, ("members",), manifest_of(it)["members"][:1] + manifest_of(it)["members"]),
    )
    yield "newer format", lambda it: put(it, ("format",), 2)
    yield "unknown field", lambda it: put(it, ("more",), 1)
    yield "deep manifest", lambda it: it | {"manifest.json": b"[" * 100_000}
    yield "bad text", lambda it: it | {"manifest.json": b'{"kind": "\xe9"}'}
    yield "large manifest", lambda it: it | {"manifest.json": b" " * (65 * 1024**2)}
    for kind in ("tenant", "store", "other"):
        yield f"stream of a {kind}", lambda it, kind=kind: put(it, ("streams", 0, "kind"), kind)
    yield "session of a session", lambda it: put(it, ("streams", 0, "session"), "b")
    yield "session without a name", lambda it: put(it, ("streams", 0, "session_uid"), "0" * 32)


def put(members: Members, field: tuple[Any, ...], value: Any) -> Members:
    manifest = manifest_of(members)
    inner = manifest
    for step in field[:-1]:
        inner = inner[step]
    inner[field[-1]] = value
    return with_manifest(members, manifest)


def histories() -> Iterator[Case]:
    """Edited, with right sums and wrong hashes."""
    for name, values in {
        "kind": ("x.y", "", 1, None), "table": ("turns", "nope", 1), "actor": ("eve", "", None, "a\0b"), "at": (0, 2**70, "x"),
        "commitment": ("0" * 64, "x", None), "hash": ("0" * 64, "1" * 63, "F" * 64), "salt": ("", "0" * 32, "0" * 31),
        "body": ({}, None, "x", [], 1), "seq": (0, -1, 2, 2**64), "stream": ("0" * 32, "x"), "codec": (2, "1"), "tx": ("x", 1),
        "more": (1,),
    }.items():  # fmt: skip
        for value in values:
            yield (
                f"{name} {value!r}"[:40],
                lambda it, name=name, value=value: edited(it, first_event(it), **{name: value}),
            )
    for field, value in (
        ("uid", "0" * 32),
        ("tenant", "other"),
        ("kind", "run"),
        ("name", "other"),
        ("parent", "0" * 32),
        ("fork", 3),
    ):
        yield f"stream {field}", lambda it, field=field, value=value: edited(it, 0, **{field: value})
    yield "line dropped", lambda it: with_lines(it, lines_of(it)[:9] + lines_of(it)[10:])
    yield "line doubled", lambda it: with_lines(it, lines_of(it)[:9] + lines_of(it)[8:])
    yield (
        "lines swapped",
        lambda it: with_lines(it, [*lines_of(it)[:8], lines_of(it)[9], lines_of(it)[8], *lines_of(it)[10:]]),
    )
    yield "tail cut", lambda it: with_lines(it, lines_of(it)[:-1])
    yield "no lines", lambda it: with_lines(it, [])
    yield "one more", lambda it: with_lines(it, [*lines_of(it), lines_of(it)[-1]])
    yield "a blank line", lambda it: with_lines(it, [*lines_of(it)[:8], b"", *lines_of(it)[8:]])
    yield "carriage returns", lambda it: summed(it | {"log.jsonl": it["log.jsonl"].replace(b"\n", b"\r\n")})
    yield "a byte order mark", lambda it: summed(it | {"log.jsonl": b"\xef\xbb\xbf" + it["log.jsonl"]})
    yield "more after the last newline", lambda it: summed(it | {"log.jsonl": it["log.jsonl"] + b"x"})
    yield "no last newline", lambda it: summed(it | {"log.jsonl": it["log.jsonl"][:-1]})
    yield (
        "oversized line",
        lambda it: with_lines(it, [*lines_of(it)[:8], b'"' + b"x" * (5 * 1024**2) + b'"', *lines_of(it)[8:]]),
    )
    yield "endless line", lambda it: summed(it | {"log.jsonl": b"x" * (9 * 1024**2)})
    yield "deep line", lambda it: with_lines(it, [*lines_of(it)[:8], b"[" * 200_000, *lines_of(it)[8:]])
    yield "not text", lambda it: with_lines(it, [*lines_of(it)[:8], b"\xff\xfe{}", *lines_of(it)[8:]])


def forgeries() -> Iterator[Case]:
    """A whole history made anew: its chain is right, and what it says is what no store says."""
    for value in ("zzz", None, 1, [], "crashed"):
        yield f"status {value!r}", setting("sessions", status=value)
    for value in (2**63, 2**60, -(2**60), -(2**70), 1.5, "x", True, None):
        yield f"created_at {value!r}", setting("sessions", created_at=value)
    for value in ("not json", '{"a":1}', "[1]", 7, None):
        yield f"labels {value!r}", setting("sessions", labels=value)
    for value in ("a\0b", ["x"], {"x": 1}, 3, None):
        yield f"title {value!r}", setting("sessions", title=value)
    for op in ("explode", "delete", "set", 7, ""):
        yield f"op {op!r}", bodies(lambda body, op=op: body.update(op=op), "sessions")
    yield "unknown column", setting("sessions", evil=1)
    yield "made twice", lambda _: rehashed(lambda events: events.insert(1, json.loads(json.dumps(events[0]))))
    yield "no session", lambda _: rehashed(lambda events: events.__delitem__(slice(0, 1)))
    yield "unknown table", lambda _: rehashed(lambda events: events[0].update(table="evil"))
    yield "table of another", lambda _: rehashed(lambda events: events[3].update(table="anchors"))
    for blobs in (["../../x"], ["0" * 64], ["zz"], [7], [""], "x"):
        yield f"blobs {blobs!r}"[:30], bodies(lambda body, blobs=blobs: body.update(blobs=blobs), "turns")
    for refs in ([{"uid": "x", "seq": 1}], [7], [["0" * 32, "x"]], [{"uid": "0" * 32, "seq": 2**70}]):
        yield f"refs {refs!r}"[-60:], bodies(lambda body, refs=refs: body.update(refs=refs), "turns")
    for name, value in (("kind", "a\0b"), ("kind", "x" * 300), ("actor", "a\0b"), ("actor", "x" * 300)):
        yield (
            f"event {name} {value[:4]!r}",
            lambda _, name=name, value=value: rehashed(lambda events: events[0].update({name: value})),
        )
    yield "long document", bodies(lambda body: body.update(doc={"content": "x" * LINE_MAX_BYTES}), "turns")
    yield "deep document", bodies(lambda body: body.update(doc=json.loads("[" * 300 + "]" * 300)), "turns")
    yield "newer body", bodies(lambda body: body.update(v=99), "turns")
    yield "document elsewhere", bodies(lambda body: body.update(doc_blob="0" * 64, blobs=["0" * 64]), "turns")
    yield "role", setting("turns", role="root")
    for name, value in (
        ("status", "zzz"),
        ("token", "x"),
        ("agent", 7),
        ("cuts", 2**64),
        ("holder", []),
        ("suspect", 9),
    ):
        yield f"run {name}", setting("runs", "run", **{name: value})
    yield "a run that is no run", lambda _: rehashed(lambda events: events[0]["body"]["set"].pop("agent"), "run")


def unreadable() -> Iterator[Case]:
    """Nothing is wrong with the chain or the rows, but verify or a listing would complain for ever."""
    for kind in ("session", "run"):
        for first in ("run.started", "session.opened", "scope.opened", "store.anchored", "tenant.imported", "evil"):
            if not first.startswith(kind):
                yield f"a {kind} that begins as {first}", lambda _, k=kind, f=first: rehashed(_first(f), k)
        for at in (2**60, -(2**60), 2**63 - 1):
            yield (
                f"a {kind} of {at}",
                lambda _, k=kind, at=at: rehashed(lambda events: [e.update(at=at) for e in events], k),
            )
    yield "a loop of summaries", lambda _: rehashed(cover_backwards)
    for content in ({"$": ["bytes", "!"]}, {"$": ["int", "zz"]}, {"$": ["nothing", 1]}, {"$": []}):
        yield f"content {content}", bodies(lambda body, c=content: body.update(doc={"content": c}), "turns")
    yield "same key twice", lambda _: rehashed(double_turn)


def _first(kind: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda events: events[0].update(kind=kind)


def cover_backwards(events: list[dict[str, Any]]) -> None:
    """A summary that begins after its end: whoever looks for the one before it finds it again."""
    cover = json.loads(json.dumps(next(event for event in events if event["table"] == "turns")))
    cover |= {"table": "covers", "kind": "turns.summarised"}
    cover["body"] = {"op": "insert", "set": {"first_seq": 10**6, "last_seq": 2}, "doc": "all of it"}
    events.append(cover)


def double_turn(events: list[dict[str, Any]]) -> None:
    turn = next(event for event in events if event["table"] == "turns")
    turn["body"]["set"]["key"] = "same"
    events.append(json.loads(json.dumps(turn)))


def blobs() -> Iterator[Case]:
    yield "blob missing", lambda it: summed({name: data for name, data in it.items() if name != blob_of(it)})
    yield "blob gone but named", lambda it: {name: data for name, data in it.items() if name != blob_of(it)}
    yield "blob more", lambda it: summed(it | {f"blobs/{hashlib.sha256(b'x').hexdigest()}": b"x"})
    yield "blob altered", lambda it: it | {blob_of(it): it[blob_of(it)][::-1]}
    yield "blob altered and summed", lambda it: summed(it | {blob_of(it): it[blob_of(it)][::-1]})
    yield "blob emptied", lambda it: summed(it | {blob_of(it): b""})
    yield "blob shorter", lambda it: it | {blob_of(it): it[blob_of(it)][:-1]}
    yield (
        "blob called otherwise",
        lambda it: summed({("blobs/" + "0" * 64 if n == blob_of(it) else n): d for n, d in it.items()}),
    )


def blob_of(members: Members) -> str:
    return max((name for name in members if name.startswith("blobs/")), key=lambda name: (len(members[name]), name))


BY_WHO_KNOWS: list[Case] = [*forgeries(), *unreadable(), *blobs()]
CORPUS: list[Case] = [*containers(), *flips(), *manifests(), *histories(), *BY_WHO_KNOWS]


def made(case: Callable[[Members], bytes | Members], sound: Members, path: Path) -> Path:
    found = case(dict(sound))
    path.write_bytes(found if isinstance(found, bytes) else packed(found))
    return path


def events_in(store: Any) -> int:
    return store.verify(blobs=False).counts.events


def test_the_corpus_is_large_and_the_sound_bundle_is_imported(sound, tmp_path) -> None:
    assert len(CORPUS) >= 200
    assert len({name for name, _ in CORPUS}) == len(CORPUS)
    for members in (sound, summed(sound)):
        with perdure.open("memory:") as store:
            assert store.import_(made(lambda _, it=members: it, sound, tmp_path / "x")).added > 20
            assert store.verify().ok
    for kind in ("session", "run"):  # nothing is wrong with the way in which forgeries are made
        with perdure.open("memory:") as store:
            store.import_(made(lambda _, kind=kind: rehashed(lambda _: None, kind), sound, tmp_path / "x"))
            assert store.verify().ok


@pytest.mark.parametrize("case", CORPUS, ids=[name for name, _ in CORPUS])
def test_a_hostile_bundle_is_refused_with_its_place_and_nothing_is_written(case, sound, empty, tmp_path) -> None:
    path = made(case[1], sound, tmp_path / "x.perdure")
    with pytest.raises((errors.Invalid, errors.Damaged, errors.NewerSchema)) as caught:
        empty.import_(path)
    assert caught.value.path, caught.value
    assert len(str(caught.value)) < 2_000
    assert events_in(empty) == 0


@pytest.mark.parametrize("case", BY_WHO_KNOWS, ids=[name for name, _ in BY_WHO_KNOWS])
def test_what_only_a_database_or_a_digest_tells_is_found_without_the_store(case, sound, tmp_path) -> None:
    """A dry run says so, no store is made for it, and no blob of it is carried anywhere."""
    with pytest.raises((errors.Invalid, errors.Damaged, errors.NewerSchema)):
        bundle_in.look(made(case[1], sound, tmp_path / "x.perdure"))


@pytest.mark.parametrize("said", [{"program": "x" * 5_000}, {"ended_at": -1}])
def test_a_run_that_says_what_no_envelope_may_say_is_damaged_and_no_bug(said, sound, empty, tmp_path) -> None:
    """Nothing in the history itself is wrong, so it is imported; whoever looks at the run is told."""
    forged = bodies(lambda body: body["set"].update(said), "runs", "run")
    empty.import_(made(forged, sound, tmp_path / "x.perdure"))
    (run,) = empty.runs()
    with pytest.raises(errors.Damaged, match="no place in an envelope"):
        run.envelope()


def test_control_the_same_corpus_gets_through_when_nobody_checks(sound, tmp_path, monkeypatch) -> None:
    """Hashes and folding are not looked at: edited histories and forgeries are written, and the corpus sees it."""

    def lenient(uid: bytes, event: Any, head: Any) -> Any:
        return event.seq, event.hash

    monkeypatch.setattr(bundle, "follow", lenient)
    monkeypatch.setattr(replay, "follow", lenient)
    monkeypatch.setattr(bundle_in, "_check_rows", lambda *_: bundle_in.StreamKeys(None, ()))
    monkeypatch.setattr(bundle_in, "rehearse", lambda *_: None)
    through = set()
    for name, case in [*histories(), *forgeries()]:
        with perdure.open("memory:") as store:
            try:
                store.import_(made(case, sound, tmp_path / "x.perdure"))
            except (errors.Error, TypeError, OverflowError):  # the drivers complain, in their own words
                continue
            through.add(name)
            assert events_in(store) > 0
    assert through >= {"actor 'eve'", "title 3", "unknown column"}
    assert len(through) >= 5


def test_a_chain_that_stands_here_as_something_else_is_a_conflict(tmp_path) -> None:
    """Kinds and names are not hashed: what is known by its identity must be what it is here."""
    original = single("session")
    forged = manifest_of(original)
    forged["streams"][0]["kind"] = "scope"
    lines = lines_of(original)
    lines[0] = json.dumps(json.loads(lines[0]) | {"kind": "scope"}).encode()
    with perdure.open("memory:") as store:
        store.import_(made(lambda it: it, original, tmp_path / "x"))
        before = events_in(store)
        with pytest.raises((errors.Conflict, errors.Damaged)):
            store.import_(made(lambda it: with_lines(with_manifest(it, forged), lines), original, tmp_path / "y"))
        assert events_in(store) == before


def test_a_tenant_is_not_told_that_another_one_has_a_stream(tmp_path) -> None:
    """But for its own name the second tenant is answered as the first one was, and sees nothing before it imports."""
    path = made(lambda it: it, single("session"), tmp_path / "x.perdure")
    url = f"sqlite:///{tmp_path}/a.db"
    answers = []
    for tenant in ("one", "two"):
        with perdure.open(url, tenant=tenant) as store:
            assert [*store.sessions()] == []
            found = [store.import_(path), store.import_(path)]
            assert [it.tenant for it in found] == [tenant, tenant]
            answers.append([msgspec.structs.replace(it, tenant="") for it in found])
            assert len([*store.sessions()]) == 1
    assert answers[0] == answers[1]
    assert answers[0][0].added > 0 == answers[0][1].added
