"""A line of the log is a JSON object, and the lines of before, whose checksum followed the object, still load (P6)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import perdure
from perdure.runtime.callers import caller_of
from perdure_files.store.layout import Layout
from perdure_files.store.line import FoundLine, Piece, check_of, lines_in, names_of
from stores.files import corpus, rebuilt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus.told(tmp_path)
    return tmp_path / "whole"


def in_the_older_form(lines: list[bytes]) -> bytes:
    """The log as earlier versions wrote it: the same objects, each followed by its checksum."""
    older, check = [], ""
    for raw in lines:
        text = raw[: raw.rindex(b',"check":')] + b"}"
        text = text.replace(
            b'{"v":2,"prev":"%b"' % json.loads(raw)["prev"].encode(), b'{"v":1,"prev":"%b"' % check.encode()
        )
        check = check_of(text)
        older.append(b"%b %b\n" % (text, check.encode()))
    return b"".join(older)


def segment(folder: Path) -> Path:
    return Layout(folder).segment(1)


def made_older(folder: Path) -> None:
    segment(folder).write_bytes(in_the_older_form(segment(folder).read_bytes().splitlines()))
    shutil.rmtree(folder / ".perdure")


def test_every_line_is_a_json_object_whose_last_member_is_its_checksum(folder):
    for raw in segment(folder).read_bytes().splitlines():
        doc = json.loads(raw)
        assert [*doc][-1] == "check"
        assert doc["check"] == check_of(raw[: raw.rindex(b',"check":')])


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing")
def test_jq_reads_a_log(folder):
    command = ["jq", "-r", ".events[]?.kind", str(segment(folder))]
    assert "turn.said" in subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def test_a_log_of_older_lines_loads_and_goes_on_in_the_newer_form(folder):
    before, _ = rebuilt.made_from_the_log(folder)
    made_older(folder)
    assert rebuilt.made_from_the_log(folder) == (before, [])
    for word in ("one", "two"):
        with perdure.open(f"files:///{folder}") as store:
            store.session("s1").say("user", word)
            assert store.verify().ok
            assert caller_of(store).core.epoch == 2  # as of a clone, once
    forms = [raw.endswith(b"}") for raw in segment(folder).read_bytes().splitlines()]
    assert forms == sorted(forms)
    assert len(set(forms)) == 2
    rebuilt.check(folder)


def test_an_older_log_packs_purges_and_names_its_lines(folder):
    lines = in_the_older_form(segment(folder).read_bytes().splitlines()).splitlines()
    names = [next(names_of(raw)) for raw in lines]
    assert names[:-1] == [json.loads(raw[:-33])["prev"] for raw in lines[1:]]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"", b" "])
def test_lines_of_both_forms_are_found_wherever_they_lie(folder, end):
    newer = segment(folder).read_bytes().splitlines()
    older = in_the_older_form(newer).splitlines()
    mixed = [line for pair in zip(newer, older, strict=True) for line in pair]
    found = [each for each in lines_in(end.join(mixed), 0) if isinstance(each, FoundLine)]
    assert len(found) == len(mixed)


def test_a_changed_byte_shows_in_either_form(folder):
    newer = segment(folder).read_bytes().splitlines()
    for raw in (newer[3], in_the_older_form(newer).splitlines()[3]):
        for place in range(len(raw)):
            changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
            assert [type(each) for each in lines_in(changed, 0)] == [Piece], place


def test_what_a_value_says_of_checks_is_not_taken_for_one(tmp_path):
    with perdure.open(f"files:///{tmp_path}/store") as store:
        store.session("a").set("x", {"check": "a" * 32})
        store.session("a").say("user", ',"check":"' + "a" * 32 + '"}')
    data = segment(tmp_path / "store").read_bytes()
    glued = data.replace(b"\n", b"")
    assert len([*lines_in(glued, 0)]) == len(data.splitlines())
