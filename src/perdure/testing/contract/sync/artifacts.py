# Generated from testing/contract/aio/artifacts.py by tools/unasync.py: edit that one.
"""What every store promises about artifacts."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Damaged, Invalid, NotFound, TooLarge
from perdure.model.limits import BLOB_IN_DATABASE_MAX_BYTES
from perdure.testing.openers import Opener

SMALL = b"line\n" * 100
LARGE = b"".join(hashlib.sha256(i.to_bytes(4, "big")).digest() for i in range(20_000))  # 640 kB, incompressible
EDGES = [
    b"",
    b"\0",
    SMALL,
    LARGE[:BLOB_IN_DATABASE_MAX_BYTES],
    LARGE[: BLOB_IN_DATABASE_MAX_BYTES + 1],
    LARGE,
]
HOSTILE = ["../../etc/passwd", "'; DROP TABLE artifacts; --", "<script>.txt", "名前", "%s :x ?", "C:\\x", "."]


def place_content(store: Any, address: str) -> bytes | None:
    """What lies outside under an address, if anything."""
    core, tenant = store._caller.core, store._caller.tenant

    def look() -> bytes | None:
        partition = core.blobs.partition(tenant)
        if not core.blobs.place.exists(partition, address):
            return None
        return b"".join(core.blobs.place.open(partition, address))

    return store._caller.work(look)


def drain(artifact: Any, into: list[bytes]) -> None:
    """Take all pieces of a content, as far as they come."""
    for piece in artifact.open():
        into.append(piece)


def file_of(store: Any, address: str) -> Path:
    """The file that holds a blob."""
    (path,) = Path(store._caller.core.blobs.place.root).rglob(address)
    return path


def damage_outside(store: Any, address: str) -> None:
    """Flip a bit of a blob outside the database."""
    path = file_of(store, address)
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 1
    path.write_bytes(stored)


def lose_outside(store: Any, address: str) -> None:
    """Delete the file of a blob."""
    file_of(store, address).unlink()


def names_like(part: str, folder: Path) -> list[str]:
    """The names in a folder that contain something."""
    return [path.name for path in folder.iterdir() if part in path.name]


class ArtifactsContract:
    """Artifacts."""

    def test_every_kind_of_source_and_every_size_comes_back(self, opener: Opener, tmp_path: Path) -> None:
        with opener() as store:
            session = store.session("a")
            for content in EDGES:
                file = tmp_path / "in.bin"
                file.write_bytes(content)
                pieces = [content[i : i + 1000] for i in range(0, len(content), 1000)]
                for data in (content, bytearray(content), file, io.BytesIO(content), pieces, iter(pieces)):
                    record = session.attach("x.bin", data)
                    assert (record.size, record.hash) == (len(content), hashlib.sha256(content).hexdigest())
                    artifact = session.artifact("x.bin")
                    assert artifact == record
                    assert artifact.read() == content
                    assert b"".join([piece for piece in artifact.open()]) == content

    def test_the_record_says_what_is_known(self, opener: Opener) -> None:
        with opener() as store:
            session = store.as_("alice").session("a")
            record = session.attach("build.LOG", SMALL, media_type="text/x-log", about=["customer:7"])
            assert (record.session, record.name, record.media_type) == ("a", "build.LOG", "text/x-log")
            assert (record.actor, record.ref.uid, record.ref.seq) == ("alice", session.uid, record.seq)
            assert record.at.tzinfo is not None
            assert record.read() == SMALL
            assert [one.read() for one in (*session.artifacts(), *store.artifacts())] == [SMALL] * 2
            assert [one.record for one in session.artifacts()] == [record.record]
            artifact = store.artifact(record.hash)
            assert artifact == record
            assert len({artifact, record}) == 1
            assert (artifact.name, artifact.size, artifact.hash) == (record.name, record.size, record.hash)
            assert (artifact.seq, artifact.ref, artifact.at, artifact.actor, artifact.media_type) == (
                record.seq, record.ref, record.at, record.actor, record.media_type)  # fmt: skip

    def test_a_media_type_follows_the_name(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            for name, data, expected in [
                ("a.json", b"{}", "application/json"),
                ("A.PNG", b"", "image/png"),
                ("noext", b"x", "application/octet-stream"),
                ("noext", "text", "text/plain"),
                ("data:text/html,x", b"", "application/octet-stream"),
            ]:
                assert (session.attach(name, data)).media_type == expected

    def test_small_ones_lie_inside_and_large_ones_outside(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            small = session.attach("s", SMALL)
            large = session.attach("l", LARGE)
            inside = store._caller.core.blobs.inside_max_bytes >= len(SMALL)  # a files store keeps all blobs as files
            assert place_content(store, small.hash) == (None if inside else SMALL)
            assert place_content(store, large.hash) == LARGE

    def test_the_same_content_is_stored_once_and_the_same_name_is_a_new_version(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            first = session.attach("x", LARGE)
            session.attach("y", SMALL)
            second = session.attach("x", SMALL)
            third = session.attach("x", LARGE)
            assert session.artifact("x") == third
            assert session.artifacts("x") == [third, second, first]
            assert len({first.hash, third.hash}) == 1
            assert store.artifact(first.hash) == third
            assert store.artifact(first.hash[:8]) == third
            report = store.collect()
            assert (report.blobs, report.files) == (0, 0)

    def test_any_printable_name_is_a_name(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            for name in HOSTILE:
                session.attach(name, name, media_type=name)
            for name in HOSTILE:
                assert (session.artifact(name)).read() == name.encode()
                assert [one.name for one in store.artifacts(name=name)] == [name]
                assert [one.name for one in store.artifacts(media_type=name)] == [name]

    def test_bad_input_is_refused_with_its_path_and_nothing_changes(self, opener: Opener, tmp_path: Path) -> None:
        def broken() -> Any:
            yield LARGE
            raise RuntimeError("the source failed")

        with opener() as store:
            session = store.session("a")
            session.attach("x", SMALL)
            before = session.artifacts()
            for arguments, error, path in [
                (("", b""), Invalid, "name"),
                (("x" * 300, b""), TooLarge, "name"),
                (("x", 7), Invalid, "data"),
                (("x", None), Invalid, "data"),
                (("x", "\ud800"), Invalid, "data"),
                (("x", [LARGE, "text"]), Invalid, "data[1]"),
                (("x", io.StringIO("text")), Invalid, "data[0]"),
                (("x", tmp_path / "missing"), NotFound, "data"),
                (("x", tmp_path), Invalid, "data"),
            ]:
                with pytest.raises(error) as caught:
                    session.attach(*arguments)
                assert caught.value.path == path
            with pytest.raises(RuntimeError, match="the source failed"):
                session.attach("x", broken())
            for options, path in [({"media_type": ""}, "media_type"), ({"about": "me"}, "about")]:
                with pytest.raises(Invalid) as caught:
                    session.attach("x", b"", **options)
                assert caught.value.path == path
            assert session.artifacts() == before

    def test_what_is_not_there_is_not_found(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            with pytest.raises(NotFound) as caught:
                session.artifact("x")
            assert caught.value.path == "name"
            with pytest.raises(NotFound) as caught:
                store.artifact("0" * 64)
            assert caught.value.path == "hash"
            for bad in ("", "0" * 7, "0" * 63, "../" * 20, "A" * 64, 7):
                with pytest.raises(Invalid) as caught:
                    store.artifact(bad)  # type: ignore[arg-type]
                assert caught.value.path == "hash"

    def test_another_tenants_artifact_is_not_found_in_the_same_words(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a second open of this store is another store")
        with opener(tenant="one") as one, opener(tenant="two") as two:
            record = (one.session("a")).attach("x", LARGE)
            with pytest.raises(NotFound) as caught:
                two.artifact(record.hash)
            with pytest.raises(NotFound) as absent:
                two.artifact("0" * 64)
            assert str(caught.value).replace(record.hash, "0" * 64) == str(absent.value)
            assert two.artifacts() == []
            assert (one.artifact(record.hash)).read() == LARGE

    def test_pages_go_on_where_they_ended(self, opener: Opener) -> None:
        with opener() as store:
            a, b = store.session("a"), store.session("b")
            made = []
            for i in range(7):
                made.append((a if i % 2 else b).attach(f"f{i}", f"{i}"))
                if i % 3 == 0:
                    opener.clock.advance("1m")
            expected = sorted(made, key=lambda one: one.at, reverse=True)
            found: list[Any] = []
            page = store.artifacts(limit=2)
            found += page
            while page.next:
                page = store.artifacts(limit=2, after=page.next)
                found += page
            assert sorted(found, key=lambda one: one.name) == made
            assert [one.at for one in found] == [one.at for one in expected]
            own = a.artifacts(limit=2)
            rest = a.artifacts(limit=2, after=own.next)
            assert [one.name for one in [*own, *rest]] == ["f5", "f3", "f1"]
            assert rest.next is None
            for listing in (a.artifacts, store.artifacts):
                with pytest.raises(Invalid) as caught:
                    listing(after="nonsense")
                assert caught.value.path == "after"

    def test_filters_across_sessions(self, opener: Opener) -> None:
        with opener() as store:
            (store.session("a")).attach("a.json", b"{}")
            opener.clock.advance("1h")
            (store.as_("alice").session("b")).attach("b.txt", b"b")
            opener.clock.advance("1h")

            def names(**filters: Any) -> list[str]:
                return [one.name for one in store.artifacts(**filters)]

            assert names() == ["b.txt", "a.json"]
            assert names(media_type="text/plain") == ["b.txt"]
            assert names(actor="alice") == ["b.txt"]
            assert names(name="a.json") == ["a.json"]
            assert names(since="90m") == ["b.txt"]
            assert names(until="90m") == ["a.json"]
            assert names(actor="alice", name="a.json") == []

    def test_saving_to_a_file_is_all_or_nothing(self, opener: Opener, tmp_path: Path) -> None:
        with opener() as store:
            session = store.session("a")
            record = session.attach("x", LARGE)
            artifact = session.artifact("x")
            target = tmp_path / "out.bin"
            assert artifact.save(target) == target
            assert target.read_bytes() == LARGE
            target.write_bytes(b"older")
            damage_outside(store, record.hash)
            with pytest.raises(Damaged):
                artifact.save(target)
            assert target.read_bytes() == b"older"
            assert names_like("out.bin", tmp_path) == ["out.bin"]

    def test_a_missing_or_altered_content_is_damaged_and_named(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            for name, content in (("small", SMALL), ("large", LARGE)):
                record = session.attach(name, content)
                artifact = session.artifact(name)
                raw = bytes.fromhex(record.hash)

                def alter(tx: Any, raw: bytes = raw) -> None:
                    tx.claim_blobs()
                    tx.drop_blobs([raw])
                    tx.keep_row((tx.tenant, raw, 3, 0, b"bad"))

                def lose(tx: Any, raw: bytes = raw) -> None:
                    tx.claim_blobs()
                    tx.drop_blobs([raw])

                for damage in (alter, lose):
                    store._caller.write(damage)
                    self._is_damaged(artifact, record.hash)

    def test_a_content_lost_or_altered_outside_is_damaged_and_mended_by_attaching_it_again(
        self, opener: Opener
    ) -> None:
        with opener() as store:
            session = store.session("a")
            record = session.attach("x", LARGE)
            artifact = session.artifact("x")
            for damage in (damage_outside, lose_outside):
                damage(store, record.hash)
                self._is_damaged(artifact, record.hash)
                session.attach("again", LARGE)
                assert artifact.read() == LARGE

    def test_inside_atomic_all_or_nothing(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")

            def both(tx: Any) -> bytes:
                tx.session("a").attach("s", SMALL)
                tx.session("a").attach("l", LARGE)
                return tx.session("a").artifact("l").read() + tx.session("a").artifact("s").read()

            assert store.atomic(both) == LARGE + SMALL

            def fails(tx: Any) -> None:
                tx.session("a").attach("never", SMALL)
                raise RuntimeError

            with pytest.raises(RuntimeError):
                store.atomic(fails)
            assert [one.name for one in session.artifacts()] == ["l", "s"]

    def test_a_fork_reads_its_parents_artifacts(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            first = session.attach("x", SMALL)
            session.attach("x", b"later")
            fork = session.fork(at=first.seq, name="try-b")
            assert fork.artifact("x") == first
            mine = fork.attach("x", LARGE)
            assert fork.artifacts() == [mine, first]
            assert (fork.artifacts(limit=1)).next is not None

    @staticmethod
    def _is_damaged(artifact: Any, address: str) -> None:
        with pytest.raises(Damaged) as caught:
            artifact.read()
        assert address in caught.value.path
        got: list[bytes] = []
        with pytest.raises(Damaged) as caught:
            drain(artifact, got)
        assert address in caught.value.path
        assert sum(map(len, got)) < max(artifact.size, 1)
