"""A store remembers where its large blobs lie, and says so when that place is not given (P10, P15)."""

from __future__ import annotations

import os
import shutil

import pytest

import perdure
from installed import stores_here
from perdure.errors import Damaged, Refused, Unavailable
from perdure.stores import artifact_places

CONTENT = os.urandom(3_000_000)


@pytest.fixture(params=stores_here("sqlite", "files", "postgres"))
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"{request.param}:///{tmp_path}/desk/a{'.db' if request.param == 'sqlite' else ''}"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "desk").mkdir()
    return f"file://{tmp_path}/away"


@pytest.fixture
def artifact(url, place):
    with perdure.open(url, artifacts=place) as store:
        return store.session("s").attach("build.log", CONTENT).hash


def test_a_store_that_was_not_given_its_place_says_which_it_is(url, place, artifact, tmp_path):
    with perdure.open(url) as store:
        for ask in (
            store.artifact(artifact).read,
            lambda: store.session("s").attach("again.log", CONTENT[::-1]),
            store.verify,
        ):
            with pytest.raises(Refused) as refused:
                ask()
            assert place in refused.value.hint
        store.session("s").say("user", "small things need no place")
    assert not list((tmp_path / "desk").glob("**/*.blobs"))
    with perdure.open(url, artifacts=place) as store:
        assert store.artifact(artifact).read() == CONTENT
        assert store.verify().ok


def test_a_place_that_is_not_there_is_not_damage(url, place, artifact, tmp_path):
    (tmp_path / "away").rename(tmp_path / "unmounted")
    with perdure.open(url, artifacts=place) as store:
        with pytest.raises(Unavailable):
            store.artifact(artifact).read()
        with pytest.raises(Unavailable):
            store.verify()


def test_a_blob_that_is_lost_from_its_place_is_damage(url, place, artifact, tmp_path):
    for file in (tmp_path / "away").glob(f"**/*{artifact[2:]}*"):
        file.unlink()
    with perdure.open(url, artifacts=place) as store:
        with pytest.raises(Damaged):
            store.artifact(artifact).read()
        assert not store.verify().ok


def test_a_place_to_which_everything_was_taken_is_the_new_one(url, place, artifact, tmp_path):
    shutil.move(tmp_path / "away", tmp_path / "moved")
    with perdure.open(url, artifacts=f"file://{tmp_path}/wrong") as store, pytest.raises(Unavailable):
        store.artifact(artifact).read()
    with perdure.open(url) as store, pytest.raises(Refused, match="away"):  # a wrong place is not remembered
        store.artifact(artifact).read()
    with perdure.open(url, artifacts=f"file://{tmp_path}/moved") as store:
        assert store.artifact(artifact).read() == CONTENT
    with perdure.open(url) as store, pytest.raises(Refused, match="moved"):
        store.artifact(artifact).read()


def test_a_place_below_the_folder_of_the_store_is_remembered_by_its_way_there(tmp_path):
    (tmp_path / "one").mkdir()
    with perdure.open(f"sqlite:///{tmp_path}/one/a.db", artifacts=f"file://{tmp_path}/one/big files") as store:
        address = store.session("s").attach("x", CONTENT).hash
        assert str(tmp_path) not in store._caller.core.facts.get(artifact_places.FACT, "")
    (tmp_path / "one").rename(tmp_path / "two")
    with perdure.open(f"sqlite:///{tmp_path}/two/a.db") as store, pytest.raises(Refused) as refused:
        store.artifact(address).read()
    assert f"file://{tmp_path}/two/big%20files" in refused.value.hint


def test_the_default_place_needs_no_remembering(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        address = store.session("s").attach("x", CONTENT).hash
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        assert store.artifact(address).read() == CONTENT
        assert artifact_places.FACT not in store._caller.core.facts


def test_a_restored_copy_has_a_place_of_its_own(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", artifacts=f"file://{tmp_path}/away") as store:
        address = store.session("s").attach("x", CONTENT).hash
        store.backup(tmp_path / "backup")
    perdure.restore(tmp_path / "backup", f"sqlite:///{tmp_path}/b.db")
    with perdure.open(f"sqlite:///{tmp_path}/b.db") as store:
        assert store.artifact(address).read() == CONTENT
