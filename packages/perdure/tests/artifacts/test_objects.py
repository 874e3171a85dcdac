"""Blobs in object storage. The server is moto, an emulator in this process: it enforces conditional puts and
speaks multipart, but says nothing about a real store's durability, timing or limits."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from artifacts.place_contract import TEXT, PlaceContract, address_of, megabytes
from perdure.artifacts import objects
from perdure.artifacts.objects import PART_BYTES, S3Place
from perdure.artifacts.place import Place, place_from_url
from perdure.errors import Error, Full, Invalid, NotFound, Refused, Unavailable
from perdure.handles.sync.store import Store
from perdure.model import crash_points
from perdure.model.instants import SECOND_US, duration_us
from perdure.planes.retention import collect
from perdure.stores.blobs import Blobs

obstore = pytest.importorskip("obstore")

ADDRESS = address_of(TEXT)
SRC = Path(objects.__file__).parents[2]
TESTS = Path(__file__).parents[1]
MEASURE = """
import sys
from artifacts.place_contract import peak_of_a_large_stream
from perdure.artifacts.place import place_from_url
print(peak_of_a_large_stream(place_from_url(sys.argv[1]), noisy=bool(sys.argv[2])))
"""
numbers = count()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    moto_server = pytest.importorskip("moto.server")  # here: every worker collects this file, and it takes a second
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def emulated() -> Any:
    """The emulator's own memory: where buckets are made and objects are aged."""
    moto_models = pytest.importorskip("moto.s3.models")
    return moto_models.s3_backends["123456789012"]["aws"]


def url_of(bucket: str, endpoint: str) -> str:
    return f"s3://{bucket}/some/prefix?endpoint={endpoint}&allow_http=true&region=us-east-1"


@pytest.fixture
def bucket(endpoint: str) -> str:
    """One of its own for each test."""
    name = f"bucket-{next(numbers)}"
    emulated().create_bucket(name, "us-east-1")
    return name


@pytest.fixture
def place(bucket: str, endpoint: str) -> S3Place:
    found = place_from_url(url_of(bucket, endpoint))
    assert isinstance(found, S3Place)
    return found


def raw_of(place: Place) -> Any:
    assert isinstance(place, S3Place)
    return place._bucket


def key_of(tenant: str, address: str) -> str:
    return f"some/prefix/{tenant}/{address}"


class TestS3Place(PlaceContract):
    """The contract on moto, which is an emulator."""

    peak_max_bytes = 2 * PART_BYTES + 2 * 1024 * 1024  # a part is let go when the next has come

    def peak_bytes(self, place: Place, *, noisy: bool) -> int:
        """Measured in a child: the memory of this process is also the emulator's."""
        settings = raw_of(place).config
        url = url_of(settings["bucket"], settings["endpoint"])
        environment = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{TESTS}"}
        command = [sys.executable, "-c", MEASURE, url, "noisy" if noisy else ""]
        return int(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)

    def stored_form(self, place: Place, tenant: str, address: str) -> bytes:
        return bytes(obstore.get(raw_of(place), key_of(tenant, address)).bytes())

    def damage(self, place: Place, tenant: str, address: str, stored: bytes) -> None:
        obstore.put(raw_of(place), key_of(tenant, address), stored, use_multipart=False)

    def age(self, place: Place, tenant: str, address: str) -> None:
        for bucket in emulated().buckets.values():
            for name, found in bucket.keys.items():
                if name == key_of(tenant, address) and bucket.name == raw_of(place).config["bucket"]:
                    found.last_modified = datetime(2020, 1, 1)  # noqa: DTZ001 (as moto keeps it)


# Requests: how many, and which ----------------------------------------------------------------------------


@contextmanager
def requests_of(place: S3Place) -> Iterator[list[str]]:
    """The calls to the object store, in order."""
    made: list[str] = []

    class Counting:
        exceptions, store = obstore.exceptions, obstore.store

        def __getattr__(self, name: str) -> Callable[..., object]:
            def call(*given: object, **options: object) -> object:
                made.append(f"{name} {options.get('mode', '')}".strip())
                return getattr(obstore, name)(*given, **options)

            return call

    place._obstore = Counting()  # type: ignore[assignment]
    yield made
    place._obstore = obstore


def test_a_new_blob_is_created_and_a_young_one_only_read(place: S3Place) -> None:
    with requests_of(place) as made:
        place.put("t1", [TEXT])
        place.put("t1", [TEXT])
    assert made == ["head", "put create", "head", "get"]


