"""Numbers for a monitor, in the text format of Prometheus: of the token's tenant, and of this server. The series are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import PlainTextResponse

from perdure.model.instants import SECOND_US, instant_us
from perdure.planes.execution import workers
from perdure.planes.reading.durations import store_now
from perdure.verbs.declaring import Right
from perdure_server.http.call import HttpCall
from perdure_server.http.table import route

AGENTS_MAX = 50
STATES = ("ready", "running", "waiting", "parked")
COUNTED_MAX = 1_000

Sample = tuple[str, dict[str, str], float]


@route("GET", "/metrics", Right.READ, str, media_type="text/plain")
async def get_metrics(call: HttpCall) -> Any:
    """Runs by state and agent, what waits for people, workers, and the requests of this server."""
    now_us: int = await call.caller.read(store_now)
    tree = await call.caller.read(workers.tree, call.caller.core.liveness.is_dead)
    asks = await call.store.asks(limit=COUNTED_MAX)
    doubts = await call.store.effects(in_doubt=True, limit=COUNTED_MAX)
    found: list[Sample] = [*_runs(tree, now_us)]
    found += [("perdure_asks_open", {}, len(asks)), ("perdure_effects_in_doubt", {}, len(doubts))]
    found += [_oldest("perdure_ask_oldest_seconds", now_us, [each.at for each in asks])]
    found += [_oldest("perdure_doubt_oldest_seconds", now_us, [each.record.at for each in doubts])]
    found += [("perdure_workers_alive", {}, sum(each.alive for each in tree.workers))]
    found += [("perdure_epoch", {}, call.caller.core.epoch)]
    admission = call.serving.admission
    found += [
        ("perdure_http_answers_total", {"status": kind}, count) for kind, count in sorted(admission.answers.items())
    ]
    found += [("perdure_http_limited_total", {}, admission.refused)]
    found += [("perdure_http_streams", {}, admission.streams.get(call.identity.token.tenant, 0))]
    return PlainTextResponse(_exposed(found), headers={"Cache-Control": "no-store"})


def _runs(tree: Any, now_us: int) -> Iterator[Sample]:
    """Runs by state; agents beyond a bound are counted together."""
    counts: dict[tuple[str, str], int] = {}
    for number, queue in enumerate(tree.queue):
        agent = queue.agent if number < AGENTS_MAX else "(others)"
        for state in STATES:
            counts[agent, state] = counts.get((agent, state), 0) + getattr(queue, state)
    for (agent, state), count in counts.items():
        yield "perdure_runs", {"agent": agent, "status": state}, count
    waiting = [each.oldest_ready_at for each in tree.queue if each.oldest_ready_at is not None]
    yield _oldest("perdure_run_oldest_ready_seconds", now_us, waiting)


def _oldest(name: str, now_us: int, since: list[Any]) -> Sample:
    return name, {}, max((now_us - instant_us(each, now_us) for each in since), default=0) / SECOND_US


def _exposed(samples: list[Sample]) -> str:
    lines: list[str] = []
    seen = ""
    for name, labels, value in samples:
        if name != seen:
            lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
            seen = name
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value:g}" if shown else f"{name} {value:g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
