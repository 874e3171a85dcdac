"""Peers where a figure of ours has a counterpart: one program each, in the peer's own interpreter (evaluation/peers.py).

`beside.py` starts `python -m perdure.evaluation.bench.peers.NAME MEASURE FOLDER COUNT` and reads one line of JSON: how many a
second, by the program's own clock, imports and setting up apart. They use nothing of Perdure but `timed`, and each peer as its
own documentation does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from perdure.evaluation.bench.floor import Rate

TEXT = "x" * 1024
TURNS = 20  # of each of many at once
Measure = Callable[[Path, int], Rate]


def main(**measures: Measure) -> None:
    """Measure what the command line names, say it, and end here: a peer's threads are not waited for."""
    name, folder, count = sys.argv[1:]
    rate = measures[name](Path(folder), int(count))
    print(json.dumps(rate._asdict()), flush=True)  # noqa: T201 - this is how it answers
    os._exit(0)
