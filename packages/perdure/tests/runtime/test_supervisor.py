"""The supervisor: starts again what dies, within bounds; passes signals on; lets nobody outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from perdure.errors import Unavailable
from perdure.runtime.supervisor import Bounds, Supervisor, WorkerRole
from runtime.crew import until

# A child that says that it is ready, does something, and tells of it in a file.
CHILD = """
import os, signal, socket, sys, time
from perdure.runtime.supervisor_pipe import SupervisorPipe
line = SupervisorPipe.from_fd(int(sys.argv[1]))
kind, folder = sys.argv[2], sys.argv[3]
def note(what):
    with open(f"{folder}/notes", "a") as out:
        out.write(f"{what} {kind} {os.getpid()}\\n")
def told(number, _frame):
    note("told")
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
"""
BEGUN = "note('begun'); begun = sum(line.startswith('begun') for line in open(f'{folder}/notes'))\n"
DRIVING = "line.say(driving=True)\n"
READY = 'line.say(ready=f"h{os.getpid()}"); note("ready")\n'
WAIT = "while not line.over:\n    time.sleep(0.01)\n    for words in line.hear(): note(sorted(words.items()))\nnote('over')\n"


def command(folder, text):
    def made(number, role):
        return [sys.executable, "-c", CHILD + textwrap.dedent(text), str(number), role, folder]

    return made


@pytest.fixture
def notes(tmp_path):
    def read():
        path = tmp_path / "notes"
        return path.read_text().splitlines() if path.exists() else []

    return read


class TestEnds:
    def test_a_worker_that_never_worked_ends_it_with_its_own_status(self, tmp_path, notes, caplog):
        assert Supervisor(command(str(tmp_path), "sys.exit(3)"), Bounds(processes=4)).run() == 3
        assert notes() == []  # the others were not even started
        (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert ("could not begin" in said.message, said.status) == (True, 3)

    def test_the_reason_of_a_worker_that_cannot_begin_is_kept_for_the_last_line(self, tmp_path):
        supervisor = Supervisor(command(str(tmp_path), "line.say(cannot='no agents'); sys.exit(3)"), Bounds())
        assert (supervisor.run(), supervisor.refusal) == (3, "no agents")

    def test_the_reason_of_a_later_worker_is_in_the_log(self, tmp_path, caplog):
        first = "if not os.path.exists(f'{folder}/notes'): " + READY.replace("\n", "; sys.exit(7)\n")
        with pytest.raises(Unavailable):
            Supervisor(
                command(str(tmp_path), first + "line.say(cannot='no agents'); sys.exit(3)"),
                Bounds(restarts=1, suspects=0),
            ).run()
        died = [each for each in caplog.records if each.message == "a worker died"]
        assert [getattr(each, "why", None) for each in died] == [None, "no agents", "no agents"]

    def test_who_died_is_said_also_of_one_that_had_no_name_yet(self, tmp_path, notes, caplog):
        first = "if not os.path.exists(f'{folder}/notes'): " + READY.replace("\n", "; sys.exit(7)\n")
        with pytest.raises(Unavailable):
            Supervisor(
                command(str(tmp_path), first + "sys.exit(8)"), Bounds(restarts=1, within_seconds=1e3, suspects=0)
            ).run()
        named, nameless, *_ = [each for each in caplog.records if each.message == "a worker died"]
        assert (named.worker, named.status, named.role) == (f"h{named.pid}", 7, "worker")
        assert (nameless.worker, nameless.status) == ("none yet: it had not begun to work", 8)

    def test_workers_that_die_in_a_row_for_one_reason_end_it_with_an_error(self, tmp_path, notes):
        bounds = Bounds(restarts=3, within_seconds=1000.0, suspects=0)
        said = "4 workers in a row died before they had taken a run, each with status 7"
        with pytest.raises(Unavailable, match=said):
            Supervisor(command(str(tmp_path), READY + "sys.exit(7)"), bounds).run()
        assert len(notes()) == 4

    def test_so_do_those_that_are_killed_before_they_are_ready(self, tmp_path, notes):
        bounds = Bounds(restarts=2, suspects=0)
        with pytest.raises(Unavailable, match=r"3 workers in a row .* each killed by SIGKILL"):
            Supervisor(command(str(tmp_path), "note('begun'); os.kill(os.getpid(), 9)"), bounds).run()
        assert len(notes()) == 3

    @pytest.mark.parametrize(
        "text",
        [
            # Killed while it imports its program, whenever memory is short.
            "if begun < 8 and begun % 2: os.kill(os.getpid(), 9)\n" + READY + DRIVING + "if begun < 8: sys.exit(7)\n",
            READY + "if begun < 8: os.kill(os.getpid(), (6, 9)[begun % 2])\n",  # for one reason and another
            READY + DRIVING + "if begun < 8: sys.exit(7)\n",  # its runs are suspects from now on
        ],
    )
    def test_other_deaths_do_not(self, tmp_path, notes, text):
        whole = BEGUN + text + "os.kill(os.getppid(), 15)\n" + WAIT
        bounds = Bounds(restarts=1, within_seconds=1000.0, suspects=0)
        assert Supervisor(command(str(tmp_path), whole), bounds).run() == 0
        assert sum(line.startswith("begun") for line in notes()) == 8

    def test_control_deaths_that_lie_far_apart_do_not(self, tmp_path, notes):
        bounds = Bounds(restarts=3, within_seconds=0.0, suspects=0)
        text = (
            READY
            + f"sys.exit(7) if len(open('{tmp_path}/notes').readlines()) < 8 else os.kill(os.getppid(), 15)\n"
            + WAIT
        )
        assert Supervisor(command(str(tmp_path), text), bounds).run() == 0
        assert len([line for line in notes() if line.startswith("ready")]) == 8


class TestAway:
    """Workers that find no store, after others have worked: they wait it out, and who is started meanwhile is tried again."""

    AWAY = f"if 1 < len(open(f'{{folder}}/notes').readlines()) < 9: note('away'); sys.exit({Unavailable.exit_code})\n"
    FIRST = "if not os.path.exists(f'{folder}/notes'): " + READY.replace("\n", "; time.sleep(0.1); sys.exit(7)\n")

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        monkeypatch.setattr("perdure.runtime.supervisor.AWAY_SECONDS", 0.01)

    def test_they_are_no_deaths_and_the_crew_lives_on(self, tmp_path, notes):
        """The others, which waited it out, were ended with them, and nobody came back with the store."""
        text = self.FIRST + "note('begun')\n" + self.AWAY + READY + "os.kill(os.getppid(), 15)\n" + WAIT
        bounds = Bounds(restarts=2, within_seconds=1000.0, suspects=0)
        assert Supervisor(command(str(tmp_path), text), bounds).run() == 0
        said = [line.split()[0] for line in notes()]
        assert said.count("away") == 4
        assert said[-2:] == ["ready", "told"]

    def test_control_those_that_end_for_another_reason_are(self, tmp_path, notes):
        text = self.FIRST + "note('begun'); sys.exit(1)\n"
        with pytest.raises(Unavailable, match="3 workers in a row"):
            Supervisor(command(str(tmp_path), text), Bounds(restarts=2, within_seconds=1000.0, suspects=0)).run()

    def test_a_first_one_that_finds_no_store_ends_it(self, tmp_path, notes):
        text = f"sys.exit({Unavailable.exit_code})"
        assert Supervisor(command(str(tmp_path), text), Bounds(suspects=0)).run() == Unavailable.exit_code


class TestSignals:
    def supervise(self, tmp_path, text, bounds):
        program = f"""
