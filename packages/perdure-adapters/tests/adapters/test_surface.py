"""`import perdure` loads no adapter, and a missing or unsupported framework gives one line."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from perdure_adapters import framework_versions

PROGRAM = """
import sys
import perdure
perdure.open, perdure.aopen, perdure.tool
FRAMEWORKS = "agents", "claude_agent_sdk", "langgraph", "strands", "google", "agent_framework"
print([name for name in sys.modules if name.startswith(("perdure_adapters", *FRAMEWORKS))])
"""


def test_import_perdure_imports_no_adapter():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def missing(_package: str) -> str:
    raise PackageNotFoundError


@pytest.mark.parametrize(
    ("found", "says", "command"),
    [
        (missing, "is not installed", "pip install 'perdure[{extra}]'"),
        (
            lambda _: "0.1.2",
            "0.1.2 is installed",
            "pip install '{extra}",
        ),  # the package; its name begins with the extra's
    ],
)
@pytest.mark.parametrize("package", ["openai_agents", "claude_agent", "strands", "google_adk", "agent_framework"])
def test_a_framework_that_does_not_do_is_named_in_one_line(monkeypatch, package, found, says, command):
    monkeypatch.setattr(framework_versions, "version", found)
    monkeypatch.delitem(sys.modules, f"perdure_adapters.{package}", raising=False)
    with pytest.raises(ImportError) as caught:
        __import__(f"perdure_adapters.{package}")
    extra = package.replace("_", "-")
    assert says in str(caught.value)
    assert command.format(extra=extra) in str(caught.value)
    assert "\n" not in str(caught.value)
