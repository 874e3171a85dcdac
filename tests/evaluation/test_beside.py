"""Peers beside our figures: measured in their own environment; what is missing or broken says so and changes nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from perdure.doors.cli.main import cli
from perdure.evaluation import peers
from perdure.evaluation.bench import beside, run
from perdure.evaluation.bench.beside import Counterpart
from perdure.evaluation.bench.case import Context, Figure, at_most

FIGURE = at_most("disk after all", 1.0, 5, "MB")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path, None, 0.01)


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "PROGRAMS", "tiny_programs")


def added(
    monkeypatch: pytest.MonkeyPatch, context: Context, lacking: dict[str, str], *counterparts: Counterpart
) -> Figure:
    monkeypatch.setattr(beside, "COUNTERPARTS", list(counterparts))
    return beside.added("disk", [FIGURE], context, lacking)[0]


def test_a_rate_stands_beside_the_floor(tiny_peer: str, monkeypatch, context: Context) -> None:
    own = Counterpart("disk", "disk", tiny_peer, "turns", "a file", 2_000, beside.rate, 20_000)
    found = added(monkeypatch, context, {}, own).peers[tiny_peer]
    assert found.value is not None
    assert 0 < found.value < 7
    assert found.detail.startswith("a file: 7/s of ")
    assert "2,000 where ours are 20,000" in found.detail


def test_what_it_leaves_on_disk(tiny_peer: str, monkeypatch, context: Context) -> None:
    found = added(
        monkeypatch, context, {}, Counterpart("disk", "disk", tiny_peer, "turns", "a file", 20_000, beside.disk)
    )
    assert found.peers[tiny_peer].value == pytest.approx(200 / 1e6)
    assert found.met


def test_syncs_are_counted_by_the_kernel(tiny_peer: str, monkeypatch, context: Context) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    own = Counterpart("disk", "disk", tiny_peer, "turns", "a file", 100, beside.syncs)
    assert added(monkeypatch, context, {}, own).peers[tiny_peer].value == 0


def test_a_program_that_fails_says_why(tiny_peer: str, monkeypatch, context: Context) -> None:
    own = Counterpart("disk", "disk", tiny_peer, "broken", "a file", 100, beside.disk)
    found = added(monkeypatch, context, {}, own)
    assert found.peers[tiny_peer].value is None
    assert "it does not work today" in found.peers[tiny_peer].detail
    assert found.value == FIGURE.value


def test_a_missing_peer_is_said_to_be_so(monkeypatch, context: Context) -> None:
    own = Counterpart("disk", "disk", "dbos", "turns", "a file", 100, beside.disk)
    found = added(monkeypatch, context, {"dbos": "it is not installed; `x` gets it"}, own)
    assert found.peers["dbos"].value is None
    assert "`x` gets it" in found.peers["dbos"].detail


def test_every_counterpart_stands_beside_a_case_and_has_a_program() -> None:
    for each in beside.COUNTERPARTS:
        assert each.case in run.CASES
        assert each.peer in peers.PEERS
        path = Path(beside.__file__).parent / "peers" / f"{each.peer.replace('-', '_')}.py"
        assert f"{each.program}={each.program}" in path.read_text()


# -- at the door -------------------------------------------------------------------------------------------------


def benched(*words: str) -> Result:
    return CliRunner().invoke(cli, ["bench", "--case", "disk", "--scale", "0.05", *words], prog_name="perdure")


@pytest.fixture
def beside_disk(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tiny peer has something to be put beside the disk."""
    own = Counterpart("disk", "disk", "tiny", "turns", "a file", 4_000, beside.disk)
    monkeypatch.setattr(beside, "COUNTERPARTS", [own])
    monkeypatch.setattr(beside, "NAMES", ("tiny",))
    return beside


def test_a_peer_has_a_column_of_its_own(tiny_peer: str, beside_disk: ModuleType) -> None:
    result = benched("--peers")
    assert result.exit_code == 0, result.output
    assert tiny_peer in result.stdout.splitlines()[0].split()
    assert "0.0002 MB" in result.stdout
    assert "a file: 200 turns" in result.stderr
    assert tiny_peer not in benched().stdout


def test_for_machines(tiny_peer: str, beside_disk: ModuleType) -> None:
    figure = json.loads(benched("--peers", "--json").stdout)["figures"][0]
    assert figure["peers"][tiny_peer]["unit"] == "MB"


def test_a_peer_that_cannot_be_had_leaves_the_rest_as_it_is(
    monkeypatch, tmp_path: Path, tiny_peer: str, beside_disk: ModuleType
) -> None:
    monkeypatch.setenv("PERDURE_CACHE", str(tmp_path / "empty"))
    result = benched("--peers")
    assert result.exit_code == 0
    assert "not measured" in result.stdout
    assert f"`{beside.HOW}` gets it" in result.stderr
