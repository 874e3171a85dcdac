"""Transcripts of hosts whose format Perdure does not read itself: left alone, and kept once a package brings the format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from interchange.importers.test_outside_formats import installed


def hook(folder: Path, host: str, event: str, **environment: str) -> subprocess.CompletedProcess[str]:
    transcript = folder / "session.jsonl"
    transcript.write_text("".join(json.dumps({"diary": day, "text": f"on {day}"}) + "\n" for day in ("mon", "tue")))
    said = {"hook_event_name": event, "cwd": str(folder), "session_id": "s", "transcript_path": str(transcript)}
    command = [sys.executable, "-m", "perdure", "hook", host, "--store", f"sqlite:///{folder}/a.db"]
    return subprocess.run(
        command,
        input=json.dumps(said),
        env=os.environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def turns(folder: Path) -> list[Any]:
    with perdure.open(f"sqlite:///{folder}/a.db") as store:
        return [turn.content for session in store.sessions() for turn in store.session(session.name).turns()]


@pytest.mark.parametrize(
    ("host", "event"), [("gemini", "AfterAgent"), ("gemini", "SessionStart"), ("cursor", "stop"), ("opencode", "Stop")]
)
def test_a_transcript_that_cannot_be_read_is_left_alone(tmp_path: Path, host: str, event: str) -> None:
    done = hook(tmp_path, host, event)
    assert (done.returncode, done.stderr) == (0, "")
    assert turns(tmp_path) == []


@pytest.mark.parametrize(("host", "event"), [("gemini", "AfterAgent"), ("cursor", "stop")])
def test_a_package_that_brings_the_format_has_it_kept_each_turn_once(tmp_path: Path, host: str, event: str) -> None:
    site = installed(tmp_path, f"{host} = perdure_diary:{host}")
    for _ in range(2):
        done = hook(tmp_path, host, event, PYTHONPATH=str(site))
        assert (done.returncode, done.stderr) == (0, "")
    assert turns(tmp_path) == ["on mon", "on tue"]
