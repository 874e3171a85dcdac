"""A real PgBouncer in front of the tests' PostgreSQL: started for a test, gone afterwards. Tests install nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from perdure_testing.postgres_binaries import open_temp_dir, server_account

START_SECONDS = 60.0
MISSING = "there is no pgbouncer on this machine (Debian: apt-get install pgbouncer)"


def program() -> str | None:
    """PgBouncer as PERDURE_PGBOUNCER names it, or as the system has it; None where there is none."""
    named = os.environ.get("PERDURE_PGBOUNCER")
    return named or shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def version() -> tuple[int, ...]:
    """The version of the program."""
    found = program()
    assert found is not None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[1].split(".")[:2])


@contextmanager
def pooled(url: str, **settings: str) -> Iterator[str]:
    """The same store behind a pooler with these settings; gives its URL there."""
    parts, account = urlsplit(url), server_account()
    folder = Path(tempfile.mkdtemp(prefix="pb-", dir=open_temp_dir()))
    port = _free_port()
    lines = {
        "listen_addr": "127.0.0.1", "listen_port": str(port), "unix_socket_dir": "", "auth_type": "plain",
        "auth_file": str(folder / "users"), "logfile": str(folder / "log"), "pidfile": str(folder / "pid"),
        "server_tls_sslmode": "disable", "default_pool_size": "20", "max_client_conn": "200", **settings,
    }  # fmt: skip
    database = f"* = host={parts.hostname} port={parts.port}"
    text = "\n".join(["[databases]", database, "[pgbouncer]", *(f"{name} = {value}" for name, value in lines.items())])
    (folder / "ini").write_text(text + "\n")
    (folder / "users").write_text(f'"{parts.username}" "{parts.password}"\n')
    if account is not None:
        for each in (folder, *folder.iterdir()):
            os.chown(each, *account)
    uid, gid = account or (None, None)
    found = program()
    assert found is not None
    with subprocess.Popen(
        [found, "-q", str(folder / "ini")], user=uid, group=gid, extra_groups=None if uid is None else [],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        try:
            _await(port, running, folder / "log")
            yield url.replace(f":{parts.port}/", f":{port}/")
        finally:
            running.kill()
            running.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _await(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise AssertionError(f"the pooler did not start: {log.read_text() if log.exists() else ''}")
