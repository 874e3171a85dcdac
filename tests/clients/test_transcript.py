"""The page about workers in other languages: its transcript runs as it stands there, against a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

import perdure
from doors.http.serving_kit import LiveServer, make_token

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "other-languages.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_transcript_of_the_page_drives_a_run_to_its_end(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    token = make_token(url, role="worker")
    part = PAGE.read_text().partition("## A run from its claim to its end\n")[2].partition("\n## ")[0]
    script = textwrap.dedent(part)
    assert "finish" in script
    with perdure.open(url) as store, LiveServer(url) as server:

        def fix(run: object) -> None: ...

        run = store.start(perdure.agent(fix))
        env = {**os.environ, "URL": str(server.http.base_url).rstrip("/"), "TOKEN": token}
        command = ["bash", "-eu", "-c", script]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        assert run.result(timeout=1) == {"number": 7}, done.stdout
