"""The forge of the demo: what it deduplicates, what it does not, and that it counts everything."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"
sys.path.insert(0, str(EXAMPLES))
from demo.forge import ForgeRepository  # noqa: E402 - a package of the examples


def test_a_key_is_known_for_pulls() -> None:
    repository = ForgeRepository()
    first = repository.post(["pulls"], {"title": "a"}, "k")
    assert repository.post(["pulls"], {"title": "a"}, "k") == first
    assert repository.get([]) == (200, {"pulls": 1, "comments": 0, "requests": 2})


def test_without_a_key_everything_counts() -> None:
    repository = ForgeRepository()
    numbers = [repository.post(["pulls"], {}, "")[1]["number"] for _ in range(3)]
    assert numbers == [1, 2, 3]


def test_comments_are_taken_as_they_come_and_can_be_asked_for() -> None:
    repository = ForgeRepository()
    assert repository.get(["comments", "k"])[0] == 404
    for _ in range(2):
        assert repository.post(["pulls", "1", "comments"], {"text": "a"}, "k")[0] == 201
    assert repository.get(["comments", "k"]) == (200, {"id": 1, "pull": 1, "text": "a", "key": "k"})
    assert repository.get([])[1]["comments"] == 2


def test_what_is_not_there_cannot_be_merged() -> None:
    repository = ForgeRepository()
    assert repository.post(["pulls", "1", "merge"], {}, "")[0] == 404
    repository.post(["pulls"], {}, "")
    assert repository.post(["pulls", "1", "merge"], {}, "")[1]["merged"]
    assert repository.post(["nowhere"], {}, "")[0] == 404


def test_it_serves_until_its_input_ends() -> None:
    command = [sys.executable, EXAMPLES / "demo" / "forge.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as forge:
        assert forge.stdin is not None
        assert forge.stdout is not None
        url = f"http://127.0.0.1:{json.loads(forge.stdout.readline())['port']}/mine"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(f"{url}/pulls", b"{}"), timeout=60) as answer:
            assert json.load(answer)["number"] == 1
        with opener.open(url, timeout=60) as answer:
            assert json.load(answer) == {"pulls": 1, "comments": 0, "requests": 1}
        forge.stdin.close()
        assert forge.wait(60) == 0
