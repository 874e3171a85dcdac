"""The process in which test_hostile_corpus.py tries its corpus: one case after the other, each told as one record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import perdure
from perdure.runtime.workspace import look


def tried(kind: str, what: str, folder: Path) -> None:
    if kind == "workspace":
        look(what)
    elif kind == "control":
        subprocess.run(["git", "status"], cwd=what, capture_output=True, check=False)
    elif kind == "url":
        perdure.open(what, timeout=0.1, read_only=True).close()
    elif kind == "open":
        with perdure.open(f"sqlite:///{what}") as store:
            list(store.sessions())
            store.session("a").say("user", "hi again")
            store.verify()
    else:
        from perdure_agents.importers.file_import import import_files

        with perdure.open(f"sqlite:///{folder}/into.db") as store:
            if what.endswith(".perdure"):
                store.import_(what)
            else:
                import_files(store, [Path(what)])


def told(case: dict[str, Any], folder: Path) -> dict[str, str]:
    try:
        tried(case["kind"], case["what"], folder)
    except perdure.Error as error:
        return {"said": str(error), "bug": ""}
    except Exception as error:
        return {"said": "", "bug": f"{case['kind']} {Path(case['what']).name[:20]}: {error!r}"}
    return {"said": "", "bug": ""}


def become(number: int) -> None:
    """Another user, for ever. What is imported late is imported first: that user may not reach our Python."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "x.json").write_text('[{"role": "user", "content": "hi"}]')
        (place / "x.perdure").write_bytes(b"no bundle")
        with perdure.open(f"sqlite:///{place}/x.db") as store:
            store.session("a").say("user", "hi")
            store.export(str(place / "y.perdure"), ["a"])
        for kind, what in (("import", "x.json"), ("import", "x.perdure"), ("import", "y.perdure"), ("open", "x.db")):
            told({"kind": kind, "what": str(place / what)}, place)
        told({"kind": "url", "what": "postgresql://127.0.0.1:1/x"}, place)
        told({"kind": "workspace", "what": folder}, place)
    "host".encode("idna")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(number, number, number)
        os.setresuid(number, number, number)


if __name__ == "__main__":
    cases, folder, number = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), int(sys.argv[3])
    become(number)
    sys.stdout.write(json.dumps([told(case, folder) for case in cases]))
