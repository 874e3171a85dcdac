"""Copy the console's vendored ES modules from the packages that their authors published, and check them.

`python tools/vendor.py` fetches each package with `npm pack`, compares its SHA-256 with the list below, rewrites bare imports to
files beside each other (so that pages need no import map, hence no inline script) and writes `SHA256SUMS` beside the modules.
`python tools/vendor.py --check` needs neither network nor npm: it compares the files that are there with that list.
Wheels are built without either. A new version is a change of this list, reviewed with the files that it brings.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
SHIPPED = TOP / "packages" / "perdure-server" / "src" / "perdure_server" / "console" / "static" / "vendor"
SUMS = "SHA256SUMS"


class Package(NamedTuple):
    """One published package: the digest of its archive, and the files taken from it, by their names here."""

    name: str
    version: str
    sha256: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "3c4456766bd32b6b534d52bf4e9c2a29b33e7eedf6e96ed479300ba1a7888ebf",
        {"dist/preact.mjs": "preact.mjs", "hooks/dist/hooks.mjs": "hooks.mjs", "LICENSE": "preact.LICENSE"},
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "66ea8221dd8aaa0da2365d49c3f116b071d56cfb63b2e16c072c6b4e08a928b7",
        {"dist/signals.mjs": "signals.mjs", "LICENSE": "signals.LICENSE"},
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "94c421ac996214c94f532fb4c43d8ede048a16df0cd9538ffb965174dbe8daba",
        {"dist/signals-core.mjs": "signals-core.mjs"},
    ),
    Package(
        "htm",
        "3.1.1",
        "2425b9bee11409177bcabc7f32e319926fc6690c1701c0b257c88bdff2d5ba90",
        {"dist/htm.mjs": "htm.mjs", "LICENSE": "htm.LICENSE"},
    ),
)
BESIDE = {
    "preact": "./preact.mjs",
    "preact/hooks": "./hooks.mjs",
    "@preact/signals-core": "./signals-core.mjs",
}


def main() -> None:
    """Fetch and write, or only compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the files that are there with their digests")
    if not parser.parse_args().check:
        for package in PACKAGES:
            take(package)
        (SHIPPED / SUMS).write_text(listed(SHIPPED), "utf-8")
    wrong = changed(SHIPPED)
    sys.exit("\n".join(wrong) if wrong else 0)


def take(package: Package) -> None:
    """Fetch one package and write its files, with bare imports rewritten."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, f"{package.name}@{package.version}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        archive = next(Path(folder).glob("*.tgz"))
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != package.sha256:
            sys.exit(f"{package.name} {package.version}: sha256 is {found}, not the one that was reviewed")
        with tarfile.open(archive) as members:
            for path, name in package.files.items():
                member = members.extractfile(f"package/{path}")
                assert member is not None, path
                (SHIPPED / name).write_bytes(rewritten(member.read()) if name.endswith(".mjs") else member.read())


def rewritten(module: bytes) -> bytes:
    """A module whose imports are files beside it, and that asks for no source map."""
    text = module.decode()
    for bare, beside in BESIDE.items():
        text = text.replace(f'from"{bare}"', f'from"{beside}"')
    kept = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL=")]
    return ("\n".join(kept).rstrip() + "\n").encode()


def listed(folder: Path) -> str:
    """The digests of a folder's files, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def changed(folder: Path) -> list[str]:
    """The files that are not those of the folder's list; nothing if all are."""
    written = (folder / SUMS).read_text("utf-8").splitlines() if (folder / SUMS).exists() else []
    now = listed(folder).splitlines()
    return [f"{folder.name}: differs from {SUMS}: {line}" for line in sorted({*written} ^ {*now})]


if __name__ == "__main__":
    main()
