"""The promises of every store about artifacts."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Damaged, Invalid, NotFound, TooLarge
from perdure.model.limits import BLOB_IN_DATABASE_MAX_BYTES
from perdure.runtime.callers import caller_of
from perdure_testing.openers import AsyncOpener

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


async def place_content(store: Any, address: str) -> bytes | None:
    """The bytes in the place under an address, if any."""
    core, tenant = caller_of(store).core, caller_of(store).tenant

    def look() -> bytes | None:
        partition = core.blobs.partition(tenant)
        if not core.blobs.place.exists(partition, address):
            return None
        return b"".join(core.blobs.place.open(partition, address))

    return await caller_of(store).work(look)


async def drain(artifact: Any, into: list[bytes]) -> None:
    """Take all pieces of a content, as far as they come."""
    async for piece in artifact.open():
        into.append(piece)


def file_of(store: Any, address: str) -> Path:
    """The file that holds a blob."""
    (path,) = Path(caller_of(store).core.blobs.place.root).rglob(address)
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


class AsyncArtifactsContract:
    """Artifacts."""

    async def test_every_kind_of_source_and_every_size_comes_back(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for content in EDGES:
                file = tmp_path / "in.bin"
                file.write_bytes(content)
                pieces = [content[i : i + 1000] for i in range(0, len(content), 1000)]
                for data in (content, bytearray(content), file, io.BytesIO(content), pieces, iter(pieces)):
                    record = await session.attach("x.bin", data)
                    assert (record.size, record.hash) == (len(content), hashlib.sha256(content).hexdigest())
                    artifact = await session.artifact("x.bin")
                    assert artifact == record
                    assert await artifact.read() == content
                    assert b"".join([piece async for piece in artifact.open()]) == content

    async def test_the_record_says_what_is_known(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.as_("alice").session("a")
            record = await session.attach("build.LOG", SMALL, media_type="text/x-log", about=["customer:7"])
            assert (record.session, record.name, record.media_type) == ("a", "build.LOG", "text/x-log")
            assert (record.actor, record.ref.uid, record.ref.seq) == ("alice", session.uid, record.seq)
            assert record.at.tzinfo is not None
            assert await record.read() == SMALL
            assert [await one.read() for one in (*await session.artifacts(), *await store.artifacts())] == [SMALL] * 2
            assert [one.record for one in await session.artifacts()] == [record.record]
            artifact = await store.artifact(record.hash)
            assert artifact == record
            assert len({artifact, record}) == 1
            assert (artifact.name, artifact.size, artifact.hash) == (record.name, record.size, record.hash)
            assert (artifact.seq, artifact.ref, artifact.at, artifact.actor, artifact.media_type) == (
                record.seq, record.ref, record.at, record.actor, record.media_type)  # fmt: skip

    async def test_a_media_type_follows_the_name(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for name, data, expected in [
                ("a.json", b"{}", "application/json"),
                ("A.PNG", b"", "image/png"),
                ("noext", b"x", "application/octet-stream"),
                ("noext", "text", "text/plain"),
                ("data:text/html,x", b"", "application/octet-stream"),
            ]:
                assert (await session.attach(name, data)).media_type == expected

    async def test_small_ones_lie_inside_and_large_ones_outside(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            small = await session.attach("s", SMALL)
            large = await session.attach("l", LARGE)
            # A files store keeps all blobs as files.
            inside = caller_of(store).core.blobs.inside_max_bytes >= len(SMALL)
            assert await place_content(store, small.hash) == (None if inside else SMALL)
            assert await place_content(store, large.hash) == LARGE

    async def test_the_same_content_is_stored_once_and_the_same_name_is_a_new_version(
        self, opener: AsyncOpener
    ) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.attach("x", LARGE)
            await session.attach("y", SMALL)
            second = await session.attach("x", SMALL)
            third = await session.attach("x", LARGE)
            assert await session.artifact("x") == third
            assert await session.artifacts("x") == [third, second, first]
            assert len({first.hash, third.hash}) == 1
            assert await store.artifact(first.hash) == third
            assert await store.artifact(first.hash[:8]) == third
            report = await store.collect()
            assert (report.blobs, report.files) == (0, 0)

    async def test_any_printable_name_is_a_name(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for name in HOSTILE:
                await session.attach(name, name, media_type=name)
            for name in HOSTILE:
                assert await (await session.artifact(name)).read() == name.encode()
                assert [one.name for one in await store.artifacts(name=name)] == [name]
                assert [one.name for one in await store.artifacts(media_type=name)] == [name]

    async def test_bad_input_is_refused_with_its_path_and_nothing_changes(
        self, opener: AsyncOpener, tmp_path: Path
    ) -> None:
        def broken() -> Any:
            yield LARGE
            raise RuntimeError("the source failed")

        async with await opener() as store:
            session = await store.session("a")
            await session.attach("x", SMALL)
            before = await session.artifacts()
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
                    await session.attach(*arguments)
                assert caught.value.path == path
            with pytest.raises(RuntimeError, match="the source failed"):
                await session.attach("x", broken())
            for options, path in [({"media_type": ""}, "media_type"), ({"about": "me"}, "about")]:
                with pytest.raises(Invalid) as caught:
                    await session.attach("x", b"", **options)
                assert caught.value.path == path
            assert await session.artifacts() == before

    async def test_what_is_not_there_is_not_found(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(NotFound) as caught:
                await session.artifact("x")
            assert caught.value.path == "name"
            with pytest.raises(NotFound) as caught:
                await store.artifact("0" * 64)
            assert caught.value.path == "hash"
            for bad in ("", "0" * 7, "0" * 63, "../" * 20, "A" * 64, 7):
                with pytest.raises(Invalid) as caught:
                    await store.artifact(bad)  # type: ignore[arg-type]
                assert caught.value.path == "hash"

    async def test_another_tenants_artifact_is_not_found_in_the_same_words(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a second open of this store is another store")
        async with await opener(tenant="one") as one, await opener(tenant="two") as two:
            record = await (await one.session("a")).attach("x", LARGE)
            with pytest.raises(NotFound) as caught:
                await two.artifact(record.hash)
            with pytest.raises(NotFound) as absent:
                await two.artifact("0" * 64)
            assert str(caught.value).replace(record.hash, "0" * 64) == str(absent.value)
            assert await two.artifacts() == []
            assert await (await one.artifact(record.hash)).read() == LARGE

    async def test_pages_go_on_where_they_ended(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            a, b = await store.session("a"), await store.session("b")
            artifacts = []
            for i in range(7):
                artifacts.append(await (a if i % 2 else b).attach(f"f{i}", f"{i}"))
                if i % 3 == 0:
                    opener.clock.advance("1m")
            expected = sorted(artifacts, key=lambda one: one.at, reverse=True)
            listed: list[Any] = []
            page = await store.artifacts(limit=2)
            listed += page
            while page.next:
                page = await store.artifacts(limit=2, after=page.next)
                listed += page
            assert sorted(listed, key=lambda one: one.name) == artifacts
            assert [one.at for one in listed] == [one.at for one in expected]
            own = await a.artifacts(limit=2)
            rest = await a.artifacts(limit=2, after=own.next)
            assert [one.name for one in [*own, *rest]] == ["f5", "f3", "f1"]
            assert rest.next is None
            for listing in (a.artifacts, store.artifacts):
                with pytest.raises(Invalid) as caught:
                    await listing(after="nonsense")
                assert caught.value.path == "after"

    async def test_filters_across_sessions(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await (await store.session("a")).attach("a.json", b"{}")
            opener.clock.advance("1h")
            await (await store.as_("alice").session("b")).attach("b.txt", b"b")
            opener.clock.advance("1h")

            async def names(**filters: Any) -> list[str]:
                return [one.name for one in await store.artifacts(**filters)]

            assert await names() == ["b.txt", "a.json"]
            assert await names(media_type="text/plain") == ["b.txt"]
            assert await names(actor="alice") == ["b.txt"]
            assert await names(name="a.json") == ["a.json"]
            assert await names(since="90m") == ["b.txt"]
            assert await names(until="90m") == ["a.json"]
            assert await names(actor="alice", name="a.json") == []

    async def test_saving_to_a_file_is_all_or_nothing(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("a")
            record = await session.attach("x", LARGE)
            artifact = await session.artifact("x")
            target = tmp_path / "out.bin"
            assert await artifact.save(target) == target
            assert target.read_bytes() == LARGE
            target.write_bytes(b"older")
            damage_outside(store, record.hash)
            with pytest.raises(Damaged):
                await artifact.save(target)
            assert target.read_bytes() == b"older"
            assert names_like("out.bin", tmp_path) == ["out.bin"]

    async def test_a_missing_or_altered_content_is_damaged_and_named(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for name, content in (("small", SMALL), ("large", LARGE)):
                record = await session.attach(name, content)
                artifact = await session.artifact(name)
                raw = bytes.fromhex(record.hash)

                def alter(tx: Any, raw: bytes = raw) -> None:
                    tx.claim_blobs()
                    tx.drop_blobs([raw])
                    tx.keep_row((tx.tenant, raw, 3, 0, b"bad"))

                def lose(tx: Any, raw: bytes = raw) -> None:
                    tx.claim_blobs()
                    tx.drop_blobs([raw])

                for damage in (alter, lose):
                    await caller_of(store).write(damage)
                    await self._is_damaged(artifact, record.hash)

    async def test_a_content_lost_or_altered_outside_is_damaged_and_mended_by_attaching_it_again(
        self, opener: AsyncOpener
    ) -> None:
        async with await opener() as store:
            session = await store.session("a")
            record = await session.attach("x", LARGE)
            artifact = await session.artifact("x")
            for damage in (damage_outside, lose_outside):
                damage(store, record.hash)
                await self._is_damaged(artifact, record.hash)
                await session.attach("again", LARGE)
                assert await artifact.read() == LARGE

    async def test_inside_atomic_all_or_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")

            def both(tx: Any) -> bytes:
                tx.session("a").attach("s", SMALL)
                tx.session("a").attach("l", LARGE)
                return tx.session("a").artifact("l").read() + tx.session("a").artifact("s").read()

            assert await store.atomic(both) == LARGE + SMALL

            def fails(tx: Any) -> None:
                tx.session("a").attach("never", SMALL)
                raise RuntimeError

            with pytest.raises(RuntimeError):
                await store.atomic(fails)
            assert [one.name for one in await session.artifacts()] == ["l", "s"]

    async def test_a_fork_reads_its_parents_artifacts(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.attach("x", SMALL)
            await session.attach("x", b"later")
            fork = await session.fork(at=first.seq, name="try-b")
            assert await fork.artifact("x") == first
            mine = await fork.attach("x", LARGE)
            assert await fork.artifacts() == [mine, first]
            assert (await fork.artifacts(limit=1)).next is not None

    @staticmethod
    async def _is_damaged(artifact: Any, address: str) -> None:
        with pytest.raises(Damaged) as caught:
            await artifact.read()
        assert address in caught.value.path
        got: list[bytes] = []
        with pytest.raises(Damaged) as caught:
            await drain(artifact, got)
        assert address in caught.value.path
        assert sum(map(len, got)) < max(artifact.size, 1)
