"""The locked requirements follow pyproject.toml, and each of them has a digest: `make` installs nothing else (tools/lock.py)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
MEMBERS: dict[str, dict[str, Any]] = {
    path.parent.name: tomllib.loads(path.read_text()) for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
LOCKED = re.compile(r"(?m)^([\w.-]+)==(\S+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$")


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text()


def asked(level: str) -> list[str]:
    """The requirements of a level: of the core for `runtime`, of every package for `dev`. Our own packages are none."""
    core = MEMBERS["perdure"]
    if level == "runtime":
        return [*core["build-system"]["requires"], *core["project"]["dependencies"]]
    extras = core["project"]["optional-dependencies"]
    of_all = [line for extra in Requirement(extras["all"][0]).extras for line in extras[extra]]
    of_members = [line for member in MEMBERS.values() for line in member["project"]["dependencies"]]
    of_mcp = MEMBERS["perdure-agents"]["project"]["optional-dependencies"]["mcp"]
    lines = [*of_all, *of_members, *of_mcp, *PROJECT["dependency-groups"]["dev"]]
    return [line for line in lines if Requirement(line).name not in MEMBERS]


def missing(requirements: list[str], text: str) -> list[str]:
    """The requirements that no locked version satisfies."""
    versions: dict[str, list[str]] = {}
    for name, version, _ in LOCKED.findall(text):
        versions.setdefault(canonicalize_name(name), []).append(version)
    wanted = [Requirement(each) for each in requirements]
    return [
        str(each)
        for each in wanted
        if not any(
            each.specifier.contains(Version(at), prereleases=True)
            for at in versions.get(canonicalize_name(each.name), [])
        )
    ]


@pytest.mark.parametrize("level", ["runtime", "dev"])
def test_the_lock_follows_the_project(level: str) -> None:
    assert missing(asked(level), lock(level)) == [], "run `python tools/lock.py`"


@pytest.mark.parametrize("name", ["uv", "runtime", "dev"])
def test_every_line_of_a_lock_is_a_version_with_its_digests(name: str) -> None:
    text = lock(name)
    assert LOCKED.sub("", text).strip() == ""
    assert all(digests for _, _, digests in LOCKED.findall(text))


@pytest.mark.parametrize(("requirement", "line"), [("a>=2", "a==1.9"), ("b", "a==1"), ("a==2.*", "a==3.0")])
def test_control_a_lock_that_lags_is_caught(requirement: str, line: str) -> None:
    assert missing([requirement], f"{line} \\\n    --hash=sha256:{'0' * 64}\n") == [requirement]


def test_control_a_line_without_digest_is_seen() -> None:
    assert [digests for _, _, digests in LOCKED.findall("a==1\n")] == [""]
