"""The prose of a file, sentence by sentence, and the turns of phrase that plain English does without.

`tests/tidy_rules.py` holds the rule. `python tests/plain_english.py` prints the counts, and with paths (or `--list`) the
sentences. Prose is docstrings, comments, texts of three words or more (messages, help), and the paragraphs, list items and
table cells of a page. Titles are no sentences: a heading, the first row of a table, a comment that ends in a rule of dashes.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEADLESS = "a headless Who or What"
PERSON = "he or his"
SAME = "a docstring that opens with The same"

_END = re.compile(r"""(?<=[.!?])["')\]*_`]*\s+(?=["'(\[*_`]*[A-Z0-9`])""")
_HEADLESS = re.compile(r"(?:and |but |so |or )?(who|what|whoever|whatever)\b", re.IGNORECASE)
_PERSON = re.compile(r"\b(he|his|him|himself|she|her|hers|herself)\b", re.IGNORECASE)
_SAME = re.compile(r"(the same\b|likewise\b)", re.IGNORECASE)
_WORDS_MIN = 3
_COMMENT = {".py": "#", ".sql": "--"}


@dataclass(frozen=True)
class Sentence:
    line: int
    text: str
    opens_docstring: bool = False

    @property
    def faults(self) -> Iterator[str]:
        if _HEADLESS.match(self.text) and not self.text.endswith("?"):
            yield HEADLESS
        if _PERSON.search(self.text):
            yield PERSON
        if self.opens_docstring and _SAME.match(self.text):
            yield SAME


def sentences(path: str, text: str) -> Iterator[Sentence]:
    paragraphs = {".py": _of_python, ".sql": _of_sql, ".md": _of_page}[Path(path).suffix]
    for line, paragraph, is_docstring in paragraphs(text):
        for number, sentence in enumerate(_END.split(" ".join(paragraph.split()))):
            bare = sentence.strip(" \"'`*_([>")
            if len(bare.split()) >= _WORDS_MIN:
                yield Sentence(line, bare, is_docstring and number == 0)


Paragraphs = Iterator[tuple[int, str, bool]]


def _of_python(text: str) -> Paragraphs:
    yield from _of_comments(_comments(text))
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr | ast.Constant | ast.JoinedStr)]
    bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    within = {id(part) for node in joined for part in ast.walk(node)} - {id(node) for node in joined}
    for node in nodes:
        if id(node) in within or isinstance(node, ast.Expr):
            continue
        if isinstance(said := _said(node), str):
            for at, paragraph in enumerate(re.split(r"\n\s*\n", said)):
                yield node.lineno, paragraph, id(node) in bare and at == 0


def _said(node: ast.Constant | ast.JoinedStr) -> object:
    """The text of a literal; `…` for every hole in it."""
    if isinstance(node, ast.Constant):
        return node.value
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def _of_sql(text: str) -> Paragraphs:
    found = [
        (n, line.index("--"), line.split("--", 1)[1]) for n, line in enumerate(text.splitlines(), 1) if "--" in line
    ]
    yield from _of_comments([(n, column, re.sub(r"^ \w+( @\w+)?: ", " ", said)) for n, column, said in found])


def _comments(text: str) -> list[tuple[int, int, str]]:
    if "#" not in text:
        return []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(*token.start, token.string.lstrip("#:")) for token in tokens if token.type == tokenize.COMMENT]


def _of_comments(found: list[tuple[int, int, str]]) -> Paragraphs:
    """Comments that stand below each other at the same column are one paragraph."""
    block: list[tuple[int, int, str]] = []
    for comment in [*found, (0, 0, "")]:
        if block and (block[-1][0] + 1, block[-1][1]) != comment[:2]:
            yield block[0][0], " ".join(said for _, _, said in block), False
            block = []
        if not comment[2].rstrip().endswith("---") and comment[0]:
            block.append(comment)


def _of_page(text: str) -> Paragraphs:
    lines = text.splitlines()
    fenced, start, block = False, 0, list[str]()
    for number, line in enumerate([*lines, ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        bare = line.strip()
        border = not bare or fenced or bare.startswith(("```", "#", "|", "<!--")) or re.match(r"([-*]|\d+\.) ", bare)
        if border and block:
            yield start, " ".join(block), False
            block = []
        if fenced or not bare or bare.startswith(("```", "#", "<!--")):
            continue
        if bare.startswith("|"):
            below = lines[number].strip() if number < len(lines) else ""
            if not re.match(r"\|[\s:|-]+$", below) and not re.match(r"\|[\s:|-]+$", bare):
                yield from ((number, cell, False) for cell in re.split(r"(?<!\\)\|", bare.strip("|")))
            continue
        start = start if block else number
        block.append(re.sub(r"^([-*]|\d+\.) ", "", bare))


PARTS = ("packages/*/src", "examples", "tools")


def pages(root: Path) -> list[Path]:
    """Everything that is held: pages for people, the source, the examples and the tools."""
    written = [path for part in PARTS for folder in sorted(root.glob(part)) for path in sorted(folder.rglob("*"))]
    text = [path for path in written if path.suffix in (".py", ".sql")]
    return [
        *sorted(root.glob("*.md")),
        *sorted(root.glob("packages/*/*.md")),
        *sorted((root / "docs").rglob("*.md")),
        *text,
    ]


def measure(root: Path, only: tuple[str, ...] = ()) -> tuple[int, list[tuple[str, Sentence, str]]]:
    """How many sentences there are, and those with a fault."""
    paths = [(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in pages(root)]
    found = [
        (path, said) for path, text in paths if not only or path.startswith(only) for said in sentences(path, text)
    ]
    return len(found), [(path, said, fault) for path, said in found for fault in said.faults]


def main() -> None:
    only = tuple(argument for argument in sys.argv[1:] if argument != "--list")
    count, faults = measure(Path(__file__).parent.parent, only)
    if len(sys.argv) > 1:
        for path, said, fault in faults:
            sys.stdout.write(f"{path}:{said.line}: {fault}: {said.text}\n")
    by_kind = Counter(fault for _, _, fault in faults)
    sys.stdout.write(f"{count} sentences\n")
    for kind in (HEADLESS, PERSON, SAME):
        sys.stdout.write(f"{by_kind[kind]:6} {100 * by_kind[kind] / max(count, 1):5.2f} %  {kind}\n")


if __name__ == "__main__":
    main()
