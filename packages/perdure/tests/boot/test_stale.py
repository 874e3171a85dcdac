"""What is stale is marked wherever it stands, and nothing that is fresh is: memories, values, decisions, tasks, the section."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import perdure
from hostile_http import WHOLE, RawServer, cuts
from perdure.boot import agents_md, stale
from perdure_testing.clock import FakeClock

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
EACH = 250  # of memories, values, decisions and tasks: a thousand in all
PLANTED = 20  # of each of these kinds in each way


def commit(folder: Path) -> None:
    subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "x"], cwd=folder, check=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with files and branches, some of which are going to change."""
    subprocess.run([*GIT, "init", "-q", "."], cwd=tmp_path, check=True)
    commit(tmp_path)
    for name in ("firm", "gone"):
        subprocess.run([*GIT, "branch", name], cwd=tmp_path, check=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def write(session: perdure.Session, kind: str, text: str, checks: list[Any]) -> None:
    if kind == "memory":
        session.remember(text, checks=checks)
    elif kind == "value":
        session.set(text, text, checks=checks)
    elif kind == "decision":
        session.decide(text, because="x", checks=checks)
    else:
        session.task(text, checks=checks)


KINDS = ("memory", "value", "decision", "task")


def furnish(store: perdure.Store, workspace: Path, clock: FakeClock) -> dict[str, set[str]]:
    """A thousand fresh things, and stale ones by the way in which they are going to be; returns the names of all."""
    session = store.session("s")
    where = str(workspace)
    old = {kind: [f"age {kind} {i}" for i in range(PLANTED)] for kind in KINDS}
    for kind, names in old.items():
        for name in names:
            write(session, kind, name, [perdure.Age("30d")])
    clock.advance(31 * 86_400)
    firm = [perdure.FileHash("firm", folder=where), perdure.GitRef("firm", folder=where), perdure.Age("30d")]
    for kind in KINDS:
        for i in range(EACH):
            write(session, kind, f"fresh {kind} {i}", firm)
        for i in range(PLANTED):
            write(session, kind, f"file {kind} {i}", [perdure.FileHash("gone", folder=where)])
            write(session, kind, f"branch {kind} {i}", [perdure.GitRef("gone", folder=where)])
            write(session, kind, f"commit {kind} {i}", [perdure.AtCommit(folder=where)])
    ways = ("age", "file", "branch", "commit")
    planted = {f"{way} {kind} {i}" for way in ways for kind in KINDS for i in range(PLANTED)}
    return {"fresh": {f"fresh {kind} {i}" for kind in KINDS for i in range(EACH)}, "planted": planted}


def stood(store: perdure.Store) -> dict[str, str]:
    """Every thing by its text, and how it stands."""
    return {each.text: each.standing.value for each in store.checked()}


def test_all_that_was_planted_is_stale_and_nothing_that_is_fresh(workspace: Path) -> None:
    clock = FakeClock()
    with perdure.open("memory://", clock=clock) as store:
        names = furnish(store, workspace, clock)
        before = stood(store)
        assert {before[name] for name in names["fresh"]} == {"holds"}  # the control: nothing has changed yet
        assert {name for name, held in before.items() if held == "stale"} == {
            name for name in names["planted"] if name.startswith("age")
        }
        (workspace / "gone").write_text("other")
        subprocess.run([*GIT, "branch", "-q", "-D", "gone"], cwd=workspace, check=True)
        commit(workspace)
        after = stood(store)
        assert {name for name, held in after.items() if held == "stale"} == names["planted"]
        assert {after[name] for name in names["fresh"]} == {"holds"}
        check_pack(store.session("s").boot(budget=400_000), names)


def check_pack(pack: Any, names: dict[str, set[str]]) -> None:
    """What the pack shows of them is marked, or behind what holds."""
    said = {each.id: each.said for each in pack.manifest.shown}
    text = pack.text
    for block in text.split("\n~~~ ")[1:]:
        heading, _, rest = block.partition("\n")
        name = rest.split("\n")[0]
        if name in names["planted"]:
            assert "stale" in heading, heading
        elif name in names["fresh"]:
            assert "stale" not in heading, heading
    assert sum("stale" in each for each in said.values()) > 100


def test_a_dead_claimer_and_an_old_section_are_marked(tmp_path: Path) -> None:
    clock = FakeClock()
    with perdure.open("memory://", clock=clock) as store:
        session = store.session("s")
        for number in range(PLANTED):
            session.task(f"left {number}").claim(ttl="1s")
            session.task(f"held {number}").claim(ttl="1d")
        agents_md.keep(tmp_path / "AGENTS.md", session.boot())
        clock.advance(5)
        session.say("user", "still here")
        assert {each.text for each in store.checked()} == {f"left {number}" for number in range(PLANTED)}
        pack = session.boot(budget=20_000)
        free = [each.id for each in pack.manifest.shown if each.said.startswith("its claimer is gone")]
        assert len(free) == PLANTED
        section = agents_md.found_in(agents_md.read(tmp_path / "AGENTS.md"))
        assert agents_md.standing(section, pack.manifest)[0] is agents_md.SectionStanding.OLDER
        agents_md.keep(tmp_path / "AGENTS.md", pack)
        section = agents_md.found_in(agents_md.read(tmp_path / "AGENTS.md"))
        assert agents_md.standing(section, session.boot().manifest)[0] is agents_md.SectionStanding.CURRENT


# -- pages ---------------------------------------------------------------------------------------------------


class Pages(BaseHTTPRequestHandler):
    """A server that knows a page with an ETag, one without, one that is gone, one that leads away, and one that never answers."""

    etag = '"1"'
    asked: list[str] = []  # noqa: RUF012 - emptied by the fixture
    hold = Event()

    def do_HEAD(self) -> None:
        """Answer one request."""
        self.asked.append(self.path)
        if self.path.startswith("/docs/hangs"):
            self.hold.wait(60)
        self.send_response({"/docs/gone": 404, "/docs/away": 302}.get(self.path, 200))
        if self.path != "/docs/plain":
            self.send_header("ETag", self.etag)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's word
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    Pages.etag, Pages.asked = '"1"', []
    Pages.hold.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Pages.hold.set()
    server.shutdown()
    server.server_close()


def test_a_page_is_asked_for_only_below_an_address_that_was_allowed(site: str) -> None:
    with perdure.open("memory://") as store:
        session = store.session("s")
        for name in ("here", "gone", "plain", "away"):
            session.set(name, name, checks=[perdure.UrlEtag(f"{site}/docs/{name}", etag='"1"')])
        assert set(stood(store).values()) == {"unknown"}
        for urls in ([site + "/doc"], [f"{site}/docs/here/"], ["http://127.0.0.1/docs/"], [f"{site[:-1]}/docs"]):
            assert {each.standing.value for each in store.checked(urls=urls)} == {"unknown"}
        assert Pages.asked == []
        found = {each.name: each.standing.value for each in store.checked(urls=[f"{site}/docs"])}
        assert found == {"here": "holds", "gone": "stale", "plain": "unknown", "away": "unknown"}
        Pages.etag = '"2"'
        found = {each.name: each.standing.value for each in store.checked(urls=[f"{site}/docs"])}
        assert found["here"] == "stale"


def test_an_etag_is_taken_when_it_is_written(site: str) -> None:
    with perdure.open("memory://") as store:
        session = store.session("s")
        memory = session.remember("the docs say so", checks=[perdure.UrlEtag(f"{site}/docs/here")])
        assert memory.record.checks == (perdure.UrlEtag(f"{site}/docs/here", etag='"1"'),)
        for name in ("gone", "plain"):
            with pytest.raises(perdure.Invalid) as raised:
                session.remember("x", checks=[perdure.UrlEtag(f"{site}/docs/{name}")])
            assert raised.value.path.startswith("checks[0]")
        for odd in ("ftp://x/", "x", ""):
            with pytest.raises(perdure.Invalid):
                session.remember("x", checks=[perdure.UrlEtag(odd, etag="1")])


def test_a_page_that_never_answers_is_unknown_and_keeps_no_other_check(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale, "PAGE_SECONDS", 0.5)
    with perdure.open("memory://") as store:
        session = store.session("s")
        for number in range(12):
            session.set(f"hangs{number}", 1, checks=[perdure.UrlEtag(f"{site}/docs/hangs?{number}", etag="1")])
        session.set("file", 1, checks=[perdure.Age("1d")])
        found = {each.name: each.standing.value for each in store.checked(urls=[f"{site}/"])}
        assert found.pop("file") == "holds"
        assert set(found.values()) == {"unknown"}


@pytest.mark.parametrize("answer", [WHOLE["404"], b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\nETag: "abcdef"\r\n\r\n'])
def test_an_answer_that_is_cut_tells_nothing_about_a_page(answer: bytes) -> None:
    """Half a 404 was a page that is gone, half an ETag one that has changed. Control: the whole answer."""
    with RawServer() as server, perdure.open("memory://") as store:
        store.session("s").set("page", 1, checks=[perdure.UrlEtag(f"{server.url}/page", etag='"abcdef"')])

        def standing(sent: bytes) -> str:
            server.answers = [sent]
            return next(iter(store.checked(urls=[server.url]))).standing.value

        assert {standing(each) for each in cuts(answer)} == {"unknown"}
        assert standing(answer) == ("stale" if b"404" in answer else "holds")
