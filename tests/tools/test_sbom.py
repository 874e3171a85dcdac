"""The bill of materials: every dependency of the project is in it, and nothing of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from vendor import PACKAGES  # noqa: E402 - not a package


def test_it_names_what_the_project_needs_and_nothing_of_this_machine(tmp_path):
    for name in ("a", "b"):
        subprocess.run([sys.executable, ROOT / "tools" / "sbom.py", tmp_path / name], check=True)
    text = (tmp_path / "a").read_text()
    assert text == (tmp_path / "b").read_text()
    assert str(ROOT) not in text
    assert "://" not in text
    found = json.loads(text)
    names = {each["name"] for each in found["components"]}
    wanted = tomllib.loads((ROOT / "packages" / "perdure" / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {each.partition(">")[0].replace(".", "-") for each in wanted if "python_version" not in each} <= names
    shipped = {each["name"]: each["version"] for each in found["components"] if each["purl"].startswith("pkg:npm/")}
    assert shipped == {each.name: each.version for each in PACKAGES}
    refs = {each["bom-ref"] for each in [*found["components"], found["metadata"]["component"]]}
    assert {ref for each in found["dependencies"] for ref in (each["ref"], *each["dependsOn"])} <= refs
