"""A program that was forked is what one that was started would be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

import forked

FACTS = """
import json, logging, os, random, signal, sys, tempfile, threading, time
said = sys.stdin.read()
print(json.dumps({
    "name": __name__, "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(), "environment": sorted(os.environ.items()),
    "descriptors": sorted(os.listdir("/proc/self/fd"), key=int)[:-1], "threads": threading.active_count(),
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM)],
    "group": os.getpgrp() - GROUP, "handlers": len(logging.getLogger().handlers), "temporary": tempfile.gettempdir(),
    "buffered": [sys.stdout.line_buffering, sys.stderr.line_buffering], "said": said, "zone": time.tzname,
    "encodings": [stream.encoding + stream.errors for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "main": sys.modules["__main__"].__dict__ is globals(),
}))
""".replace("GROUP", str(os.getpgrp()))


def both(*words: str, **how) -> list[subprocess.CompletedProcess[str]]:
    started = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60, **how)
    return [forked.run(*words, **how), started]


@pytest.mark.parametrize("words", [("-c", FACTS), ("-m", "facts"), ("facts.py",)], ids=lambda words: words[0])
def test_it_finds_what_a_fresh_one_finds(words, tmp_path):
    (tmp_path / "facts.py").write_text(FACTS)
    (tmp_path / "temporary").mkdir()
    env = os.environ | {"TZ": "Asia/Tokyo", "TMPDIR": f"{tmp_path}/temporary", "PYTHONPATH": f"{tmp_path}/x"}
    ours, fresh = both(*words, "a", "b c", env=env, cwd=tmp_path, input="good\nmorning")
    assert json.loads(ours.stdout) == json.loads(fresh.stdout)
    assert ours.stderr == fresh.stderr == ""


@pytest.mark.parametrize(
    "text",
    [
        "pass", "import sys; sys.exit(7)", "import sys; sys.exit('sorry')", "1 / 0",
        "import os; os._exit(5)", "import os; os.kill(os.getpid(), 9)", "import os; os.kill(os.getpid(), 2)",
        "import atexit; atexit.register(print, 'last'); print('first')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()",
    ],
)  # fmt: skip
def test_it_ends_as_a_fresh_one_ends(text):
    ours, fresh = both("-c", text)
    assert (ours.returncode, ours.stdout) == (fresh.returncode, fresh.stdout)
    assert ours.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_no_two_are_the_same():
    text = "import os, random; from perdure.model.ids import new_uid; print(os.getpid(), random.random(), new_uid())"
    first, second = (forked.run("-c", text).stdout.split() for _ in range(2))
    assert not set(first) & set(second)


def test_it_dies_at_a_crash_point_of_its_own():
    text = "from perdure.model import crash_points; [crash_points.reach('here') or print('once', flush=True) for _ in range(3)]"
    killed = forked.run("-c", text, env=forked.environment(PERDURE_CRASH_AT="here:2"))
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "once\n")
    assert forked.run("-c", text).returncode == 0


def test_it_is_stopped_and_goes_on():
    with forked.Program("-c", "import time; time.sleep(60)") as program:
        program.send_signal(signal.SIGSTOP)
        assert program.wait_stopped()
        assert program.poll() is None
        program.send_signal(signal.SIGCONT)
        program.terminate()
        assert program.wait() == -signal.SIGTERM
        program.kill()  # too late, and no harm
        assert not program.wait_stopped()


def test_one_that_is_held_does_nothing_before_it_may(tmp_path):
    with forked.Program("-c", "open('there', 'w')", cwd=tmp_path, held=True) as program:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.05)
        assert not (tmp_path / "there").exists()
        program.go()
        assert program.wait() == 0
    assert (tmp_path / "there").exists()


def test_in_a_session_of_its_own():
    text = "import os; print(os.getsid(0) == os.getpgrp() == os.getpid())"
    with forked.Program("-c", text, stdout=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout.read() == "True\n"


def test_all_end_with_their_server():
    server = forked.Server()
    there, says = os.pipe()
    order = {
        "words": ["-c", "import time; time.sleep(60)"],
        "env": {},
        "cwd": "/",
        "session": False,
        "held": False,
        "mounts": "",
    }
    gate, go = os.pipe()
    server.begin(order, [0, 1, 2, says, gate])
    os.write(go, b"!")
    pid = int(os.read(there, 100))
    server.close()
    for number in (there, says, gate, go):
        os.close(number)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_caller_may_have_more_descriptors_than_select_takes():
    """A worker of the whole suite has them: it waited without end for a program that had never begun."""
    taken = [os.dup(0) for _ in range(1100)]
    try:
        assert forked.run("-c", "print('alive')").stdout == "alive\n"
    finally:
        for number in taken:
            os.close(number)
