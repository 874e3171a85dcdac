"""docs/importing.md: its commands and its program run as they stand there, and its table names every format."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from import_fixtures import FOREIGN
from perdure_agents.importers.formats import FORMATS
from perdure_agents.importers.state import HEADINGS

PAGE = (Path(__file__).parents[5] / "docs" / "importing.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(folder: Path, *command: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PERDURE_STORE": "sqlite:///agent.db", "PATH": path}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_on_the_page_runs(tmp_path: Path) -> None:
    shutil.copytree(FOREIGN / "claude-code", tmp_path / "notes")
    (tmp_path / "backlog.tsv").write_text("Summary\tStatus\nWrite\topen\n")
    blocks = BLOCK.findall(PAGE)
    for line in next(text for language, text in blocks if not language).splitlines():
        run(tmp_path, *line.split())
    (tmp_path / "example.py").write_text(next(text for language, text in blocks if language == "python"))
    assert run(tmp_path, sys.executable, "example.py") == "True {}\n"


def test_the_tables_name_every_format_and_every_field() -> None:
    rows = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [f"`{name}`" for name in [*FORMATS, *HEADINGS]]
    for kind, fields in HEADINGS.items():
        (listed,) = re.findall(rf"^\| `{kind}` \| ([^|]*) \|", PAGE, re.MULTILINE)
        assert set(listed.split(", ")) == set(fields)
