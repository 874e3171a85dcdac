"""shell: one run under one key, whatever is killed, and a marker that says what is known."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Failed, InDoubt, Invalid, KeyReused, Unavailable
from perdure.model import programs
from perdure.model.records.effects import Absent, Happened, ToolKind, Unknown
from perdure_agents.ready import shell as module
from perdure_agents.ready.shell import marker_folder, shell


@pytest.fixture
def markers(tmp_path: Path) -> str:
    return marker_folder(str(tmp_path / "state" / "markers"))


def probe(command: Any, markers: str | None, key: str = "k", **rest: Any) -> Any:
    args = {"command": command, **rest} | ({} if markers is None else {"markers": markers})
    return shell.call(shell.probe, args, key=key)


def until(path: Path, caller: subprocess.Popen[bytes] | None = None) -> str:
    """The content of a file, as soon as it has any."""
    for _ in range(6_000):
        if path.exists() and (text := path.read_text()):
            return text
        assert caller is None or caller.poll() is None
        time.sleep(0.01)
    raise AssertionError(f"{path} did not come")


def gone(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second if it goes between the opening and the reading
        return True


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to hold")


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: gone(pid))


def test_its_declaration() -> None:
    assert (shell.kind, shell.takes, shell.rule.lands_within) == (ToolKind.PROBED, {"key"}, 0)


def test_the_result(markers: str, tmp_path: Path) -> None:
    found = shell("pwd; echo $WHO; echo bad >&2; cat", key="k", cwd=str(tmp_path), env={"WHO": "me"}, markers=markers)
    text = f"{tmp_path}\nme\n"
    assert found["exit"] == 0
    assert found["stdout"] == {"text": text, "bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    assert found["stderr"]["text"] == "bad\n"


def test_a_list_needs_no_shell(markers: str) -> None:
    assert shell(["printf", "%s", "$HOME; x"], key="k", markers=markers)["stdout"]["text"] == "$HOME; x"
    with pytest.raises(Failed, match="127"):
        shell(["no-such-program-anywhere"], key="k2", markers=markers)


def test_the_probe_in_all_its_answers(markers: str, tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/ran; echo done"
    assert isinstance(probe(command, markers), Absent)
    result = shell(command, key="k", markers=markers)
    assert probe(command, markers) == Happened(result)
    assert isinstance(probe(command, markers, "other"), Absent)
    assert isinstance(probe("echo else", markers), Absent)  # its key has another command's marker
    assert isinstance(probe(command, str(tmp_path / "gone")), Unknown)  # another machine, perhaps
    marker = Path(markers, "k")
    begun, ended, _ = marker.read_bytes().split(b"\n")
    marker.write_bytes(begun + b"\n" + ended[:40])  # the power went while the end was written
    assert isinstance(probe(command, markers), Unknown)
    marker.write_bytes(b"{")
    assert isinstance(probe(command, markers), Unknown)
    assert (tmp_path / "ran").read_text() == "x\n"


def test_a_bad_end_is_a_no_and_stays_one_without_running_again(markers: str, tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/ran; echo broken >&2; exit 3"
    for _ in range(2):
        with pytest.raises(Failed, match="status 3: broken") as refused:
            shell(command, key="k", markers=markers)
        assert (refused.value.code, refused.value.facts["exit"]) == ("ExitStatus", 3)
        assert isinstance(probe(command, markers), Absent)
    assert (tmp_path / "ran").read_text() == "x\n"
    assert shell(command, key="k2", ok=[0, 3], markers=markers)["exit"] == 3  # the control: a status that is fine
    assert isinstance(probe(command, markers, "k2", ok=[0, 3]), Happened)


def test_under_one_key_it_runs_once(markers: str, tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/ran; sleep 0.3; wc -l < {tmp_path}/ran"
    results: list[Any] = []

    def call() -> None:
        results.append(shell(command, key="k", markers=markers))

    callers = [threading.Thread(target=call) for _ in range(5)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert len(results) == 5
    assert all(each == results[0] for each in results)
    assert (tmp_path / "ran").read_text() == "x\n"
    for key in ("a", "b"):  # the control: under other keys it does run again
        shell(command, key=key, markers=markers)
    assert (tmp_path / "ran").read_text() == "x\n" * 3


def test_a_key_belongs_to_one_command(markers: str, tmp_path: Path) -> None:
    shell("echo a", key="k", markers=markers)
    for command, rest in (("echo b", {}), ("echo a", {"cwd": str(tmp_path)}), ("echo a", {"env": {"A": "b"}})):
        with pytest.raises(KeyReused):
            shell(command, key="k", markers=markers, **rest)
    assert shell("echo a", key="k", markers=markers, timeout=5)["exit"] == 0


@pytest.mark.parametrize("key", ["a/b", "..", ".hidden", "x" * 200, "ä" * 200, "a b", "-rf", "%2E"])
def test_any_key_names_a_marker_inside_the_folder(markers: str, key: str) -> None:
    shell("true", key=key, markers=markers)
    (name,) = [each.name for each in Path(markers).iterdir()]
    assert not name.startswith(".")
    assert isinstance(probe("true", markers, key), Happened)


CALLER = (
    "import sys; from perdure_agents.ready.shell import shell\n"
    "shell(sys.argv[1], key='k', markers=sys.argv[2], timeout=60)"
)


def began(command: str, markers: str, pid_file: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    """A caller in a process of its own, the wrapper and the command, once the command runs."""
    caller = subprocess.Popen([sys.executable, "-c", CALLER, command, markers], stderr=subprocess.DEVNULL)
    wrapper, command_pid = until(pid_file, caller).split()
    return caller, int(wrapper), int(command_pid)


def slow(tmp_path: Path) -> str:
    """A command that says who it is and waits to be let go."""
    pids, go = tmp_path / "pids", tmp_path / "go"
    waits = f"while ! test -e {go}; do sleep 0.02; done"
    return f"echo $PPID $$ > {pids}.tmp; mv {pids}.tmp {pids}; {waits}; echo x >> {tmp_path}/ran"


def test_a_killed_caller_takes_nothing_with_it(markers: str, tmp_path: Path) -> None:
    """SIGKILL to the caller: the command goes on, its end is recorded, and a second call joins it."""
    command = slow(tmp_path)
    caller, _, pid = began(command, markers, tmp_path / "pids")
    caller.kill()
    caller.wait()
    assert not gone(pid)
    found = probe(command, markers)
    assert isinstance(found, Unknown)
    assert "still running" in found.reason
    second: list[Any] = []
    joining = threading.Thread(target=lambda: second.append(shell(command, key="k", markers=markers)))
    joining.start()
    (tmp_path / "go").touch()
    joining.join()
    assert probe(command, markers) == Happened(second[0])
    assert (tmp_path / "ran").read_text() == "x\n"


def test_killed_with_its_wrapper_nobody_knows(markers: str, tmp_path: Path) -> None:
    """SIGKILL to caller and wrapper: Unknown while the command runs, Unknown when it is gone, and never run again."""
    command = slow(tmp_path)
    caller, wrapper, pid = began(command, markers, tmp_path / "pids")
    caller.kill()
    caller.wait()
    os.kill(wrapper, signal.SIGKILL)
    wait_until_gone(wrapper)
    assert "still running" in probe(command, markers).reason  # the lock is the command's too
    os.killpg(pid, signal.SIGKILL)
    wait_until(lambda: "died" in probe(command, markers).reason)
    assert isinstance(probe(command, markers), Unknown)
    with pytest.raises(InDoubt, match="died"):
        shell(command, key="k", markers=markers)
    assert not (tmp_path / "ran").exists()


def test_a_killed_command_is_a_no(markers: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="signal 9"):
        shell("kill -9 $$", key="k", markers=markers)
    assert isinstance(probe("kill -9 $$", markers), Absent)


def test_at_the_deadline_it_is_killed_with_its_children(markers: str, tmp_path: Path) -> None:
    command = f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/child; echo begun; while :; do sleep 0.1; done"
    for seconds in (1, 10, 60):  # which a busy machine may need to begin
        with pytest.raises(Failed, match="deadline") as refused:
            shell(command, key=f"{seconds}", timeout=seconds, markers=markers)
        assert refused.value.code == "TimedOut"
        assert isinstance(probe(command, markers, f"{seconds}"), Absent)
        if "deadline: begun" in str(refused.value):
            break
    assert "deadline: begun" in str(refused.value)
    wait_until_gone(int((tmp_path / "child").read_text()))


def test_what_it_leaves_behind_is_killed_and_not_waited_for(markers: str, tmp_path: Path) -> None:
    found = shell(f"sleep 600 & echo $! > {tmp_path}/child; echo ok", key="k", markers=markers)
    assert found["stdout"]["text"] == "ok\n"
    wait_until_gone(int((tmp_path / "child").read_text()))


def test_an_interrupted_call_ends_its_command(markers: str, tmp_path: Path) -> None:
    """Ctrl-C: the wrapper is told to end, kills the command and records it."""
    command = slow(tmp_path)
    caller, _, pid = began(command, markers, tmp_path / "pids")
    caller.send_signal(signal.SIGINT)
    assert caller.wait() != 0
    wait_until_gone(pid)
    found = probe(command, markers)
    assert isinstance(found, Absent)
    assert "stopped" in found.reason


def test_output_is_bounded_and_digested(markers: str) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' a; echo END"
    found = shell(command, key="k", markers=markers)["stdout"]
    whole = b"a" * 3_000_000 + b"END\n"
    assert (found["bytes"], found["sha256"]) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert len(found["text"]) < programs.FIRST_BYTES + programs.LAST_BYTES + 100
    assert "bytes left out" in found["text"]
    assert found["text"].endswith("END\n")
    small = shell("printf 'a\\0b\\377'", key="k2", markers=markers)["stdout"]  # the control: what fits is whole
    assert (small["text"], small["bytes"]) == ("a\ufffdb\ufffd", 4)


def test_a_marker_is_there_before_the_command_begins(markers: str) -> None:
    text = shell(f"cat {markers}/k", key="k", markers=markers)["stdout"]["text"]
    assert json.loads(text)["key"] == "k"


def test_secrets_of_the_environment_are_in_no_marker_and_no_argument(
    markers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-canary")
    shown = shell('test "$TOKEN" = s3cret-canary && cat /proc/$PPID/cmdline', key="k", markers=markers)
    assert "wrapper" in shown["stdout"]["text"]
    assert "canary" not in Path(markers, "k").read_text()


def test_what_does_not_begin_can_be_tried_later(markers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_PACKAGES", (str(tmp_path / "gone"),))
    with pytest.raises(Unavailable, match="did not begin"):
        shell("true", key="k", markers=markers)
    assert isinstance(probe("true", markers), Absent)
    monkeypatch.undo()
    assert shell("true", key="k", markers=markers)["exit"] == 0


def test_a_folder_that_cannot_be_made_is_a_no(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failed) as refused:
        shell("true", key="k", markers=str(tmp_path / "file" / "markers"))
    assert refused.value.path == "markers"


def test_the_default_folder_is_in_the_users_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert isinstance(probe("true", None), Unknown)
    shell("true", key="k")
    assert isinstance(probe("true", None), Happened)
    assert [each.name for each in (tmp_path / "perdure" / "markers").iterdir()] == ["k"]


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"command": ""}, "command"), ({"command": "a\0"}, "command"), ({"command": []}, "command"), ({"command": 7}, "command"),
        ({"command": ["-x"]}, "command[0]"), ({"command": ["a", 7]}, "command[1]"), ({"cwd": "rel"}, "cwd"),
        ({"env": {"A=B": "c"}}, "env"), ({"env": {"A": 1}}, "env.A"), ({"env": 7}, "env"),
        ({"ok": [300]}, "ok"), ({"ok": 0}, "ok"),
        ({"timeout": 0}, "timeout"), ({"timeout": "2h"}, "timeout"), ({"markers": "rel"}, "markers"), ({"key": "a\nb"}, "key"),
    ],
)  # fmt: skip
def test_hostile_arguments_are_refused(markers: str, tmp_path: Path, changed: dict[str, Any], where: str) -> None:
    good: dict[str, Any] = {"command": f"echo x >> {tmp_path}/ran", "key": "k", "markers": markers}
    with pytest.raises(Invalid) as refused:
        shell(**{**good, **changed})
    assert refused.value.path == where
    assert not (tmp_path / "ran").exists()
    assert shell(**good)  # the control


def test_control_without_the_marker_it_runs_twice(tmp_path: Path, markers: str) -> None:
    """What the marker is for: forget it, and the same key runs the command again."""
    command = f"echo x >> {tmp_path}/ran"
    shell(command, key="k", markers=markers)
    Path(markers, "k").unlink()
    shell(command, key="k", markers=markers)
    assert (tmp_path / "ran").read_text() == "x\n" * 2
