"""Write docs/openapi.json from the table of routes, and the types of the TypeScript client from it. `--check` only says
whether the document is up to date.

Run it after every change of a route or a record that a route answers with: `python tools/openapi.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typescript_types
from perdure_server.http.app import TABLE
from perdure_server.http.openapi import document

FILE = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"


def text() -> str:
    """The document as it is committed: readable, so that a difference is."""
    return json.dumps(document(TABLE), indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or compare it."""
    if "--check" not in arguments:
        FILE.write_text(text(), "utf-8")
        typescript_types.write()
        return 0
    same = FILE.exists() and json.loads(FILE.read_text("utf-8")) == json.loads(text())
    if not same:
        print("docs/openapi.json is not what the table says: run python tools/openapi.py")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
