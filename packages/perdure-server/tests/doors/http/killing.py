"""A program: sends each request that writes to a server of its own, kills that at crash points, and sends it twice more.

Prints one JSON line a case: the request, the point, the answers, and the kinds of the store's events with those of a request that
nobody disturbed. argv: a folder; `every` point or `some`; `bare` for the control, whose repetitions have another key, or `keyed`;
which requests (default: all). It forks, so it is a program of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

import perdure
from children import child
from perdure.model.crash_points import arm
from perdure.planes.access import tokens
from perdure.planes.access.tokens import CONTROL, TokenRole
from perdure.runtime.callers import caller_of
from perdure_server.http.app import make_app
from perdure_server.http.serving import Serving

SAMPLE = {
    "say": ("POST", "/v1/sessions/s/turns", {"role": "user", "content": "hello"}),
    "decide": ("POST", "/v1/sessions/s/decisions", {"text": "A", "because": "b"}),
    "task": ("POST", "/v1/sessions/s/tasks", {"title": "t"}),
    "claim": ("POST", "/v1/sessions/s/claims", {"ttl": "1h"}),
    "set": ("PUT", "/v1/sessions/s/values/n", {"value": {"a": 1}}),
    "emit": ("POST", "/v1/sessions/s/events", {"kind": "deploy.done"}),
    "remember": ("POST", "/v1/sessions/s/memories", {"text": "m"}),
    "answer": ("POST", "/v1/asks/session%3As%2F3/answer", {"value": "yes"}),
    "dispatch": ("POST", "/v1/effects/session%3As%2F4/dispatch", None),
    "start": ("POST", "/v1/runs", {"agent": "fix", "args": [1]}),
    "signal": ("POST", "/v1/runs/{run}/signals", {"name": "go"}),
    "cancel": ("POST", "/v1/runs/{run}/cancel", {}),
}


def prepared(folder: Path) -> tuple[Path, str, str]:
    """A store with something in it, a token, and the id of a run."""
    url = f"sqlite:///{folder}/first.db"
    with perdure.open(url) as store:
        session = store.session("s")
        session.task("first")
        session.ask("ok?")
        session.begin("mail", {}, key="e")

        def fix(run: Any) -> None: ...

        run = store.start(perdure.agent(fix), key="r").id
    with perdure.open(url, tenant=CONTROL) as store:
        text, made = caller_of(store).write(tokens.create, "default", TokenRole.ADMIN, "alice")
        caller_of(store).write(tokens.note_use, made.id)
    return folder / "first.db", text, run


def send(store: Path, text: str, requests: list[tuple[Any, ...]]) -> list[Any]:
    """Send requests to a server, one after the other."""
    headers = {"Authorization": f"Bearer {text}"}
    with TestClient(make_app(Serving(f"sqlite:///{store}")), headers=headers) as http:
        made = [http.request(m, p, json=b, headers={"Idempotency-Key": k}) for m, p, b, k in requests]
    return [[each.status_code, each.json()] for each in made]


def dying(store: Path, text: str, request: tuple[Any, ...], nth: int) -> int:
    """Reach crash points in one request until the n-th (0: none); how many were reached."""
    count = 0

    def reached() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    arm("*", reached)
    send(store, text, [request])
    return count


def kinds(store: Path) -> list[str]:
    with perdure.open(f"sqlite:///{store}", read_only=True) as found:
        return sorted(each.kind for each in found.feed(limit=1_000))


def copied(folder: Path, first: Path, name: str) -> Path:
    target = folder / f"{name}.db"
    shutil.copy(first, target)
    return target


def main(folder: Path, which: str, how: str, *names: str) -> None:
    first, text, run = prepared(folder)
    for name in names or SAMPLE:
        method, path, body = SAMPLE[name]
        request = (method, path.format(run=run), body, "k")
        plain = copied(folder, first, f"{name}-plain")
        count, _ = child(partial(dying, plain, text, request, 0))
        expected = child(partial(kinds, plain))[0]
        points = range(1, count + 1) if which == "every" else [count]
        for nth in points:
            store = copied(folder, first, f"{name}-{nth}")
            _, code = child(partial(dying, store, text, request, nth))
            again = [request, request] if how == "keyed" else [(*request[:3], "k2"), (*request[:3], "k3")]
            answers, _ = child(partial(send, store, text, again))
            case = {"name": name, "nth": nth, "of": count, "code": code, "answers": answers, "expected": expected}
            sys.stdout.write(json.dumps({**case, "kinds": child(partial(kinds, store))[0]}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
