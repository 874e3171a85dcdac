"""Write a bill of materials (CycloneDX 1.6, JSON) of what is installed in this environment: `python tools/sbom.py [FILE]`.

Made from the metadata of the installed packages alone: no network, and nothing of this machine but names, versions and licences.
Equal environments give equal bytes.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def bill() -> dict[str, Any]:
    """The whole document."""
    found = {_name(each): each for each in metadata.distributions()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(found["perdure"])} if "perdure" in found else {},
        "components": [_component(each) for name, each in sorted(found.items()) if name != "perdure"],
        "dependencies": [_needs(each, found) for _, each in sorted(found.items())],
    }


def _component(found: metadata.Distribution) -> dict[str, Any]:
    said = found.metadata
    licence = said.get("License-Expression") or said.get("License") or ""
    known = {"licenses": [{"license": {"name": licence.splitlines()[0][:200]}}]} if licence.strip() else {}
    return {
        "type": "library",
        "bom-ref": _ref(found),
        "name": _name(found),
        "version": found.version,
        "purl": _ref(found),
        **known,
    }


def _needs(found: metadata.Distribution, all_of_them: dict[str, metadata.Distribution]) -> dict[str, Any]:
    names = {_normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in found.requires or []}
    return {"ref": _ref(found), "dependsOn": [_ref(all_of_them[name]) for name in sorted(names & all_of_them.keys())]}


def _ref(found: metadata.Distribution) -> str:
    return f"pkg:pypi/{_name(found)}@{found.version}"


def _name(found: metadata.Distribution) -> str:
    return _normal(found.metadata["Name"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    text = json.dumps(bill(), indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        sys.stdout.write(text)
