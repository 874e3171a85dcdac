"""A store for the console's tests and pictures: something of everything that a person is shown."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import perdure
from perdure.model.records.workers import About
from perdure.planes.execution import steps, workers
from perdure.runtime.callers import caller_of, stream_of
from perdure_testing.clock import FakeClock

HOSTILE = [
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "\"'><svg/onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "</title><script>window.pwned=1</script>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}",
    "<a href='https://evil.example/'>x</a>",
    "<style>@import url(https://evil.example/x.css)</style>",
    "\u202egnp.exe \x1b[31m null \u2066iso",
]


@perdure.tool(name="deploy", kind="keyed")
def deploy(service: str, version: str, region: str, *, key: str) -> dict[str, str]:
    return {"release": f"{service}-{version}"}


@perdure.tool(name="search_code", kind="read")
def search_code(query: str) -> list[str]:
    return ["auth.py:118", "session.py:52"]


@perdure.tool(name="open_pull_request", kind="idempotent")
def open_pull_request(branch: str) -> dict[str, int]:
    return {"number": 318}


@perdure.tool(name="refuse")
def refuse(text: str) -> None:
    raise perdure.Failed(text, code="QuotaExceeded")


def plan(issue: int) -> dict[str, Any]:
    return {"issue": issue, "files": ["auth.py", "session.py"], "risk": "low"}


def review(text: str) -> str:
    return f"{len(text)} characters, nothing alarming"


@perdure.agent(name="fix-issue")
def fix_issue(run: perdure.Run, issue: int) -> Any:
    run.step(plan, issue)
    run.step(search_code, "cookie SameSite")
    run.ask("May the cookie change for partners, too?", choices=["yes", "no"])
    made = run.act(open_pull_request, f"fix-{issue}")
    run.step(review, "the whole difference")
    merge = run.ask("Merge pull request 318 into main?", choices=["merge", "hold"], timeout="2d", default="hold")
    return [made, merge]


@perdure.agent(name="release")
def release(run: perdure.Run, version: str) -> Any:
    run.step(review, version)
    return run.act(deploy, "api", version, "eu-west-1", approve="Deploy api 2.4.1 to production?")


@perdure.agent(name="research")
def research(run: perdure.Run, topic: str) -> str:
    for n in range(24):
        run.step(review, f"{topic} {n}")
    return "three sources agree"


@perdure.agent(name="nightly-report")
def nightly(run: perdure.Run, day: str) -> Any:
    run.step(review, day)
    return run.act(refuse, "the mail account is over its quota")


@perdure.agent(name="audit-module")
async def audit_module(run: perdure.AsyncRun, name: str) -> str:
    await run.step(review, name)
    return f"{name}: nothing alarming"


@perdure.agent(name="audit-repository")
async def audit_repository(run: perdure.AsyncRun, names: list[str]) -> Any:
    """Branches side by side: each searches, reports, and one of them asks; then a child."""

    async def part(name: str) -> Any:
        await run.step(search_code, name)
        made = await run.act(open_pull_request, name)
        await run.step(review, name)
        return await run.ask(f"May {name} be rewritten?") if name == names[-1] else made

    await run.step(plan, len(names))
    child = await run.start(audit_module, names[0])
    parts = await asyncio.gather(*map(part, names))
    return [*parts, await child.result()]


@perdure.agent(name="asks-freely")
def asks_freely(run: perdure.Run, question: str) -> Any:
    return run.ask(question)


@perdure.agent(name="busy")
def busy(run: perdure.Run) -> Any:
    for part in range(3):
        for n in range(3):
            run.act(open_pull_request, f"part-{part}-{n}")
            run.step(review, f"{part}.{n}")
        if part < 2:
            run.ask(f"Go on with part {part}?")
    with contextlib.suppress(perdure.Failed):
        run.act(refuse, "the branch is protected")
    return run.ask("Go on in the end?")


DYING = """
import os, sys, perdure
url, key = sys.argv[1:]
@perdure.tool(name="charge_card")
def charge_card(customer, amount, currency):
    os._exit(9)