import sys; sys.path[:0] = {[p for p in sys.path if p]!r}
from runtime.test_supervisor import command
from perdure.runtime.supervisor import Bounds, Supervisor
sys.exit(Supervisor(command({str(tmp_path)!r}, {text!r}), {bounds!r}).run())
"""
        return subprocess.Popen([sys.executable, "-c", program])

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_they_are_passed_on_and_everybody_is_waited_for(self, tmp_path, notes, number):
        parent = self.supervise(tmp_path, READY + WAIT, Bounds(processes=3, suspects=0))
        until(lambda: len(notes()) == 3)
        parent.send_signal(number)
        assert parent.wait(60) == 0
        assert sorted(line.split()[0] for line in notes()) == ["ready"] * 3 + ["told"] * 3

    def test_who_does_not_end_is_killed(self, tmp_path, notes, monkeypatch):
        deaf = "signal.signal(signal.SIGTERM, lambda *_: note('deaf'))\n" + READY + "while True: time.sleep(1)\n"
        program = command(str(tmp_path), deaf)
        monkeypatch.setattr("perdure.runtime.supervisor.KILL_SECONDS", 0.1)
        supervisor = Supervisor(program, Bounds(grace_seconds=0.1))
        supervisor._start(WorkerRole.WORKER)
        until(notes)
        (child,) = supervisor._children
        supervisor._end_all()
        assert child.program.returncode == -signal.SIGKILL

    def test_its_own_death_is_heard(self, tmp_path, notes):
        parent = self.supervise(tmp_path, READY + WAIT, Bounds(processes=2, suspects=0))
        until(lambda: len(notes()) == 2)
        parent.kill()
        parent.wait(60)
        until(lambda: len([line for line in notes() if line.startswith("over")]) == 2)


class TestSuspects:
    def ready(self, notes, role):
        return [line for line in notes() if line.startswith(f"ready {role}")]

    def test_one_process_is_kept_ready_for_them(self, tmp_path, notes):
        parent = TestSignals().supervise(tmp_path, READY + WAIT, Bounds(processes=2))
        until(lambda: len(notes()) == 3)
        assert len(self.ready(notes, "standby")) == 1
        os.kill(int(self.ready(notes, "standby")[0].split()[-1]), signal.SIGKILL)
        until(lambda: len(self.ready(notes, "standby")) == 2)
        parent.terminate()
        assert parent.wait(60) == 0

    def test_a_standby_that_is_busy_is_followed_by_another(self, tmp_path, notes):
        once = f"{tmp_path}/busy"
        busy = f"if kind == 'standby' and not os.path.exists({once!r}): open({once!r}, 'x'); line.say(busy=True)\n"
        parent = TestSignals().supervise(tmp_path, READY + busy + WAIT, Bounds())
        until(lambda: len(self.ready(notes, "standby")) == 2)
        os.kill(int(self.ready(notes, "standby")[0].split()[-1]), signal.SIGKILL)  # which is none any more
        os.kill(int(self.ready(notes, "standby")[1].split()[-1]), signal.SIGKILL)
        until(lambda: len(self.ready(notes, "standby")) == 3)
        parent.terminate()
        assert parent.wait(60) == 0
        assert len(self.ready(notes, "standby")) == 3

    def test_a_death_is_told_to_the_others(self, tmp_path, notes):
        parent = TestSignals().supervise(tmp_path, READY + WAIT, Bounds(processes=2))
        until(lambda: len(notes()) == 3)
        victim = self.ready(notes, "worker")[0].split()[-1]
        os.kill(int(victim), signal.SIGKILL)
        until(lambda: len([line for line in notes() if f"('dead', 'h{victim}')" in line]) == 2)
        parent.terminate()
        assert parent.wait(60) == 0

    def test_their_deaths_are_no_deaths_of_workers(self, tmp_path, notes):
        text = READY + "if kind == 'standby': os.kill(os.getpid(), 9)\n" + WAIT
        parent = TestSignals().supervise(tmp_path, text, Bounds(restarts=2, within_seconds=1000.0))
        until(lambda: len(self.ready(notes, "standby")) >= 5)
        parent.terminate()
        assert parent.wait(60) == 0

    def test_as_many_as_workers_ask_for_but_not_more_than_allowed(self, tmp_path, notes):
        asks = "while kind == 'worker' and not line.over: line.say(suspects=7); line.hear(); time.sleep(0.02)\n"
        parent = TestSignals().supervise(tmp_path, READY + asks + WAIT, Bounds(suspects=3))
        until(lambda: len(notes()) == 4)
        parent.terminate()
        assert parent.wait(60) == 0
        assert len(self.ready(notes, "suspects")) + len(self.ready(notes, "standby")) == 3

    def test_those_that_do_not_start_are_tried_again_slowly(self, tmp_path, notes, monkeypatch):
        monkeypatch.setattr("perdure.runtime.supervisor.FAILED_START_SECONDS", 30.0)
        supervisor = Supervisor(command(str(tmp_path), "sys.exit(1)"), Bounds())
        for wanted in (1, 2):
            supervisor._asked = 1
            supervisor._start(WorkerRole.SUSPECTS)
            supervisor._children[0].program.wait()
            assert supervisor._bury() is None
            assert supervisor._failed_starts == wanted
            assert supervisor._missing_for_suspects() == 0
        supervisor._no_suspects_before = 0.0
        assert supervisor._missing_for_suspects() == 1
