"""The acts of the examples on the outside world: notes in a folder, and posts to a service that knows idempotency keys."""

import os
from pathlib import Path
from typing import Any

import perdure
from perdure_agents.ready.files import find_file, write_file
from perdure_agents.ready.http_tool import http_request

NOTES = str(Path(os.environ.get("NOTES", "notes")).absolute())  # another process may have to look there
Path(NOTES).mkdir(parents=True, exist_ok=True)


@perdure.tool(kind="read")
def read_note(name: str) -> str:
    """Read a note."""
    return (Path(NOTES) / Path(name).name).read_text()


def find_note(name: str, text: str) -> perdure.Happened | perdure.Absent | perdure.Unknown:
    """Whether the note says that by now: asked when a process died while it was written."""
    return find_file(name, text, root=NOTES)


@perdure.tool(probe=find_note, lands_within=0)
def write_note(name: str, text: str) -> dict[str, Any]:
    """Write a note, or replace it."""
    return write_file(name, text, root=NOTES)  # the folder is not for the model to choose


def a_person_agrees(intent: Any, actor: str) -> perdure.RequireApproval:  # noqa: ARG001 - what guards are given
    """The guard of what cannot be taken back."""
    return perdure.RequireApproval(f"Publish {intent.args['title']!r}?")


@perdure.tool(kind="keyed", guards=[a_person_agrees])
def publish(title: str, text: str, *, key: str) -> dict[str, Any]:
    """Publish an article. It cannot be taken back."""
    return http_request("POST", os.environ["PUBLISH_URL"], body={"title": title, "text": text}, key=key)


TOOLS = [read_note, write_note, publish]
