"""Five tasks, each of which needs the result of the one before; on files and on SQLite, killed and started again anywhere.

python five_tasks.py                     # 5 tasks on both stores, and the comparison
python five_tasks.py --tasks 500
"""

import argparse
import json
import random
import time
from pathlib import Path

import perdure

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty"]


def generate(_before, number):
    return random.Random(number).sample(WORDS, 5)  # a model would say something else every time: its answer is kept


def sort(words, _number):
    return sorted(words)


def reverse(words, _number):
    return [word[::-1] for word in words]


def join(words, _number):
    return "-".join(words)


def count(text, _number):
    return len(text)


STEPS = [generate, sort, reverse, join, count]


def work(url, tasks):
    """Do what is left to do. One commit a task: its number and its result stand or fall together."""
    with perdure.open(url, actor="worker") as store:
        session = store.session("five-tasks")
        entry = session.entry("progress")
        done, result, version = (*entry.value, entry.version) if entry else (0, None, 0)
        began = done
        while done < tasks:
            result = STEPS[done % len(STEPS)](result, done)
            done += 1
            version = session.set("progress", [done, result], expect=version).version
        return began, result, version


def size(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--store", choices=["files", "sqlite", "both"], default="both")
    asked = parser.parse_args()
    for name in ["files", "sqlite"] if asked.store == "both" else [asked.store]:
        folder = Path(f"state-{name}")
        folder.mkdir(exist_ok=True)
        url = f"files:///{folder.absolute()}/store" if name == "files" else f"sqlite:///{folder.absolute()}/agent.db"
        start = time.perf_counter()
        began, result, version = work(url, asked.tasks)
        seconds = time.perf_counter() - start
        print(json.dumps({"store": name, "tasks": asked.tasks, "result": result, "commits": version}))
        print(f"  {seconds:.2f} s, from task {began + 1} on, {size(folder) / 1024:.0f} KiB")
