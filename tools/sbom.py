"""Write a bill of materials (CycloneDX 1.6, JSON) of what is installed in this environment: `python tools/sbom.py [FILE]`.

Made from the metadata of the installed packages and the list of vendored JavaScript (`tools/vendor.py`) alone: no network, and
nothing of this machine but names, versions and licences. Equal environments give equal bytes.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from vendor import PACKAGES, SHIPPED, Package


def bill() -> dict[str, Any]:
    """The whole document."""
    found = {_name(each): each for each in metadata.distributions()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(found["perdure"])} if "perdure" in found else {},
        "components": [
            *(_component(each) for name, each in sorted(found.items()) if name != "perdure"),
            *(_vendored(each) for each in PACKAGES),
        ],
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


def _vendored(package: Package) -> dict[str, Any]:
    """A package whose files the console ships: `hashes` are those of the archive that they were taken from."""
    ref = f"pkg:npm/{package.name.replace('@', '%40')}@{package.version}"
    return {
        "type": "library",
        "bom-ref": ref,
        "name": package.name,
        "version": package.version,
        "purl": ref,
        "scope": "required",
        "licenses": [{"license": {"name": _licence_of(package)}}],
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def _licence_of(package: Package) -> str:
    """The first line of its licence; a package without one stands beside the one of its authors (signals-core and signals)."""
    names = [name for name in package.files.values() if name.endswith(".LICENSE")] or ["signals.LICENSE"]
    return (SHIPPED / names[0]).read_text().strip().splitlines()[0].strip()


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
