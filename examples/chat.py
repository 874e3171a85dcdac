"""A model behind a chat-completions API, with nothing but the standard library; and tools, described as such an API wants them.

MODEL_URL is the address of the API, MODEL_NAME the model, MODEL_KEY the key of whoever pays. The key is read when it is needed:
it is in no record.
"""

import inspect
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

import perdure

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


SETTINGS = ("MODEL_URL", "MODEL_NAME", "PUBLISH_URL")


class Busy(Exception):
    """The model cannot answer now: nothing is wrong with the question."""


def check_settings() -> None:
    """End before anything is begun if a setting is missing, rather than fail in the middle of a run."""
    if missing := [name for name in SETTINGS if name not in os.environ]:
        sys.exit(f"{' and '.join(missing)} must be set: the first lines of agent.py show how")


def chat(messages: list[dict[str, Any]], tools: Iterable[perdure.Tool]) -> dict[str, Any]:
    """Ask the model. Gives its `message`, the `calls` that it makes, as `respond` takes them, and its `usage`."""
    asked = {"model": os.environ["MODEL_NAME"], "messages": messages, "tools": [described(each) for each in tools]}
    request = urllib.request.Request(os.environ["MODEL_URL"] + "/chat/completions", json.dumps(asked).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {os.environ.get('MODEL_KEY', '')}")
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 429 or error.code >= 500:
            raise Busy(f"{error.code} {error.reason}") from error
        raise RuntimeError(f"{error.code}: {error.read().decode(errors='replace')}") from error
    except OSError as error:
        raise Busy(str(error)) from error
    message = answer["choices"][0]["message"]
    calls = [call_of(each) for each in message.get("tool_calls") or []]
    return {"message": message, "calls": calls, "usage": answer.get("usage")}


def call_of(made: dict[str, Any]) -> perdure.Call:
    """The call that a model wants. Arguments that are no JSON go on as they are: the model is told that they do not fit."""
    function = made["function"]
    try:
        args = json.loads(function["arguments"])
    except ValueError:
        args = function["arguments"]
    return perdure.Call(made["id"], function["name"], args)


def described(tool: perdure.Tool) -> dict[str, Any]:
    """A tool as the API wants it: its name, the first line of its docstring, and what a model may pass."""
    given = {name: each for name, each in tool.signature.parameters.items() if name not in tool.takes}
    properties = {name: {"type": TYPES.get(each.annotation, "string")} for name, each in given.items()}
    required = [name for name, each in given.items() if each.default is inspect.Parameter.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    about = (inspect.getdoc(tool.fn) or tool.name).partition("\n")[0]
    return {"type": "function", "function": {"name": tool.name, "description": about, "parameters": schema}}


def told(answer: perdure.Answer) -> dict[str, Any]:
    """The outcome of a call, as the model is told."""
    said = answer.result if answer.error is None else {"error": str(answer.error)}
    return {"role": "tool", "tool_call_id": answer.call, "content": json.dumps(said)}