@perdure.agent(name="invoice")
def invoice(run, number):
    run.step(len, "lines")
    return run.act(charge_card, "cus_8812", 12900, "EUR")
store = perdure.open(url, actor="billing")
store.drive(invoice, 1042, key=key, session="issue-42")
"""


class TickingClock(FakeClock):
    """A clock on which every look takes a moment, so that events have a length."""

    def __call__(self) -> int:
        self.now_us += 23_000
        return self.now_us


def drive(store: perdure.Store, agent: Any, *args: Any, **options: Any) -> None:
    with contextlib.suppress(perdure.Error):
        store.drive(agent, *args, **options)


def leave_doubt(url: str, key: str = "invoice-1042") -> None:
    """A process sends a charge and dies in the call: really."""
    subprocess.run([sys.executable, "-c", DYING, url, key], check=False, stderr=subprocess.DEVNULL)


def fill(url: str, *, dying: bool = True) -> None:
    """Runs in every state, a session with everything, memories with their sources, a worker."""
    clock = TickingClock((int(time.time()) - 9_000) * 1_000_000)
    with perdure.open(url, actor="alice", clock=clock) as store:
        _session(store, clock)
        drive(store, research, "cookies", key="research-7", session="issue-42")
        clock.advance("14m")
        drive(store, fix_issue, 42, key="issue-42", session="issue-42")
        clock.advance("51m")
        store.as_("bob").answer(next(iter(store.asks())).id, "yes")
        drive(store, fix_issue, 42, key="issue-42", session="issue-42")
        drive(store, nightly, "Monday", key="2026-11-16")
        clock.advance("20m")
    with perdure.open(url, actor="release-bot") as store:
        drive(store, release, "2.4.1", key="api-2.4.1")
        drive(store, asks_freely, "Which customers should the changelog thank?", key="free")
    if dying:
        leave_doubt(url)


def _session(store: perdure.Store, clock: FakeClock) -> None:
    goal = "Login works on Safari, and a test shows it"
    session = store.session("issue-42", title="Login fails on Safari", labels=["prod", "auth"], goal=goal)
    session.pin(model="m-large-2")
    asked = "Since Monday people on Safari 17 are thrown back to the login page. Can you find out why?"
    first = session.say("user", asked)
    clock.advance("8s")
    call = perdure.Call("c1", "search_code", {"query": "SameSite"})
    session.say("assistant", "I look for the place that sets the session cookie.", calls=[call])
    clock.advance("2s")
    session.result("c1", {"hits": ["auth.py:118", "session.py:52"]})
    found = "auth.py sets SameSite=None without Secure. Safari drops such a cookie, so every request starts without a session."
    said = session.say("assistant", found)
    because = "SameSite=Lax breaks the partner's frame"
    session.decide("Set Secure together with SameSite=None", because=because, refs=[said], tags=["auth"])
    task = session.task("Write a test that fails on Safari", priority=1)
    session.task("Patch auth.py", needs=[task])
    session.set("branch", "fix-42")
    session.set("attempts", 2)
    session.act(open_pull_request, "fix-42", key="pr")
    clock.advance("40s")
    session.say("user", "Good. Please also tell support what to answer.")
    session.remember(
        "Cookies with SameSite=None must be Secure: Safari 17 drops them otherwise", kind="fact", source=[said]
    )
    store.scope("project:acme").remember("Run the tests with make test", kind="workflow", source=[first])
    store.scope("user:alice").remember("Prefers short pull requests", kind="preference", about=["user:alice"])
    session.fork(at=said.seq, name="issue-42-lax")


def introduce_worker(store: perdure.Store) -> None:
    """A worker that lives as long as this store is open."""
    about = About(
        pid=4711, agents=("fix-issue", "release"), concurrency=10, supervisor=4700, programs=("9f2c1ab04d77",)
    )
    caller = caller_of(store)
    caller.core.liveness.begin()
    caller.write(workers.introduce, caller.core.holder, about)


def fill_branches(url: str, names: list[str]) -> str:
    """A run with so many branches side by side and a child; its id."""

    async def fill() -> str:
        clock = TickingClock((int(time.time()) - 600) * 1_000_000)
        async with perdure.aopen(url, actor="alice", clock=clock) as store:
            with contextlib.suppress(perdure.Error):
                await store.drive(audit_repository, names, key="branches")
            return (await store.run(agent="audit-repository", key="branches")).id

    with ThreadPoolExecutor(1) as beside:  # a browser has this thread's event loop
        return beside.submit(asyncio.run, fill()).result()


def fill_busy(url: str) -> str:
    """A run with more of everything than a page shows at once: effects, waits that were met, one that stays open; its id."""
    with perdure.open(url, actor="alice") as store:
        for _ in range(4):
            drive(store, busy, key="busy")
            for ask in store.asks():
                if ask.question != "Go on in the end?":
                    store.answer(ask.id, "yes", by="bob")
        return next(iter(store.runs(agent="busy"))).id


def fill_long(url: str, events: int = 10_000) -> str:
    """A run with so many events; its id."""
    with perdure.open(url, actor="alice") as store:
        drive(store, asks_freely, "Shall I go on?", key="long")
        run = next(iter(store.runs(agent="asks-freely")))

        def put(tx: Any, stream: Any) -> None:
            for n in range(events):
                steps.done(tx, stream, steps.document(f"x{n}", "fetch_page", "00", {"n": n}, None, {}))

        caller_of(store).write(put, stream_of(run))
        return run.id


def fill_hostile(url: str) -> None:
    """Text that would run, load or hide something, wherever text can be stored."""
    for n, text in enumerate(HOSTILE):
        name = text if text.isprintable() else f"odd {n}"
        with perdure.open(url, actor=name) as store:
            session = store.session(name, title=text, goal=text, labels=["x"])
            turn = session.say("user", text)
            session.say("assistant", text, calls=[perdure.Call("c", name, {text: text})])
            session.result("c", {text: text})
            session.decide(text, because=text)
            session.task(name)
            session.set("value", {text: text})
            session.remember(text, kind="fact", source=[turn])
            drive(store, asks_freely, text, key=name)
            drive(store, nightly, text, key=f"n{name}")


TAGS = ("script", "img", "svg", "iframe", "a", "style", "object", "math", "details", "body", "input", "form")  # fmt: skip
ATTRIBUTES = ("onerror", "onload", "onfocus", "ontoggle", "onmouseover", "href", "src", "srcdoc", "action")  # fmt: skip
BREAKS = (
    "",
    "'",
    '"',
    "`",
    "-->",
    "]]>",
    "</textarea>",
    "</title>",
    "\\",
    "\u2028",
    "${",
    "{{",
    "%3C",
    "&lt;",
    "\ud7ff",
)
HARM = (
    "window.pwned=1",
    "javascript:window.pwned=1",
    "data:text/html,<script>parent.pwned=1</script>",
    "https://evil.example/x",
)


def generated(count: int) -> list[str]:
    """Strings that would do something if any of them were ever markup, a script or an address."""
    dice = random.Random(21)
    return [
        f"{dice.choice(BREAKS)}{dice.choice(BREAKS)}<{dice.choice(TAGS)} {dice.choice(ATTRIBUTES)}={dice.choice(BREAKS[:4])}"
        f"{dice.choice(HARM)}{dice.choice(BREAKS)}>{n}"
        for n in range(count)
    ]


def fill_generated(url: str, count: int, in_one: int = 200) -> list[str]:
    """Sessions with so many hostile turns in all; their names, which are hostile too."""
    names: list[str] = []
    texts = generated(count)
    with perdure.open(url) as store:
        for start in range(0, count, in_one):
            names.append("".join(filter(str.isprintable, texts[start])))
            session = store.session(names[-1], title=texts[start])
            for n, text in enumerate(texts[start : start + in_one]):
                session.say("user" if n % 2 else "assistant", text)
    return names
