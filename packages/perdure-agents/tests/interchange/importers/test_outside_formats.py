"""A format of another package is found by its entry point: recognised, named, refused when it is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

DIARY = """
from perdure_agents.importers.formats import ImportFormat
from perdure_agents.importers.items import ImportedFrom, ImportedTurn, LeftOut, ImportedSession
from perdure_agents.importers.sources import each_record


def recognises(head):
    return bool(head.records) and all("diary" in record for record in head.records)


def _items(record):
    if "diary" not in record.data:
        yield LeftOut(record.place, "no entry")
        return
    yield ImportedSession("diary", "diary", record.place)
    day = record.data["diary"]
    yield ImportedTurn("diary", day, "user", record.data["text"], ImportedFrom("diary", day), record.place)


def read(source):
    return each_record(source, lambda data: "diary" in data, _items)


diary = ImportFormat("diary", "diaries (JSON lines)", read, recognises)
cursor = diary._replace(name="cursor")
gemini = diary._replace(name="gemini")
wrong = "no format"
"""


def installed(tmp_path: Path, declared: str) -> Path:
    """The package, made as a wheel and unpacked where Python finds it, as installers do."""
    wheel, site = tmp_path / "perdure_diary-1.0-py3-none-any.whl", tmp_path / "site"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("perdure_diary.py", DIARY)
        about = "perdure_diary-1.0.dist-info"
        packed.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: perdure-diary\nVersion: 1.0\n")
        packed.writestr(f"{about}/entry_points.txt", f"[perdure.importers]\n{declared}\n")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


def imported(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    file = site.parent / "diary.jsonl"
    file.write_text("".join(json.dumps({"diary": day, "text": f"on {day}"}) + "\n" for day in ("mon", "tue")))
    command = [sys.executable, "-m", "perdure", "import", str(file), *words, "--store", f"sqlite:///{site.parent}/a.db"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run(command, env=environment, cwd=site.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [(), ("--from", "diary")])
def test_its_files_are_recognised_and_it_can_be_named(tmp_path, words):
    site = installed(tmp_path, "diary = perdure_diary:diary")
    first, again = imported(site, *words, "--json"), imported(site, *words, "--json")
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    import perdure

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        assert [turn.content for turn in store.session("diary").turns()] == ["on mon", "on tue"]


@pytest.mark.parametrize(
    ("declared", "says"),
    [("diary = perdure_diary:nothing", "cannot be loaded"), ("diary = perdure_diary:wrong", "is not a format")],
)
def test_a_broken_one_is_refused_with_its_name(tmp_path, declared, says):
    done = imported(installed(tmp_path, declared), "--from", "diary")
    assert done.returncode != 0
    assert says in done.stderr
    assert "diary" in done.stderr


def test_ours_is_not_replaced(tmp_path):
    done = imported(installed(tmp_path, "codex = perdure_diary:diary"), "--from", "nothing")
    assert "no format 'nothing'" in done.stderr
    assert done.stderr.count("codex") == 1
