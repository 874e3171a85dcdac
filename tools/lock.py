"""Write the locked requirements: `python tools/lock.py` (with `--upgrade` to the newest versions).

`requirements/*.txt` name each package that `make` installs with its version and the digests of its files, for every platform
and every Python that is supported. `tools/bootstrap.py` installs from them alone. Run it after a change of the dependencies in
pyproject.toml: `tests/tools/test_lock.py` says when that is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
UV = TOP / ".venv" / "bin" / "uv"
COMMON = [
    "--universal",
    "--python-version",
    "3.11",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
]
BUILDING = (
    "hatchling>=1.27\neditables>=0.5\n"  # this package is installed without an environment of its own for its building
)
MEMBERS = [str(path.relative_to(TOP)) for path in sorted(TOP.glob("packages/*/pyproject.toml"))]
# Our own packages are no requirements of a lock: uv would write them as `-e file:///…`, with the place of this checkout.
OURS = [word for path in MEMBERS for word in ("--no-emit-package", Path(path).parent.name)]
EXTRAS = [word for name in ("postgres", "s3", "crypto", "yaml", "mcp") for word in ("--extra", name)]
LOCKS = {
    "uv": (["-"], "uv>=0.13\n"),
    "runtime": (["packages/perdure/pyproject.toml", "-"], BUILDING),
    "dev": ([*MEMBERS, "-", *OURS, *EXTRAS, "--group", "pyproject.toml:dev"], BUILDING),
}


def main(arguments: list[str]) -> None:
    """Write all locks. A package that is locked already keeps its version unless `--upgrade` is given."""
    for name, (sources, more) in LOCKS.items():
        target = f"requirements/{name}.txt"
        command = [UV, "pip", "compile", "--quiet", *sources, *COMMON, *arguments, "--output-file", target]
        subprocess.run(command, input=more.encode(), cwd=TOP, env={**os.environ, "UV_SYSTEM_CERTS": "1"}, check=True)
        print(f"{target}: {(TOP / target).read_text().count('==')} packages")


if __name__ == "__main__":
    if set(sys.argv[1:]) - {"--upgrade"}:
        sys.exit("usage: lock.py [--upgrade]")
    main(sys.argv[1:])
