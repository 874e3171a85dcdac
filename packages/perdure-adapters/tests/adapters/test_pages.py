"""The examples of docs/adapters run as they stand there, in the environment of their framework; skipped without it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.sweeping import pays_once
from adapters.test_openai_agents import ROOT, adapters_tool

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEDGERED = """
ledger = PerdureLedger(URL, "payments")
assert asyncio.run(ledger.ledgered(pay)({"invoice": "a"}))["content"][0]["text"] == "paid a"
hooks = ledger.hooks()
before = hooks["PreToolUse"][0].hooks[0]
after = hooks["PostToolUse"][0].hooks[0]
asked = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
async def bash():
    assert await before(asked, "t1", None) == {}
    await after({"hook_event_name": "PostToolUse", "tool_response": "a.py"}, "t1", None)
asyncio.run(bash())
with perdure.open(URL) as store:
    assert sorted(each.tool for each in store.effects(state="committed")) == ["Bash", "pay"]
"""


def python_with(name: str) -> Path:
    home = adapters_tool.place(name)
    if not (home / "installed").is_file():
        pytest.skip(f"{name} is not there: `make adapters` gets it")
    return home / "bin" / "python"


def test_the_example_of_openai_agents_is_killed_and_pays_once(tmp_path: Path) -> None:
    pays_once(python_with("openai-agents"), "openai-agents.md", tmp_path)


def test_the_example_of_langgraph_is_killed_and_pays_once(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.prebuilt", reason="langgraph is not installed")
    pays_once(Path(sys.executable), "langgraph.md", tmp_path)


def test_the_tools_of_the_example_of_claude_agent_are_ledgered(tmp_path: Path) -> None:
    """Its `main` needs a model; see packages/perdure-adapters/tests/adapters/together for whole conversations."""
    (text,) = BLOCK.findall((ROOT / "docs" / "adapters" / "claude-agent.md").read_text())
    (tmp_path / "example.py").write_text(text.replace("asyncio.run(main())\n", LEDGERED))
    command = [str(python_with("claude-agent")), "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
