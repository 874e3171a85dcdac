"""An agent with every kind of effect and wait, and an outside world of files that counts what arrived. Run as a script it
is driven until it is killed: by a crash point, or after so many answers.

    python -m effects.moving_agent STORE FOLDER ANSWERS     (3+: after the third answer it goes on until it waits again)
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure

KEY = "the-run"
LONG = "long " * 4_000  # more than fits into an event: a blob


# -- the outside world -------------------------------------------------------------------------------------


def arrived(folder: str, what: str) -> int:
    """How often something arrived."""
    path = Path(folder, what)
    return len(path.read_text().splitlines()) if path.exists() else 0


def arrive(folder: str, what: str, line: str = "once") -> None:
    with Path(folder, what).open("a") as file:
        file.write(f"{line}\n")


@perdure.tool(kind="idempotent")
def set_label(folder: str, label: str) -> str:
    Path(folder, "label").write_text(label)
    return label


@perdure.tool(kind="keyed")
def open_pull(folder: str, title: str, *, key: str) -> dict[str, Any]:
    """The other side knows keys: one request for each."""
    lines = Path(folder, "pulls").read_text().splitlines() if Path(folder, "pulls").exists() else []
    if key not in lines:
        arrive(folder, "pulls", key)
    return {"title": title}


def is_pushed(folder: str, branch: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened("pushed") if arrived(folder, "pushes") else perdure.Absent()


@perdure.tool(probe=is_pushed, lands_within=0)
def push(folder: str, branch: str) -> str:
    arrive(folder, "pushes", branch)
    return "pushed"


@perdure.tool
def mail(folder: str, text: str) -> int:
    arrive(folder, "mails", text)
    return arrived(folder, "mails")


def give_back(folder: str) -> None:
    Path(folder, "given-back").write_text("yes")


@perdure.tool(kind="idempotent", undo=give_back)
def reserve(folder: str) -> str:
    arrive(folder, "reserved")
    return "reserved"


@perdure.tool(kind="read")
def look(folder: str) -> bool:
    return Path(folder).is_dir()


# -- the agents -----------------------------------------------------------------------------------------------


def draft(words: str) -> str:
    return words


def out_of_stock() -> None:
    raise LookupError("out of stock")


@perdure.agent
def review(run: perdure.Run, folder: str) -> str:
    run.act(set_label, folder, "in review")
    return run.ask("Is it good?", choices=["good", "bad"])


@perdure.agent
def move_house(run: perdure.Run, folder: str) -> dict[str, Any]:
    if run.restored is None:
        plan = run.step(draft, "plan")
        run.act(set_label, folder, plan)
        run.checkpoint({"plan": plan, "notes": [f"note {i} {LONG[:50]}" for i in range(200)]})
    looked = run.step(look, folder)
    pull = run.act(open_pull, folder, "fix")
    pushed = run.act(push, folder, "fix-42")
    long = run.step(draft, LONG)
    try:
        with run.saga():
            run.act(reserve, folder)
            run.step(out_of_stock)
    except perdure.Failed as failed:
        stock = failed.code
    mails = run.act(mail, folder, "done", approve="Send it?")
    merge = run.ask("Merge?", choices=["merge", "hold"])
    run.sleep(0.01)
    payload = run.wait("ci")
    reviewed = run.call(review, folder)
    drawn = run.random() < 2
    return {
        "looked": looked, "pull": pull, "pushed": pushed, "long": len(long), "stock": stock, "mails": mails, "merge": merge,
        "payload": payload, "reviewed": reviewed, "drawn": drawn, "plan": run.restored["plan"] if run.restored else "plan",
    }  # fmt: skip


@perdure.agent
def send_mail(run: perdure.Run, folder: str) -> int:
    run.step(draft, "a mail")
    return run.act(mail, folder, "hello")


EXPECTED = {
    "looked": True, "pull": {"title": "fix"}, "pushed": "pushed", "long": len(LONG), "stock": "LookupError", "mails": 1,
    "merge": "merge", "payload": {"ok": True}, "reviewed": "good", "drawn": True, "plan": "plan",
}  # fmt: skip


def finish(store: perdure.Store, folder: str, answers: int = 100) -> Any:
    """Drive it to its end and give whatever it waits for, at most so many times."""
    for _ in range(answers):
        try:
            return store.drive(move_house, folder, key=KEY)
        except perdure.Waiting as waiting:
            answer(store, waiting)
    return None


def answer(store: perdure.Store, waiting: perdure.Waiting) -> None:
    for ask in waiting.facts["asks"]:
        store.answer(ask, next(found.choices[0] for found in store.asks() if found.id == ask), by="alice")
    if not waiting.facts["asks"]:
        store.signal(waiting.facts["run"], "ci", {"ok": True})


def main(url: str, folder: str, answers: str) -> None:
    store = perdure.open(url, actor="mover")
    finish(store, folder, int(answers.rstrip("+")))
    if answers.endswith("+"):
        with contextlib.suppress(perdure.Waiting):
            store.drive(move_house, folder, key=KEY)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
