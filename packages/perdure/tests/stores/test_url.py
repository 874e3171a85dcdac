"""Store URLs: what is understood, and what is refused with the path of what is wrong (P10, P15)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.errors import Error, Invalid
from perdure.stores import url as urls


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///agent.db", "agent.db"),
        ("sqlite:////srv/agent.db", "/srv/agent.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("sqlite:///folder/agent.db", "folder/agent.db"),
        ("sqlite:///100%25.db", "100%.db"),
    ],
)
def test_sqlite(text, path):
    address = urls.parse(text)
    assert (address.scheme, address.path) == ("sqlite", Path(path).absolute())


def test_a_store_stays_where_it_was_opened(tmp_path, monkeypatch):
    """A program that changes its folder must not write into another store of the same name there."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        perdure.open("sqlite:///agent.db").close()
    with perdure.open("sqlite:///agent.db") as store:
        monkeypatch.chdir(tmp_path / "here")
        store.session("a").say("user", "x")
        assert [each.name for each in store.sessions()] == ["a"]
    with perdure.open("sqlite:///agent.db") as other:
        assert other.sessions() == []


def test_a_file_may_have_a_name_that_means_something_else_to_sqlite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:a.db"):
        for _ in range(2):
            with perdure.open(f"sqlite:///{name}") as store:
                store.session("a").say("user", "x")
        with perdure.open(f"sqlite:///{name}") as store:
            assert len(store.session("a").turns()) == 2
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("text", ["memory:", "memory://"])
def test_memory(text):
    assert urls.parse(text).scheme == "memory"


def test_postgres_keeps_what_is_its_own():
    address = urls.parse("postgresql://me:p%40ss@db.example:5433/app?schema=agents&sslmode=require")
    assert address.schema == "agents"
    assert address.conninfo == "postgresql://me:p%40ss@db.example:5433/app?sslmode=require"


@pytest.mark.parametrize(
    "conninfo",
    [
        "postgresql://",
        "postgresql:///agents",
        "postgresql:///agents?host=/run/postgresql",
        "postgresql://me@/agents?host=%2Frun%2Fpostgresql&port=5433",
        "postgresql://me:p#a+b@host/agents?options=-c%20geqo%3Doff",
        "postgres://one:1,two:2/agents?target_session_attrs=read-write",
    ],
)
def test_postgres_gets_what_was_written(conninfo):
    assert urls.parse(conninfo).conninfo == conninfo
    joint = "&" if "?" in conninfo else "?"
    assert urls.parse(f"{conninfo}{joint}schema=mine&artifacts=file:///b").conninfo == conninfo


def test_an_option_that_does_not_exist_yet_is_not_swallowed():
    assert urls.parse("postgresql://h/d?hot=1").conninfo == "postgresql://h/d?hot=1"


def test_places_for_artifacts():
    assert urls.parse("sqlite:///a.db?artifacts=file:///blobs").artifacts == "file:///blobs"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent.db",
        "http://x",
        "sqlite://",
        "sqlite:///",
        "sqlite:agent.db",
        "sqlite://agent.db",
        "sqlite:///a.db?x=1",
        "mysql://a/b",
        "sqlite:///a\0b.db",
        "sqlite:///a%00b.db",
        "files:///a%00b",
        "sqlite:///a.db\n",
        "postgresql://me@h/d\r\n",
        "memory:\n",
        "sqlite:///a\udcff.db",
        "postgresql://[h/d",
        "redis:",
        7,
        None,
        b"sqlite:///a.db",
        "postgresql://h/d?schema=A",
        "postgresql://h/d?schema=pg_x",
        "postgresql://h/d?schema=a;drop",
        "postgresql://h/d?schema=",
        "x" * 10_000,
    ],
)
def test_anything_else_is_refused_with_its_path(text):
    with pytest.raises(Invalid) as caught:
        urls.parse(text)
    assert caught.value.path.startswith("store")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("agent.db", "sqlite:///agent.db"),
        ("./state/agent.db", "sqlite:///./state/agent.db"),
        ("/srv/agent.db", "sqlite:////srv/agent.db"),
        ("/", "files:////"),
        ("/" + "x" * 5_000, "sqlite:////" + "x" * 79),
        ("sqlite:agent.db", "sqlite:///agent.db"),
        ("sqlite:/agent.db", "sqlite:///agent.db"),
        ("files:/state", "files:///state"),
    ],
)
def test_a_bare_path_and_a_slash_too_few_are_told_what_was_meant(text, meant):
    with pytest.raises(Invalid) as caught:
        urls.parse(text)
    assert caught.value.hint == f"did you mean {meant} ?"


