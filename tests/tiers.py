"""A plugin of pytest: which slow tests a run takes, and how much CPU each test needs.

`slow.txt` lists the slow tests, each with its seconds of CPU, and says at which commit everything was proved. `make prove` alone
writes it. `make test` (`--slow=due`) takes everything that is not listed, the tenth of the listed tests that is longest unproved,
and each listed test whose package changed since the commit of the list. With CI=true, and for a caller who names tests
(`--slow=all`), all run. The summary counts what was left out. `.cache/proved.json` has when each listed test passed here.

The CPU of a test is that of this process, of its children that ended, and of programs that `forked` ended. It lacks the servers
of PostgreSQL, which all tests share, and processes that outlive their test or whose parent died first. Fixtures that many tests
share count for none. Callers: the root's `conftest.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import forked

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "slow.txt"
RECORD = ROOT / ".cache" / "proved.json"
FIGURES = ROOT / ".cache" / "cpu.txt"  # of all tests of the last proof, also of one that was broken off
SLOW_ABOVE, QUICK_BELOW = 2.0, 1.0  # CPU seconds: between the two, a test stays what it was
STEADY = 1.5  # a figure changes in the list when it is wrong by this factor
DUE, ALL, PROVE = "due", "all", "prove"
CONTRACT = "/test_contract.py::"  # the contract is never left out, and never listed
WORKSPACE = "tests"  # what tests outside of the packages belong to
OF_WORKSPACE = ("tests", "tools", "examples", "clients", "benchmarks")
FOR_ALL = ("requirements", "conftest.py", "pyproject.toml")  # a change here may change every package
HEAD = """\
# Tests that need more than 2 seconds of CPU, each with its seconds. A test leaves the list below 1. `make prove` alone writes it.
"""


class SlowList(NamedTuple):
    """The list: the seconds of each slow test, and the commit and date of the last full proof; empty if there was none."""

    seconds: dict[str, int]
    commit: str = ""
    date: str = ""

    @classmethod
    def read(cls, path: Path = LIST) -> SlowList:
        """The list of a file; an empty one if there is no file."""
        lines = path.read_text().splitlines() if path.exists() else []
        proved = next((line.split()[2:] for line in lines if line.startswith("# proved ")), [])
        rows = (line.split(" ", 1) for line in lines if not line.startswith("#"))
        return cls({name: int(seconds) for seconds, name in rows}, *proved)

    def write(self, path: Path = LIST) -> None:
        """Write it to a file, sorted by name."""
        proved = f"# proved {self.commit} {self.date}\n" if self.commit else ""
        rows = (f"{seconds} {name}\n" for name, seconds in sorted(self.seconds.items()))
        path.write_text("".join((HEAD, proved, *rows)))

    def after(self, costs: Mapping[str, float], files: Collection[str]) -> dict[str, int]:
        """The seconds of slow tests after a run, which had figures of the tests that passed. files: those of which each test
        was seen; what they do not have any more leaves the list, and all else stays what it was."""
        stay = {name: seconds for name, seconds in self.seconds.items() if file_of(name) not in files}
        return stay | {
            name: self._figure(name, cost)
            for name, cost in costs.items()
            if cost > (QUICK_BELOW if name in self.seconds else SLOW_ABOVE) and CONTRACT not in name
        }

    def _figure(self, name: str, cost: float) -> int:
        before = self.seconds.get(name, 0)
        return before if before / STEADY <= cost <= before * STEADY else max(1, round(cost))


def file_of(name: str) -> str:
    """The file of a test."""
    return name.partition("::")[0]


def package_of(name: str) -> str:
    """The package that a test or file belongs to; "" if it belongs to none."""
    folder, _, rest = name.partition("/")
    if folder == "packages":
        return rest.partition("/")[0]
    return WORKSPACE if folder in OF_WORKSPACE else ""


def changed_packages(paths: Collection[str]) -> Callable[[str], bool]:
    """Whether a package is changed, if these files are."""
    changed = {package_of(path) for path in paths if path != str(LIST.relative_to(ROOT))}
    is_all = any(path.partition("/")[0] in FOR_ALL for path in paths)
    return lambda package: is_all or package in changed


def changed_files(commit: str) -> list[str] | None:
    """The files that differ from those of a commit; None if git cannot say."""
    asked = (["diff", "--name-only", "-z", commit, "--"], ["ls-files", "--others", "--exclude-standard", "-z"])
    try:
        answers = [
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, text=True) for words in asked
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return [path for answer in answers for path in answer.stdout.split("\0") if path]


def left_out(slow: Collection[str], is_changed: Callable[[str], bool], proved: Mapping[str, float]) -> set[str]:
    """The slow tests that need not run: those of packages that did not change, without the tenth that is longest unproved."""
    order = sorted(slow, key=lambda name: (proved.get(name, 0.0), zlib.crc32(name.encode())))
    due = set(order[: -(-len(order) // 10)])
    return {name for name in slow if name not in due and not is_changed(package_of(name))}


def not_needed(listed: SlowList) -> set[str]:
    """The slow tests that a run of everything due leaves out here."""
    changed = changed_files(listed.commit) if listed.commit else None
    return set() if changed is None else left_out(listed.seconds, changed_packages(changed), read_record())


def read_record() -> dict[str, float]:
    """When each slow test passed here."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def write_record(record: Mapping[str, float]) -> None:
    """Write it, whole or not at all."""
    RECORD.parent.mkdir(exist_ok=True)
    draft = RECORD.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(record, indent=0, sort_keys=True))
    draft.replace(RECORD)