def test_an_old_one_is_written_again_without_reading_it(place: S3Place) -> None:
    place.put("t1", [TEXT])
    TestS3Place().age(place, "t1", ADDRESS)
    with requests_of(place) as made:
        place.put("t1", [TEXT])
    assert made == ["head", "put overwrite"]


def test_what_a_put_leaves_as_it_is_outlasts_its_commit_in_any_collection(place: S3Place) -> None:
    least_us = collect.least_grace_us(Blobs(place, "o"))
    assert least_us == 1800 * SECOND_US + collect.LEAST_GRACE_US
    assert least_us < duration_us(signature(Store.collect).parameters["grace"].default)
    with pytest.raises(Invalid, match="still being written"):
        collect.cutoff_us("30m", Blobs(place, "o"))


def test_a_clock_that_is_behind_writes_again(bucket: str, endpoint: str) -> None:
    behind = S3Place(bucket, "p", endpoint=endpoint, allow_http=True, clock=lambda: 0)
    behind.put("t1", [TEXT])
    with requests_of(behind) as made:
        behind.put("t1", [TEXT])
    assert made == ["head", "put overwrite"]


def test_who_loses_the_race_for_creation_looks_at_the_winner(place: S3Place, endpoint: str, bucket: str) -> None:
    rival = place_from_url(url_of(bucket, endpoint))
    with requests_of(place) as made:
        head = place._head

        def head_then_rival(key: str) -> Any:
            found = head(key)
            rival.put("t1", [TEXT])
            return found

        place._head = head_then_rival  # type: ignore[method-assign]
        place.put("t1", [TEXT])
    assert made == ["head", "put create", "head", "get"]
    assert rival.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_a_large_one_goes_in_parts(place: S3Place) -> None:
    stored = place.put("t1", megabytes(20, noisy=True))
    assert stored.stored_bytes > 2 * PART_BYTES
    assert obstore.head(raw_of(place), key_of("t1", stored.address))["e_tag"].endswith('-3"')
    assert len(place.read("t1", stored.address, stored.size)) == stored.size
    assert place.put("t1", megabytes(20, noisy=True)) == stored


def test_written_again_while_it_is_read_is_not_damage(place: S3Place) -> None:
    stored = place.put("t1", megabytes(20, noisy=True))
    pieces = place.open("t1", stored.address)
    next(pieces)
    TestS3Place().damage(place, "t1", stored.address, b"other bytes")
    with pytest.raises(Unavailable, match="written again"):
        list(pieces)


def test_deleted_while_it_is_read_is_said(place: S3Place) -> None:
    stored = place.put("t1", megabytes(20, noisy=True))
    pieces = place.open("t1", stored.address)
    next(pieces)
    place.delete("t1", stored.address)
    with pytest.raises(Unavailable, match="deleted"):
        list(pieces)


def test_foreign_objects_are_none_of_ours(place: S3Place) -> None:
    place.put("t1", [TEXT])
    for key in (
        "some/prefix/t1/notes",
        "some/prefix/t1/deeper/" + "a" * 64,
        "some/prefix/Up/x",
        "other/x",
        "some/x",
    ):
        obstore.put(raw_of(place), key, b"x", use_multipart=False)
    assert [address for address, _ in place.addresses("t1")] == [ADDRESS]
    assert list(place.tenants()) == ["t1"]


def test_a_bucket_without_prefix(bucket: str, endpoint: str) -> None:
    place = S3Place(bucket, endpoint=endpoint, allow_http=True)
    place.put("t1", [TEXT])
    assert obstore.head(raw_of(place), f"t1/{ADDRESS}")["size"] > 0
    assert list(place.tenants()) == ["t1"]
    assert [address for address, _ in place.addresses("t1")] == [ADDRESS]


# What goes wrong outside ----------------------------------------------------------------------------------


def every_verb(place: Place) -> list[Callable[[], object]]:
    return [
        lambda: place.put("t1", [TEXT]),
        lambda: place.open("t1", ADDRESS),
        lambda: place.exists("t1", ADDRESS),
        lambda: place.delete("t1", ADDRESS),
        lambda: list(place.addresses("t1")),
        lambda: list(place.tenants()),
    ]


def impatient(endpoint: str, seconds: float = 0.2) -> S3Place:
    return S3Place("bucket", "p", endpoint=endpoint, allow_http=True, deadline_seconds=seconds)


