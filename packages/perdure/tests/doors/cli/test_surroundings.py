"""Every command in poor surroundings: encodings that lack characters, a locale of C, closed output, a very narrow terminal.

None of them ends in a trace, and none of them says that it is a bug.
"""

from __future__ import annotations

import os
import subprocess

import pytest

import forked
from doors.cli.content import HOSTILE_NAME, clean_environment, on_a_terminal

LOOKING = [
    ("sessions",), ("show", HOSTILE_NAME), ("decisions",), ("tasks",), ("artifacts",), ("events",), ("runs",), ("effects",),
    ("asks",), ("errors",), ("tail", "--from-start", "--once"), ("doctor",), ("verify",), ("workers",), ("views", HOSTILE_NAME),
    ("diff", f"{HOSTILE_NAME}@2"), ("export", HOSTILE_NAME, "--format", "markdown"), ("help",), ("help", "worker"), ("advise",),
    ("bench", "--case", "list"), ("show", "no ✓ such \udcff"), ("nö",),
]  # fmt: skip
ENCODINGS = [{"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]


def called(words: tuple[str, ...], url: str, **env: str) -> subprocess.CompletedProcess[str]:
    return forked.run("-m", "perdure", *words, env=clean_environment(PERDURE_STORE=url, **env))


@pytest.mark.parametrize("env", ENCODINGS, ids=str)
@pytest.mark.parametrize("words", LOOKING, ids=lambda words: words[0])
def test_a_poor_encoding(hostile_url, words, env) -> None:
    ran = called(words, hostile_url, **env)
    assert "Traceback" not in ran.stderr
    assert "bug" not in ran.stderr
    assert ran.returncode == called(words, hostile_url).returncode


@pytest.mark.parametrize("words", LOOKING[:16], ids=lambda words: words[0])
def test_a_narrow_terminal(hostile_url, words) -> None:
    shown = on_a_terminal(*words, "--store", hostile_url, columns=20)
    assert "Traceback" not in shown


def test_our_own_signs_have_plain_ones() -> None:
    from perdure.cli.characters import ERRORS

    assert "✓ 3 → 4 … ≤ ñ漢".encode("latin-1", ERRORS) == b"ok 3 -> 4 ... <= \xf1\\u6f22"
    assert "a\udcff".encode("utf-8", ERRORS) == b"a\\udcff"


@pytest.mark.parametrize("words", LOOKING, ids=lambda words: words[0])
def test_nobody_reads_what_it_says(hostile_url, words) -> None:
    """Standard output is a pipe whose reader is gone: no message, whatever is written there."""
    reader, writer = os.pipe()
    os.close(reader)
    env = clean_environment(PERDURE_STORE=hostile_url)
    with forked.Program("-m", "perdure", *words, stdout=writer, stderr=subprocess.PIPE, env=env) as process:
        os.close(writer)
        assert process.stderr is not None
        said = process.stderr.read()
        process.wait(60)
    assert "Traceback" not in str(said)
    assert "bug" not in str(said)
