"""The configuration that fits a scenario: `perdure.toml`, with a comment for every line. Pure text.

Called by `perdure init`; read back by `doors/cli/settings.py`. A preset is a beginning: what it leaves out has defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from perdure.choosing.rules import Scenario
from perdure.model.limits import LEASE_TTL_SECONDS

SERVER = "postgresql://perdure@localhost/perdure"


class Preset(msgspec.Struct, frozen=True):
    """The settings that a scenario begins with. `advice` are lines for people, below the settings."""

    store: str
    about: str
    processes: int
    concurrency: int
    grace: str
    advice: tuple[str, ...]
    lease: str = f"{LEASE_TTL_SECONDS}s"


PRESETS: dict[Scenario, Preset] = {
    Scenario.LOCAL: Preset(
        "sqlite:///agent.db", "one person, one machine: a file beside the program, nothing to look after",
        processes=1, concurrency=10, grace="5s",
        advice=("perdure backup DIR/agent.bak    now and then, to another disk",
                "perdure doctor                  says when this store is outgrown"),
    ),
    Scenario.TEAM: Preset(
        SERVER, "several people and workers share a server; asks and approvals are everybody's",
        processes=2, concurrency=10, grace="10s",
        advice=("perdure worker MODULE           on every machine that is to work",
                "perdure asks                    what people are asked"),
    ),
    Scenario.PLATFORM: Preset(
        f"{SERVER}?artifacts=s3://perdure-artifacts", "many tenants on one server, large files in object storage",
        processes=4, concurrency=50, grace="30s",
        advice=("every program names its tenant: perdure.open(url, tenant=…); no default is set here on purpose",
                "workers are started for a tenant: perdure worker MODULE --tenant NAME"),
    ),
    Scenario.COMPLIANCE: Preset(
        f"{SERVER}?artifacts=s3://perdure-artifacts", "every act must be proved later",
        processes=2, concurrency=10, grace="30s",
        advice=("perdure anchor --help           sign all chain heads, daily, and keep the anchors elsewhere",
                "perdure verify --anchor FILE    prove it, before every audit and after every restore"),
    ),
    Scenario.THROUGHPUT: Preset(
        SERVER, "much is written at once: many runs in many processes, shared commits",
        processes=8, concurrency=200, lease="30s", grace="10s",
        advice=("perdure workers --watch         what waits, and for whom",
                "perdure bench                   what this machine can do"),
    ),
}  # fmt: skip


def text_of(scenario: Scenario, store: str | None = None) -> str:
    """The file, as it is written."""
    return "\n".join(_lines(scenario, PRESETS[scenario], store or PRESETS[scenario].store)) + "\n"


def _lines(scenario: Scenario, preset: Preset, store: str) -> Iterator[str]:
    yield f"# Perdure, {scenario}: {preset.about}."
    yield "# Read by the perdure commands that run in this folder."
    yield "# An option wins over the environment, and the environment over this file."
    yield ""
    yield "# Where the state is (--store, PERDURE_STORE). No password here: it belongs into ~/.pgpass or PGPASSWORD."
    yield f"store = {json.dumps(store)}"
    if scenario is not Scenario.PLATFORM:
        yield "# Whose state it is, where several share a store (--tenant, PERDURE_TENANT)."
        yield 'tenant = "default"'
    yield "# Who the log says did it (--actor, PERDURE_ACTOR); without it, your login."
    yield '# actor = "me"'
    yield from _worker_lines(preset)
    yield ""
    yield from (f"# {line}" for line in preset.advice)


def _worker_lines(preset: Preset) -> Iterator[str]:
    yield ""
    yield "[worker]"
    yield "# Processes of one `perdure worker`; a process that dies takes no other with it."
    yield f"processes = {preset.processes}"
    yield "# Runs at once in each process."
    yield f"concurrency = {preset.concurrency}"
    yield "# Without a sign of life for so long, a worker of another machine has lost its runs."
    yield f'lease = "{preset.lease}"'
    yield "# How long runs may continue after SIGTERM, before they are given back."
    yield f'grace = "{preset.grace}"'
