"""A program to be killed: makes and supersedes memories, searches now and then, and prints each key that was acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys

import perdure
from forked import Program, environment


def remembering(url: str, begin: int) -> Program:
    words = ("-c", f"from {__name__} import main; main()", url, str(begin))
    return Program(*words, stdout=subprocess.PIPE, stderr=None, env=environment(), start_new_session=True, held=False)


def main() -> None:
    """Remember and supersede under keys, search now and then, and print each key that was acknowledged."""
    _, url, begin = sys.argv
    with perdure.open(url) as store:
        scope = store.scope("project:acme")
        for i in range(int(begin), int(begin) + 100_000):
            made = scope.remember(f"heron number n{i}", key=f"a{i}")
            os.write(1, f"a{i}\n".encode())
            if i % 3 == 0:
                made.supersede(f"stork number n{i}", because="seen again", key=f"b{i}")
                os.write(1, f"b{i}\n".encode())
            if i % 5 == 0:
                scope.recall(f"n{i}")
