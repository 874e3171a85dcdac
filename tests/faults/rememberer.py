"""A program to be killed: makes and supersedes memories, searches now and then, and prints each key that was acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys

import perdure
from forked import Program, environment
from perdure_testing.embedding import HashedEmbedding


def remembering(url: str, begin: int) -> Program:
    words = ("-c", f"from {__name__} import main; main()", url, str(begin))
    return Program(*words, stdout=subprocess.PIPE, stderr=None, env=environment(), start_new_session=True, held=False)


def reembedding(url: str, name: str) -> Program:
    words = ("-c", f"from {__name__} import reembed; reembed()", url, name)
    return Program(*words, stdout=subprocess.PIPE, stderr=None, env=environment(), start_new_session=True, held=False)


def reembed() -> None:
    """Make all vectors anew with an embedding of this name, and print a line before each batch, then for ever."""
    _, url, name = sys.argv
    function = HashedEmbedding(name=name)

    def embed(texts: list[str]) -> list[list[float]]:
        os.write(1, b"batch\n")
        return function(texts)

    embed.name = name  # type: ignore[attr-defined]
    with perdure.open(url, embed=embed) as store:
        while True:
            store.index()
            store.scope("project:acme").remember("one more heron")


def main() -> None:
    """Remember and supersede under keys, search now and then, and print each key that was acknowledged."""
    _, url, begin = sys.argv
    with perdure.open(url, embed=HashedEmbedding()) as store:
        scope = store.scope("project:acme")
        for i in range(int(begin), int(begin) + 100_000):
            made = scope.remember(f"heron number n{i}", key=f"a{i}")
            os.write(1, f"a{i}\n".encode())
            if i % 3 == 0:
                made.supersede(f"stork number n{i}", because="seen again", key=f"b{i}")
                os.write(1, f"b{i}\n".encode())
            if i % 5 == 0:
                scope.recall(f"n{i}")
