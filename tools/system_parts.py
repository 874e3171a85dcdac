"""Install system packages that some tests use, where that is allowed: as root on Debian. Called by `make test`.

A browser cannot come from the Python environment. A fixture that installs one would hide half a minute of downloading in some
test, once for each worker; so this stands before the tests, says what it does, and takes no time when all is there. It never
fails: tests whose part is missing are skipped, each with its reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PARTS = {  # programs, one of which is enough, and the Debian packages that bring the first one
    ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"): ("chromium", "fonts-dejavu-core"),
    ("node", "nodejs"): ("nodejs",),
}
TIMEOUT_SECONDS = 240  # for each call of apt: a mirror that does not answer must not stop the tests
INSTALL = ("apt-get", "install", "-y", "-q", "--no-install-recommends")


def main() -> None:
    """Install what is missing, or say why not."""
    missing = [packages for programs, packages in PARTS.items() if not any(map(shutil.which, programs))]
    if not missing or "PERDURE_NO_INSTALL" in os.environ:
        return
    wanted = [package for packages in missing for package in packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed: {' '.join(wanted)} (needs root on Debian); tests that use them are skipped")
        return
    print(f"installing {' '.join(wanted)}; PERDURE_NO_INSTALL=1 leaves that out", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    why = ""
    for command in ((*INSTALL, *wanted), ("apt-get", "update", "-q"), (*INSTALL, *wanted)):
        try:
            done = subprocess.run(
                command, env=quiet, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            why = f"it took more than {TIMEOUT_SECONDS} seconds"
            break
        if done.returncode == 0 and command[1] == "install":
            return
        why = " ".join(done.stderr.strip().splitlines()[-1:])
    print(f"they cannot be installed ({why}); tests that use them are skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
