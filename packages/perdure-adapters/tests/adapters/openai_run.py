"""A payment agent of OpenAI Agents with a scripted model, for the tests that kill it: openai_run.py durable|stock URL FOLDER.

It runs in the framework's own environment. `asked` and `world` in the folder count what the model was asked and what was paid;
KILL_IN_TOOL kills the process after the first payment, once.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import perdure
from perdure_adapters.openai_agents import DurableRunner, PerdureSession, durable_function_tool

MODE, URL, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])


def note(name: str, text: str) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())


def noted(name: str) -> list[str]:
    return (FOLDER / name).read_text().split() if (FOLDER / name).exists() else []


def look(invoice: str):
    return perdure.Happened(f"paid {invoice}") if invoice in noted("world") else perdure.Absent()


def pay(invoice: str) -> str:
    """Pay an invoice."""
    note("world", invoice)
    if os.environ.get("KILL_IN_TOOL") and not (FOLDER / "killed").exists():
        note("killed", "x")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {invoice}"


def call(number: int, invoice: str) -> ResponseFunctionToolCall:
    arguments = f'{{"invoice": "{invoice}"}}'
    return ResponseFunctionToolCall(
        id=f"fc{number}", call_id=f"call_{number}", name="pay", arguments=arguments, type="function_call"
    )


def message(text: str) -> ResponseOutputMessage:
    said = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[said], role="assistant", status="completed", type="message")


class Scripted(Model):
    """Two payments at once, then a third, then the answer."""

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002
        note("asked", "x")
        done = sum(item.get("type") == "function_call_output" for item in input)
        output = {0: [call(1, "a"), call(2, "b")], 2: [call(3, "c")]}.get(done, [message("all paid")])
        usage = Usage(requests=1, input_tokens=1, output_tokens=1, total_tokens=2)
        return ModelResponse(output=output, usage=usage, response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


async def main() -> None:
    if MODE == "stock":
        agent = Agent(name="payer", model=Scripted(), tools=[function_tool(pay)])
        result = await Runner.run(agent, "pay", session=SQLiteSession("s", URL))
    else:
        tool = durable_function_tool(pay, probe=look, lands_within=0)
        session = PerdureSession("s", URL)
        agent = Agent(name="payer", model=Scripted(), tools=[tool])
        result = await DurableRunner.run(agent, "pay", session=session, key="r")
        items = await session.get_items()
        kinds = [item.get("type", "message") for item in items]
        outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
        assert kinds.count("function_call") == 3, kinds
        assert sorted(outputs) == ["paid a", "paid b", "paid c"], outputs
        assert kinds[0] == kinds[-1] == "message", kinds
        session.close()
    assert result.final_output == "all paid"


asyncio.run(main())
