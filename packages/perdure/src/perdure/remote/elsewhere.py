"""The one answer to what a server does not offer: Refused, in the words of users, with where to do it. Callers: `core`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.errors import Refused

HERE = "do it where the store lies: open it there by its own URL (sqlite://, postgresql://, files://)"
WORKER = "start it (`store.start`) and let a worker drive it: `perdure worker MODULE --store …` where the store lies"
# By the name of the verb, or of the part of an open store that was asked for.
WORDS: dict[str, tuple[str, str]] = {
    "drive": ("driving a run or acting on the outside world", WORKER),
    "run_atomic": ("several verbs in one commit", f"a function cannot be sent; {HERE}"),
    "run_on": ("joining a transaction of yours", HERE),
    "ask": ("asking with SQL", f"`perdure query` or {HERE}"),
    "acquire": ("a lock, which is held by a process", HERE),
    "plan_declared": (
        "an effect of a tool that is a function, with its rule and its guards",
        'name the tool: `session.begin("open_pr", {…}, kind=…)`; a function that is called for you runs beside the store',
    ),
    "backup": ("a backup", "`perdure backup` where the store lies"),
    "find_dead": (
        "pruning, and collecting what nothing refers to",
        "`perdure retain` and `perdure collect` where the store lies",
    ),
    "anchor_store": ("an anchor", "`perdure anchor` where the store lies"),
    "boot_with": (
        "a boot with a tokenizer, or with checks of files here",
        "leave out tokenizer, root, commands, urls, models",
    ),
    "left_runs": ("recovering what the dead left", "`perdure recover` or a worker where the store lies"),
    "keep_snapshot": ("a snapshot of a fold", HERE),
    "choose": ("pruning", "`perdure retain` where the store lies"),
    "plan": ("pruning", "`perdure retain` where the store lies"),
    "bring_up_to_date": ("indexing", "`perdure index` where the store lies"),
    "checked": ("looking at checks, which look at files", "`perdure doctor --stale` where the store lies"),
    "hand_over": ("handing a run over", "`perdure handover` where the store lies"),
}


def elsewhere(asked: Callable[..., Any] | str) -> Refused:
    """The error for a verb, or a part of an open store, that cannot be had over the network."""
    name = asked if isinstance(asked, str) else getattr(asked, "__name__", type(asked).__name__)
    what, hint = WORDS.get(name, (name.replace("_", " ").strip(), HERE))
    return Refused(f"this cannot be done over the network: {what}", path="store", hint=hint)
