"""Measure the console: a run of 10,000 events in a real browser, a list among 100,000 runs, the bytes of its scripts.

`python tools/measure_console.py [folder]`. Prints one JSON document. Needs Chromium and playwright, as the console's tests do.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / "tests")]

import perdure  # noqa: E402
from doors.console import scene  # noqa: E402
from doors.console.conftest import BROWSERS, served  # noqa: E402
from perdure.doors.console.pages import static_files  # noqa: E402
from perdure.planes.execution import runs  # noqa: E402
from perdure.planes.execution.runs import RunRequest  # noqa: E402

RUNS, EVENTS, BATCH = 100_000, 10_000, 5_000


def fill_runs(url: str) -> None:
    """Many runs, a few thousand in one commit."""
    with perdure.open(url, actor="alice") as store:
        caller = store._caller
        for first in range(0, RUNS, BATCH):

            def put(tx: Any, first: int = first) -> None:
                for n in range(first, first + BATCH):
                    runs.start(
                        tx, RunRequest(agent=f"agent-{n % 7}", args=[n], kwargs={}, key=str(n)), caller.core.epoch
                    )

            caller.write(put)


def timed(work: Any, times: int = 20) -> float:
    """The median of some repetitions, in milliseconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return round(median(took), 2)


def lists(url: str) -> dict[str, float]:
    """Queries behind the list of runs, with and without filters."""
    with perdure.open(url, read_only=True) as store:
        return {
            "newest 50": timed(lambda: store.runs(limit=50)),
            "of one agent": timed(lambda: store.runs(agent="agent-3", limit=50)),
            "of one status": timed(lambda: store.runs(status="ready", limit=50)),
            "parked (none)": timed(lambda: store.runs(status="parked", limit=100)),
        }


# The page's own clock, when the state after the newest event is drawn. A driver that asks again and again would add its pauses.
DRAWN = """() => {
  const look = () => {
    if (!document.body?.textContent.includes("After event")) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.drawnAt = performance.now(); }));
  };
  const watch = new MutationObserver(look);
  watch.observe(document, { childList: true, subtree: true, characterData: true });
}"""
STEPPED = """() => new Promise((done) => {
  const panel = document.querySelector(".panel");
  const [began, was] = [performance.now(), panel.querySelector("h2").textContent];
  const watch = new MutationObserver(() => {
    if (panel.querySelector("h2").textContent === was) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  });
  watch.observe(panel, { childList: true, subtree: true, characterData: true });
  const slider = document.querySelector("input[type=range]");
  slider.value = Number(slider.value) - 1;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def browse(url: str, run: str) -> dict[str, Any]:
    """The time from the address to the drawn timeline, and of one step of the scrubber, on the page's own clock."""
    import shutil  # noqa: PLC0415

    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    path = next(filter(None, map(shutil.which, BROWSERS)))
    with served(url) as console, sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=path).new_page()
        page.add_init_script(f"({DRAWN})()")
        page.goto(console.link())
        page.locator("h1").wait_for()
        opened = []
        for _ in range(7):
            page.goto(f"{console.address}/runs/{run}")
            page.get_by_text("After event").wait_for()
            opened.append(page.evaluate("() => new Promise((done) => setTimeout(() => done(window.drawnAt), 200))"))
        stepped = [page.evaluate(STEPPED) for _ in range(10)]
        sizes = "() => performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/outline'))[0].encodedBodySize"
        return {
            "opened ms": round(median(opened)), "opened each": [round(each) for each in opened],
            "step ms": round(median(stepped)), "rows": page.get_by_role("option").count(), "outline bytes": page.evaluate(sizes),
        }  # fmt: skip


def main() -> None:
    """Fill, measure, print."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        url, many = f"sqlite:///{folder}/long.db", f"sqlite:///{folder}/many.db"
        run = scene.fill_long(url, EVENTS)
        fill_runs(many)
        scripts = sum(len(content) for path, (content, _) in static_files().items() if path.endswith(".mjs"))
        print(json.dumps({"timeline": browse(url, run), "list ms": lists(many), "script bytes": scripts}, indent=1))


if __name__ == "__main__":
    main()