def cpu_seconds() -> float:
    """The CPU that this process, its children that ended and the programs of `forked` that ended have used."""
    return sum(os.times()[:4]) + forked.cpu_seconds()


class Costs:
    """Measures each test where it runs: each report of an end has the test's CPU."""

    def __init__(self) -> None:
        self._begin = self._shared = 0.0
        self._depth = 0
        self._is_last = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._begin, self._shared = cpu_seconds(), 0.0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """A fixture that many tests share is the cost of none."""
        if fixturedef.scope == "function":
            return (yield)
        before, outermost = cpu_seconds(), self._depth == 0
        self._depth += 1
        try:
            return (yield)
        finally:
            self._depth -= 1
            self._shared += (cpu_seconds() - before) * outermost

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Iterator[None]:
        """After the last test everything that was shared ends, which is not the cost of that test."""
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            self._shared += (cpu_seconds() - before) * (nextitem is None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: Any = yield
        if call.when == "teardown":
            report.user_properties.append(("cpu_seconds", cpu_seconds() - self._begin - self._shared))
        return report


class Choice:
    """Leaves out, where tests are collected, the tests that need not run."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = set(names)
        self.left_out: list[str] = []
        self.collected: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self.collected = {item.nodeid for item in items}
        gone = [item for item in items if item.nodeid in self._names]
        self.left_out = [item.nodeid for item in gone]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item.nodeid not in self._names]


class Summary:
    """Collects in the one process that reports; writes the list and the record at the end, and says what was left out."""

    def __init__(self, choice: Choice, *, is_proof: bool) -> None:
        self._choice, self._is_proof = choice, is_proof
        self._listed = SlowList.read()
        self._left_out: Collection[str] = ()
        self._costs: dict[str, float] = {}
        self._did_not_pass: set[str] = set()
        FIGURES.parent.mkdir(exist_ok=True)
        self._figures = FIGURES.open("w", buffering=1) if is_proof else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._did_not_pass.add(report.nodeid)
        if report.when == "teardown":
            self._costs[report.nodeid] = cost = float(str(dict(report.user_properties).get("cpu_seconds", 0.0)))
            if self._figures is not None:
                self._figures.write(f"{cost:.2f} {report.nodeid}\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Each worker of xdist has collected the same, and left out the same."""
        self._left_out = getattr(node, "workeroutput", {}).get("left_out", self._left_out)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self._left_out = self._left_out or self._choice.left_out
        passed = {name: cost for name, cost in self._costs.items() if name not in self._did_not_pass}
        if self._figures is not None:
            self._figures.close()
        if not passed:
            return
        now = datetime.now(UTC)
        if self._is_proof and session.config.args == session.config.getini("testpaths"):
            self._write_list(passed, (head_commit(), f"{now:%Y-%m-%d}") if exitstatus == 0 else self._listed[1:])
        slow = SlowList.read().seconds
        write_record(read_record() | {name: round(now.timestamp()) for name in passed if name in slow})

    def _write_list(self, passed: Mapping[str, float], head: tuple[str, str]) -> None:
        """A run in which a test failed gives figures and is no proof: the list keeps the head of the last one."""
        seen = {file_of(name) for name in self._costs} - {file_of(name) for name in self._did_not_pass}
        SlowList(self._listed.after(passed, seen), *head).write()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._left_out:
            return
        seconds = sum(self._listed.seconds[name] for name in self._left_out)
        terminalreporter.write_line(
            f"{len(self._left_out)} of {len(self._listed.seconds)} slow tests left out ({seconds:,} s of CPU): proved with"
            f" {self._listed.commit[:12]} on {self._listed.date}, in packages that are unchanged since. CI=true runs them"
        )


def head_commit() -> str:
    """The commit that is checked out; "" if git cannot say."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False, text=True)
    return asked.stdout.strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "slow tests: all (default); due: those that changed or are longest unproved; prove: all, and write tests/slow.txt"
    parser.addoption("--slow", choices=(DUE, ALL, PROVE), default=ALL, help=words)


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None:
        is_due = config.option.slow == DUE and os.environ.get("CI") != "true"
        choice = Choice(not_needed(SlowList.read()) if is_due else ())
        config.pluginmanager.register(Summary(choice, is_proof=config.option.slow == PROVE), "tiers-summary")
    else:
        choice = Choice(worker["left_out"])
    config.pluginmanager.register(choice, "tiers-choice")
    config.pluginmanager.register(Costs(), "tiers-costs")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist what to leave out: all must collect the same."""
    node.workerinput["left_out"] = sorted(node.config.pluginmanager.get_plugin("tiers-choice")._names)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.pluginmanager.get_plugin("tiers-choice").left_out
