"""One life of a program whose trunk and branches wait for each other by queues and events, beside waits of Perdure. It drives the
run `k` as far as it comes, and may be killed by a crash point.

python -m runtime.own_waits_life STORE FOLDER
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import perdure
from perdure.runtime import standstill

WORK = ("ann", "bob", "cid")


@perdure.tool(name="own-waits.mail")
async def mail(folder: str, to: str) -> str:
    """Unsafe: a second call would be a second mail."""
    await asyncio.sleep(0)
    arrive(folder, to)
    await asyncio.sleep(0)
    return to


def arrive(folder: str, to: str) -> None:
    with Path(folder, to).open("a") as file:
        file.write("once\n")


def arrived(folder: Path, to: str) -> int:
    path = folder / to
    return len(path.read_text().splitlines()) if path.exists() else 0


@perdure.agent(name="own-waits.life")
async def life(run: perdure.AsyncRun, folder: str) -> list[str]:
    """Each worker asks, or waits for a signal, and acts before and after that; one acts in peace beside them."""
    work: asyncio.Queue[str] = asyncio.Queue()
    all_asked = asyncio.Event()
    done: dict[str, str] = {}

    async def worker(branch: perdure.AsyncRun, name: str) -> None:
        item = await work.get()
        await branch.act(mail, folder, f"{item}-first")
        answer = await (branch.wait(item) if name == "cid" else branch.ask(item))
        done[item] = f"{answer} {await branch.act(mail, folder, f'{item}-then')}"
        if len(done) == len(WORK):
            all_asked.set()
        work.task_done()

    async def other(branch: perdure.AsyncRun) -> None:
        await branch.act(mail, folder, "other")
        await all_asked.wait()
        await branch.act(mail, folder, "other-then")

    tasks = [asyncio.create_task(worker(run.branch(name), name)) for name in WORK]
    tasks.append(asyncio.create_task(other(run.branch("other"))))
    for name in WORK:
        work.put_nowait(name)
    await work.join()
    await asyncio.gather(*tasks)
    return [*done.values(), await run.act(mail, folder, "end")]


def live(url: str, folder: str) -> None:
    standstill.LOOK_SECONDS, standstill.STILL_LOOKS = 0.01, 3
    with perdure.open(url, actor="life") as store, contextlib.suppress(perdure.Waiting):
        store.drive(life, folder, key="k")


if __name__ == "__main__":
    live(*sys.argv[1:])
