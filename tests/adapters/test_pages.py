"""The examples of docs/adapters run as they stand there, in the environment of their framework; skipped without it."""

from __future__ import annotations

import re
import subprocess

import pytest

from adapters.test_openai_agents import ROOT, adapters_tool

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPTED = """
import asyncio
from agents import Model, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
class Scripted(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        if input[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            arguments = '{"invoice": "a"}'
            said = ResponseFunctionToolCall(call_id="c", name="pay", arguments=arguments, type="function_call")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)
    def stream_response(self, *args, **kwargs): ...
asyncio.run(main(Scripted()))
assert PAID == {"a"}
"""
LEDGERED = """
import asyncio
handler = ledger.ledgered(pay)
assert asyncio.run(handler({"invoice": "a"}))["content"][0]["text"] == "paid a"
hooks = ledger.hooks()
before = hooks["PreToolUse"][0].hooks[0]
after = hooks["PostToolUse"][0].hooks[0]
asked = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
async def bash():
    assert await before(asked, "t1", None) == {}
    await after({"hook_event_name": "PostToolUse", "tool_response": "a.py"}, "t1", None)
asyncio.run(bash())
import perdure
with perdure.open(URL) as store:
    assert sorted(each.tool for each in store.effects(state="committed")) == ["Bash", "pay"]
"""


@pytest.mark.parametrize(("name", "more"), [("openai-agents", SCRIPTED), ("claude-agent", LEDGERED)])
def test_the_example_of_a_page_runs(tmp_path, name, more):
    home = adapters_tool.place(name)
    if not (home / "installed").is_file():
        pytest.skip(f"{name} is not there: `make adapters` gets it")
    (text,) = BLOCK.findall((ROOT / "docs" / "adapters" / f"{name}.md").read_text())
    (tmp_path / "example.py").write_text(text + more)
    command = [str(home / "bin" / "python"), "example.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