def refused(endpoint: str, expected: type[Error], act: Callable[[S3Place], object]) -> Error:
    """What it is refused with. What is tried again takes all its time, so that is short; a busy machine may need more."""
    for seconds in (0.2, 2.0, 20.0):
        with pytest.raises(Error) as caught:
            act(impatient(endpoint, seconds))
        if type(caught.value) is expected:
            return caught.value
    raise AssertionError(f"expected {expected.__name__}, got {caught.value!r}")


@contextmanager
def answering(status: int, code: str = "Any") -> Iterator[str]:
    """A server that says the same to everything."""

    class Answer(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AccessDenied", Refused),
        (401, "InvalidToken", Refused),
        (500, "InternalError", Unavailable),
        (503, "SlowDown", Unavailable),
        (400, "Whatever", Unavailable),
    ],
)
def test_answers_are_of_our_tree(status: int, code: str, expected: type[Error]) -> None:
    with answering(status, code) as endpoint:
        for number in range(len(every_verb(impatient(endpoint)))):
            error = refused(endpoint, expected, lambda place, number=number: every_verb(place)[number]())
            assert "Debug source" not in str(error)


@pytest.mark.parametrize(("status", "code"), [(507, "XMinioStorageFull"), (403, "QuotaExceeded")])
def test_a_full_bucket(status: int, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(status, code) as endpoint:
        monkeypatch.setattr(S3Place, "_head", lambda *_: None)
        refused(endpoint, Full, lambda place: place.put("t1", [TEXT]))


def test_nobody_answers() -> None:
    """P15: a server that accepts and then says nothing; every verb ends by its deadline."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for verb in every_verb(impatient(f"http://127.0.0.1:{silent.getsockname()[1]}")):
            with pytest.raises(Unavailable):
                verb()


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # not listening, and nobody else can take the port
        for verb in every_verb(impatient(f"http://127.0.0.1:{bound.getsockname()[1]}")):
            with pytest.raises(Unavailable):
                verb()


def test_no_credentials(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with answering(403) as metadata:  # in place of the machine's own metadata service
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", metadata)
        for number in range(len(every_verb(impatient(endpoint)))):
            error = refused(endpoint, Refused, lambda place, number=number: every_verb(place)[number]())
            assert "AWS_ACCESS_KEY_ID" in str(error)


def test_no_such_bucket(endpoint: str) -> None:
    missing = place_from_url(url_of("no-such-bucket", endpoint))
    for verb in (lambda: missing.put("t1", [TEXT]), lambda: list(missing.addresses("t1")), missing.tenants):
        with pytest.raises(Refused, match="no such bucket"):
            verb()
    with pytest.raises(NotFound):
        missing.open("t1", ADDRESS)


def test_no_room_for_the_spool(place: S3Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """os.write is replaced by one that fails as on a full disk."""

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", fail)
        with pytest.raises(Full):
            place.put("t1", [TEXT])
    assert list(place.addresses("t1")) == []


def test_no_folder_for_the_spool(place: S3Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(Unavailable):
        place.put("t1", [TEXT])


# Crashes --------------------------------------------------------------------------------------------------

CHILD = """
import sys
from perdure.artifacts.place import place_from_url
place = place_from_url(sys.argv[1])
place.put("t1", [sys.stdin.buffer.read()])
print("acknowledged", flush=True)
"""


@pytest.mark.parametrize("point", ["artifact.before_upload", "artifact.after_upload"])
def test_kill_around_the_upload(place: S3Place, bucket: str, endpoint: str, point: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SRC), "PERDURE_CRASH_AT": point}
    command = [sys.executable, "-c", CHILD, url_of(bucket, endpoint)]
    died = subprocess.run(command, input=TEXT, env=environment, capture_output=True, check=False)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, b""), died.stderr.decode()
    assert place.exists("t1", ADDRESS) == (point == "artifact.after_upload")
    place.put("t1", [TEXT])
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_the_points_are_reached(place: S3Place) -> None:
    """Control: without a point armed the put goes through, and both are passed."""
    reached: list[str] = []
    names = [
        "artifact.before_upload",
        "artifact.after_upload",
        "artifact.before_delete",
        "artifact.after_delete",
    ]
    disarm = [crash_points.arm(name, lambda name=name: reached.append(name)) for name in names]
    try:
        place.put("t1", [TEXT])
        place.delete("t1", ADDRESS)
    finally:
        for off in disarm:
            off()
    assert reached == names
