"""Makes tests/fixtures/before anew: a store, a folder, a bundle and open runs, as the code of one commit leaves them.

    .venv/bin/python tools/make_before.py ebda14a6                        with an environment of that commit, made for it
    .venv/bin/python tools/make_before.py ebda14a6 --program COMMIT       the program as it was in another commit: its text is
                                                                          what that code understands
    .venv/bin/python tools/make_before.py ebda14a6 --python PATH          an interpreter that has that commit installed

The program is tests/before_packages.py. The same code also finishes its own work, three times, and the lines that it adds are
kept. A name that is drawn at random differs between them, and is written as `*`. `tests/test_before_packages.py` compares the
code of today with these lines.
"""

from __future__ import annotations

import argparse
import gzip
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "tests/before_packages.py"
TARGET = ROOT / "tests" / "fixtures" / "before"
KILLED = ("voyage", "journey", "fleet", "clerk")
TIMES = 3
RANDOM = re.compile(r"[0-9a-f-]{12,}")


class Life:
    """The program, run by the code of a commit in a folder of its own."""

    def __init__(self, folder: Path, python: Path, program: Path) -> None:
        self.folder = folder
        self._words = (str(python), str(program))
        self._environment = os.environ | {"PYTHONHASHSEED": "0"}
        self._environment.pop("PYTHONPATH", None)

    def run(self, *words: str, status: int = 0) -> str:
        """Its output. Every life has a state folder of its own, as on a machine that has never seen the store."""
        with tempfile.TemporaryDirectory() as state:
            env = self._environment | {"XDG_STATE_HOME": state}
            done = subprocess.run([*self._words, *words], env=env, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != status:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
        return done.stdout

    def left(self, url: str) -> None:
        """A store that was killed four times."""
        self.run("furnish", url)
        for name in KILLED:
            self.run("die", url, name, status=-9)


def make(life: Life) -> None:
    """Write the fixture."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    database, folder = life.folder / "agent.db", life.folder / "state"
    life.left(f"sqlite:///{database}")
    life.left(f"files:///{folder}")
    keep_database(database)
    keep_folder(folder)
    copy, bundle = unpacked(life.folder / "bundled"), life.folder / "all.perdure"
    life.run("export", f"sqlite:///{copy / 'agent.db'}", str(bundle))
    keep("all.perdure.gz", bundle.read_bytes())
    for kind, ways in finishes(life).items():
        lines = [*written(ways)]
        (TARGET / f"{kind}.txt").write_text("\n".join([*lines, ""]), "utf-8")


def keep_database(path: Path) -> None:
    """The database without its free pages, and without the name of this machine."""
    whole = path.with_name("whole.db")
    apsw.Connection(str(path)).execute("VACUUM INTO ?", [str(whole)]).get  # noqa: B018 - the row must be read for it to run
    raw = apsw.Connection(str(whole))
    raw.execute("UPDATE holders SET host = 'host'")
    raw.execute("VACUUM")
    raw.close()
    keep("agent.db.gz", whole.read_bytes())


def keep_folder(folder: Path) -> None:
    """The folder as git has it: its log and its blobs, and nothing of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("log", "blobs"):
            tar.add(folder / name, name, filter=nobodys)
    keep("state.tar.gz", packed.getvalue())


def nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without the owner and the date that it has here."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def keep(name: str, data: bytes) -> None:
    """A file of the fixture, packed."""
    (TARGET / name).write_bytes(gzip.compress(data, mtime=0))


def unpacked(folder: Path) -> Path:
    """This folder with agent.db, state and all.perdure in it, as far as they are kept already."""
    folder.mkdir()
    for each in TARGET.glob("*.gz"):
        data = gzip.decompress(each.read_bytes())
        if each.name == "state.tar.gz":
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                tar.extractall(folder / "state", filter="data")
        else:
            (folder / each.stem).write_bytes(data)
    return folder


def finishes(life: Life) -> dict[str, list[list[str]]]:
    """For each form of the store the lines that finishing it adds, as many times as they are compared."""
    found: dict[str, list[list[str]]] = {"sqlite": [], "files": [], "bundle": []}
    for turn in range(TIMES):
        folder = unpacked(life.folder / f"finish-{turn}")
        urls = {
            "sqlite": f"sqlite:///{folder}/agent.db",
            "files": f"files:///{folder}/state",
            "bundle": f"sqlite:///{folder}/new.db",
        }
        for kind, url in urls.items():
            bundle = [str(folder / "all.perdure")] if kind == "bundle" else []
            found[kind].append(life.run("finish", url, *bundle).splitlines())
    return found


def written(ways: list[list[str]]) -> Iterator[str]:
    """The lines that all ways have in common. Raises when they differ in more than what is drawn at random."""
    for lines in itertools.zip_longest(*ways, fillvalue=""):
        words = [RANDOM.findall(each) for each in lines]
        rest = {RANDOM.sub("*", each) for each in lines}
        if len(rest) != 1:
            raise SystemExit(f"the same code finished in two ways: {json.dumps(sorted(rest), indent=2)}")
        shared = [first if {first} == {*others} else "*" for first, *others in zip(*words, strict=True)]
        yield RANDOM.sub("{}", lines[0].replace("{", "{{").replace("}", "}}")).format(*shared)


def environment(commit: str, folder: Path) -> Path:
    """An interpreter that has the commit installed."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    folder.mkdir()
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    subprocess.run([sys.executable, "tools/bootstrap.py", "dev"], cwd=folder, check=True)
    return folder / ".venv" / "bin" / "python"


def main() -> None:
    """Make it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--program", default="")
    parser.add_argument("--python", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "before_packages.py"
        shown = ["git", "show", f"{options.program}:{PROGRAM}"]
        text = subprocess.check_output(shown, cwd=ROOT) if options.program else (ROOT / PROGRAM).read_bytes()
        program.write_bytes(text)
        make(Life(folder, options.python or environment(options.commit, folder / "source"), program))
    print(f"written: {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
