"""Writes the sync twins of the handles: `perdure_testing.unasync` translates, ruff formats, the result is committed.

python tools/unasync.py            write handles/sync from handles/aio
python tools/unasync.py --check    change nothing; exit 1 and name the twins that differ
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

from perdure_testing.unasync import translate

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    ("packages/perdure/src/perdure/handles", "*.py"),
    ("packages/perdure/tests/handles", "test_*.py"),
)


def tidied(text: str, target: Path) -> str:
    """As ruff sorts and formats it, without the imports that only the async form needed."""
    ruff = Path(sysconfig.get_path("scripts"), "ruff")
    setting = ["--quiet", "--config", ROOT / "pyproject.toml", "--stdin-filename", target, "-"]
    for task in (["check", "--select", "I001,F401", "--fix-only"], ["format"]):
        command = [ruff, *task, *setting]
        text = subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    return text


def twins(root: Path) -> dict[Path, str]:
    """Every twin below `root` with what it has to say: nothing, where its source is gone."""
    wanted: dict[Path, str] = {}
    for folder, pattern in FOLDERS:
        there = (root / folder / "sync").glob("*.py")
        wanted |= {path: "" for path in there if path.read_text("utf-8").startswith("# Generated from ")}
        for source in sorted((root / folder / "aio").glob(pattern)):
            name = source.relative_to(root).as_posix().removeprefix("packages/perdure/src/perdure/")
            target = root / folder / "sync" / source.name
            try:
                text = translate(source.read_text("utf-8"))
            except SyntaxError as error:
                raise SystemExit(f"{name}: {error}") from None
            header = f"# Generated from {name} by tools/unasync.py: edit that one.\n"
            wanted[target] = tidied(header + text, target)
    return wanted


def main(arguments: list[str] | None = None) -> int:
    """Writes the twins, or compares them."""
    parser = argparse.ArgumentParser(description="Make the sync twins of handles/aio.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a twin differs")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    options = parser.parse_args(arguments)
    texts = twins(options.root)
    if not texts:
        raise SystemExit(f"{options.root}: no source of a twin in it")
    differing = 0
    for path, text in texts.items():
        if text == (path.read_text("utf-8") if path.exists() else ""):
            continue
        differing += 1
        print(f"{'differs' if options.check else 'written'}: {path.relative_to(options.root).as_posix()}")
        if not options.check and not text:
            path.unlink()
        elif not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    if options.check and differing:
        print("mend it with: python tools/unasync.py")
    return int(options.check and differing > 0)


if __name__ == "__main__":
    sys.exit(main())
