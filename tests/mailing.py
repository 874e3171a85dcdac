"""An agent that asks and then sends: for tests of what a store that was put back must not send again."""

from __future__ import annotations

import perdure

SENT: list[str] = []


@perdure.tool
def send(what: str) -> str:
    SENT.append(what)
    return what


@perdure.agent
def mailing(run: perdure.Run) -> str:
    run.ask("?")
    return run.act(send, "mail")
