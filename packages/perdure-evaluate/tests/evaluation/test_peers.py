"""Peers are installed on demand, each in an environment of its own; one that is missing is skipped with the way to get it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from evaluation import tiny
from perdure import errors
from perdure.cli.main import cli
from perdure_evaluate import peers
from perdure_evaluate.recovery import scorecard

SUBJECT = """
import json
from pathlib import Path

from perdure_evaluate.recovery.interface import Remembering


class Tiny(Remembering):
    about = "lives where the tiny peer is installed"
    peer = "tiny"

    def load(self):
        import tiny_peer

        assert tiny_peer.VERSION == 7
        path = self.place.folder / "all.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def keep(self, section, name, value):
        (self.place.folder / "all.json").write_text(json.dumps(self.kept))
"""


def evaluated(*words: str) -> Result:
    return CliRunner().invoke(cli, ["evaluate", *words], prog_name="perdure")


def asked(name: str, text: str) -> str:
    """What a line of Python says in a peer's interpreter."""
    command = [str(peers.python(name)), "-c", text]
    return subprocess.run(command, env=peers.environment(), capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def subject(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(SUBJECT)
    return str(path)


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tiny peer is known and not installed; and there is nowhere to get it from."""
    tiny.known(monkeypatch, tmp_path)
    return tiny.NAME


def test_a_peer_has_its_own_packages_first_and_ours_behind_them(tiny_peer: str) -> None:
    assert peers.installed(tiny_peer)
    assert asked(tiny_peer, "import tiny_peer; print(tiny_peer.VERSION)") == "7"
    assert asked(tiny_peer, "import click; print(click.OF)") == "the peer"
    assert asked(tiny_peer, "import perdure; print(perdure.__version__)")
    assert not hasattr(click, "OF")
    assert subprocess.run([sys.executable, "-c", "import tiny_peer"], capture_output=True, check=False).returncode


def test_it_is_installed_once(tiny_peer: str) -> None:
    told: list[str] = []
    peers.install(tiny_peer, told.append)
    assert told == []
    assert peers.lacking(tiny_peer, "get it") == ""


def test_an_installation_that_was_cut_off_is_none(missing: str) -> None:
    peers.python(missing).parent.mkdir(parents=True)
    peers.python(missing).touch()
    assert not peers.installed(missing)
    assert "`get it` gets it" in peers.lacking(missing, "get it")


def test_without_an_index_it_says_so_in_pips_own_words(missing: str, monkeypatch) -> None:
    monkeypatch.setitem(peers.PEERS, missing, peers.Peer(("no-such-package-anywhere==9",)))
    with pytest.raises(errors.Unavailable, match="no-such-package-anywhere") as raised:
        peers.install(missing, lambda _: None)
    assert "network" in raised.value.hint
    assert not peers.installed(missing)


def test_what_cannot_be_written_is_said(missing: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "file"))
    with pytest.raises(errors.Unavailable, match="nothing can be kept"):
        peers.install(missing, lambda _: None)


def test_new_pins_are_a_new_place(missing: str, monkeypatch) -> None:
    before = peers.place(missing)
    monkeypatch.setitem(peers.PEERS, missing, peers.Peer(("tiny-peer==2",)))
    assert peers.place(missing) != before


def test_the_users_cache_is_the_place(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PERDURE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert peers.place("dbos").is_relative_to(tmp_path / "perdure" / "peers")


def test_pins_are_exact() -> None:
    assert all("==" in package for peer in peers.PEERS.values() for package in peer.packages)


@pytest.mark.parametrize("name", ["", "nobody", "../dbos", "x" * 10_000])
def test_a_peer_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(errors.Invalid) as raised:
        peers.installed(name)
    assert len(str(raised.value)) < 300


# -- in an evaluation --------------------------------------------------------------------------------------------


def test_a_life_is_lived_where_its_peer_is(tiny_peer: str, subject: str) -> None:
    words = ("--json", "--install-peers")
    assert evaluated("--case", f"{subject}/support/none/-", *words).exit_code == 0
    result = evaluated("--case", f"{subject}/support/kill/mail:sent", *words)
    assert json.loads(result.stdout)["score"]["duplicates"] == 1


def test_the_line_that_replays_a_failure_tries_until_it_is_seen(tiny_peer: str, subject: str, tmp_path: Path) -> None:
    line = scorecard.replay(subject, f"{subject}/support/kill/mail:sent", tmp_path / "out")
    assert "--tries 20" in line
    assert evaluated(*shlex.split(line)[2:]).exit_code == 1
    assert "--tries" not in scorecard.replay("json-file", "json-file/support/kill/mail:sent", tmp_path)


def test_a_missing_peer_is_skipped_and_never_passed(missing: str, subject: str, tmp_path: Path) -> None:
    words = ("--subjects", subject, "--tasks", "relay-5", "--faults", "none", "--json")
    result = evaluated(*words, "--must-hold", subject, "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert "perdure evaluate --install-peers" in found["skipped"][f"subject {subject}"]
    assert found["subjects"] == {}


def test_a_peer_that_cannot_be_had_is_skipped_with_the_reason(missing: str, subject: str, tmp_path: Path) -> None:
    words = (
        "--subjects",
        f"{subject},json-file",
        "--tasks",
        "relay-5",
        "--faults",
        "none",
        "--json",
        "--install-peers",
    )
    found = json.loads(evaluated(*words, "--budget", "1ms", "--out", str(tmp_path / "out")).stdout)
    assert "could not be installed" in found["skipped"][f"subject {subject}"]
    assert "json-file" in found["subjects"]


def test_a_case_of_a_missing_peer_says_how_to_get_it(missing: str, subject: str) -> None:
    result = evaluated("--case", f"{subject}/support/none/-")
    assert result.exit_code == errors.Invalid.exit_code
    assert "perdure evaluate --install-peers" in result.stderr


def test_a_subject_of_an_unknown_peer_starts_nothing(subject: str, tmp_path: Path) -> None:
    Path(subject).write_text(SUBJECT.replace('"tiny"', '"nobody"'))
    result = evaluated("--subjects", subject, "--out", str(tmp_path / "out"))
    assert result.exit_code == errors.Invalid.exit_code
    assert not (tmp_path / "out").exists()
