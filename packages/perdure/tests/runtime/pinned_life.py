"""One life of a program under a version of its model: it drives the run `k` as far as it comes. Killed by a crash point.

python -m runtime.pinned_life STORE FOLDER MODEL POLICY
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import perdure


@perdure.tool
def mail(folder: str, to: str) -> str:
    """Unsafe: a second call would be a second mail."""
    with Path(folder, to).open("a") as file:
        file.write("once\n")
    return to


def arrived(folder: Path, to: str) -> int:
    path = folder / to
    return len(path.read_text().splitlines()) if path.exists() else 0


def deployed(model: str, policy: str) -> Any:
    @perdure.agent(name="pinned", pins={"model": model}, on_change=policy)
    def pinned(run: perdure.Run, folder: str) -> list[str]:
        first = run.act(mail, folder, "ann")
        run.ask("Go on?")
        return [first, run.act(mail, folder, "bob")]

    return pinned


def live(url: str, folder: str, model: str, policy: str) -> None:
    with perdure.open(url, actor="life") as store, contextlib.suppress(perdure.Waiting, perdure.Parked):
        store.drive(deployed(model, policy), folder, key="k")


if __name__ == "__main__":
    live(*sys.argv[1:])