def test_a_line_end_is_told_with_its_place_and_not_made_part_of_a_name():
    with pytest.raises(Invalid, match="control character at 17") as caught:
        urls.parse("sqlite:///kept.db\n")
    assert "line end" in caught.value.hint


def test_a_path_that_is_no_text_is_told_so():
    with pytest.raises(Invalid, match="got PosixPath"):
        urls.parse(Path("agent.db"))  # type: ignore[arg-type]


@given(st.text(max_size=60), st.sampled_from(["", "sqlite://", "sqlite:///", "postgresql://", "memory:", "x://"]))
def test_no_text_gives_anything_but_an_address_or_an_error_of_the_tree(text, start):
    with contextlib.suppress(Error):
        assert urls.parse(start + text).scheme in ("memory", "sqlite", "postgresql")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@h/d", "postgresql://me:***@h/d"),
        ("postgresql://me@h/d", "postgresql://me@h/d"),
        ("postgresql://me:se:c@ret@h/d", "postgresql://***"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://me:s/ec@h/d", "postgresql://***"),
        ("postgresql://a:1,[::1]:2/d?sslmode=require&hot=1", "postgresql://a:1,[::1]:2/d?sslmode=require&***"),
        ("postgresql://me:p#a%2Fb@h,i:5433/d?pass%77ord=x", "postgresql://me:***@h,i:5433/d?pass%77ord=***"),
        ("sqlite:////srv/a b@c:d.db?artifacts=file:///x", "sqlite:////srv/a b@c:d.db?artifacts=file:///x"),
        ("memory:", "memory:"),
        ("postgresql://h/d?password=secret", "postgresql://h/d?password=***"),
    ],
)
def test_a_shown_url_is_as_it_was_but_for_its_password(text, shown):
    assert urls.without_password(text) == shown


SECRET = "hunter2"
MALFORMED = [
    "postgresql://me:{}@h/d", "postgresql://me:{}@h:5433/d?sslmode=require", "postgresql://:{}@h/d", "me:{}@h/d",
    "postgresql://me:{}", "postgresql://me:@{}?@h/d", "postgresql://me:1?{}=x@h/d",
    "postgresql:me:{}@h/d", "postgresql:/me:{}@h/d", "postgres//me:{}@h/d", "postgresql:///me:{}@h/d", "postgresql://me:{}/d",
    "postgresql://me:x@{}@h/d", "postgresql://me:x/{}@h/d", "postgresql://me:x?{}@h/d", "postgresql://me:x#{}@h/d",
    "postgresql://me:\uff03{}@h/d", "postgresql://me:[{}@h/d", "postgresql://h/d?password={}", "postgresql://h/d?pass%77ord={}",
    "postgresql://h/d?PASSWORD={}", "postgresql://h/d?sslpassword={}", "postgresql://h/d?schema=a&passw%6Frd={}",
    "postgresql://h/d?{}", "postgresql://h/d?password=a=b{}", "postgresql://h/d?password={};x", "host=h password={} user=me",
    "host=h password='{} x'", "mysql://me:{}@h/d", "hunter://me:{}@h/d", "{}://h", "me:{}://h", "sqlite:me:{}@h",
    "sqlite:///a.db?password={}", "sqlite:///a.db?artifacts=s3://key:{}@bucket", "sqlite:///a.db?artifacts=s3%3A%2F%2Fkey%3A{}%40bucket",
    "files:///a?artifacts=s3://k/b?secret_access_key={}", "postgresql://h/d?artifacts=s3://key:{}@b", "postgresql://h/d?token={}",
    "postgresql://me:{}@h/d?schema=A", "postgresql://me:{}@[h/d", "postgresql://me:{}@h:port/d", "postgresql://me:{}@h/d?nosuch=1",
    "postgresql://me:{}@h/d?sslmode=bogus", "postgresql://me:{}%zz@h/d", "redis://:{}@h", "https://h?token={}", "{}@h",
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_no_url_shows_its_secret_however_malformed(text, tmp_path, monkeypatch):
    """Neither as it is shown, nor in what is said when it is refused or does not answer."""
    monkeypatch.chdir(tmp_path)
    url = text.format(SECRET)
    assert SECRET not in urls.without_password(url) or url in ("hunter2://h", "hunter2@h")
    with pytest.raises(Exception) as caught:
        perdure.open(url, timeout=0.1, read_only=True)
    said: BaseException | None = caught.value
    assert isinstance(said, Error), said
    assert SECRET not in repr(said.as_record()) + str(said) or url == "hunter2://h"


@given(st.text("abc:/@?&=#%'[] ", max_size=20), st.text("abc:/@?&=#%'[] ", max_size=20))
def test_a_password_before_an_at_is_never_shown(before, after):
    assert SECRET not in urls.without_password(f"postgresql://me:{before}{SECRET}{after}@h/d")
