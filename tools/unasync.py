"""Makes the sync twin of async code, so that handles and their tests are written once (DESIGN §4).

    python tools/unasync.py            write handles/sync and tests/handles/sync from their aio folders
    python tools/unasync.py --check    change nothing; exit 1 and name the twins that differ

It works on tokens, so comments, strings and layout stay. What it cannot guess is said in the async file:

    # sync: code                       this line (indentation kept) stands in the twin only
    # async-only ... # end             what is between is left out of the twin

A name without a sync meaning outside such a block (`asyncio.gather`) is an error with file and line.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    ("src/perdure/handles", "*.py"),
    ("src/perdure/testing/contract", "*.py"),
    ("tests/handles", "test_*.py"),
)
RENAMED = {"aio": "sync", "aopen": "open", "aclose": "close", "aclosing": "closing", "aiter": "iter"}
RENAMED |= {f"__a{name}__": f"__{name}__" for name in ("enter", "exit", "iter", "next")}
RENAMED |= {"anext": "next", "asynccontextmanager": "contextmanager", "StopAsyncIteration": "StopIteration"}
ASYNCIO = {"sleep": "time.sleep", "run": ""}  # asyncio.run(f()) becomes (f())
MEANINGLESS = {"asyncio", "anyio", "trio", "Awaitable", "Coroutine"}
BLANK = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}
Token = tokenize.TokenInfo
Edit = tuple[tuple[int, int], tuple[int, int], str]  # from, to, what stands there instead


def sync_name(name: str) -> str:
    """The name in the twin: `AsyncSession` is `Session`, `__aenter__` is `__enter__`."""
    return RENAMED.get(name) or re.sub(r"^(_*|Abstract)Async(?=[A-Z])", r"\1", name)


def sync_string(text: str, *, is_docstring: bool) -> str:
    """Docstrings lose `async` and `await`; other strings stay unless they are nothing but a (dotted) name."""
    if is_docstring:
        text = text.replace("async twin", "sync twin").replace("asyncio.sleep", "time.sleep")
        text = re.sub(r"\b([Aa])n (?=`?Async[^AEIOU])", r"\1 ", text)
        text = re.sub(r"\b(await|async(?= (def|with|for)\b)) +", "", text)
    elif not re.fullmatch(r"""(["'])[\w.]*(\b_*Async[A-Z]|\bhandles\.aio\b)[\w.]*\1""", text):
        return text
    return re.sub(r"\w+", lambda found: sync_name(found[0]), text)


def generator_edit(tokens: list[Token]) -> Edit:
    """`AsyncGenerator[Y, S]` takes two arguments and `Generator` three: fill up with None."""
    depth = commas = 0
    for token in tokens:
        depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
        commas += token.string == "," and depth == 1
        if depth == 0:
            return token.start, token.start, ", None" * (2 - commas)
    raise AssertionError("what parses has its brackets closed")


def name_edits(tokens: list[Token], at: int) -> Iterator[Edit]:
    """What becomes of one name."""
    before, token, after, attribute = (tokens[at + step] for step in (-1, 0, 1, 2))
    dotted = after.string == "."
    if token.string in ("async", "await"):
        yield token.start, after.start, ""
    elif token.string == "asyncio" and before.string == "import" and not dotted:
        yield token.start, token.end, "time"  # goes again when nothing uses it
    elif token.string == "asyncio" and dotted and attribute.string in ASYNCIO:
        yield token.start, attribute.end, ASYNCIO[attribute.string]
    elif token.string in MEANINGLESS:
        name = f"{token.string}.{attribute.string}" if dotted else token.string
        raise SyntaxError(f"line {token.start[0]}: {name} has no sync meaning: `# sync:` or `# async-only` it")
    elif sync_name(token.string) != token.string:
        yield token.start, token.end, sync_name(token.string)
        if token.string == "AsyncGenerator" and after.string == "[":
            yield generator_edit(tokens[at + 1 :])


def block_edits(tokens: list[Token]) -> Iterator[Edit]:
    """The `# async-only` blocks, whole lines each."""
    begun = 0
    for token in tokens:
        if token.string in ("# async-only", "# end") or (begun and token.type == tokenize.ENDMARKER):
            if bool(begun) != (token.string == "# end"):
                raise SyntaxError(f"line {begun or token.start[0]}: `# async-only` and `# end` do not pair")
            if begun:
                yield (begun, 0), (token.start[0] + 1, 0), ""
            begun = 0 if begun else token.start[0]


def edits(tokens: list[Token]) -> Iterator[Edit]:
    """Every change that makes the twin."""
    yield from (blocks := list(block_edits(tokens)))
    statement_starts = True
    for at, token in enumerate(tokens):
        kept = not any(begin <= token.start < end for begin, end, _ in blocks)
        if kept and token.type == tokenize.NAME:
            yield from name_edits(tokens, at)
        elif kept and token.type == tokenize.STRING:
            is_docstring = statement_starts and tokens[at + 1].type in (tokenize.NEWLINE, tokenize.COMMENT)
            yield token.start, token.end, sync_string(token.string, is_docstring=is_docstring)
        elif kept and token.string.startswith("# sync: "):
            if token.line[: token.start[1]].strip():
                raise SyntaxError(f"line {token.start[0]}: `# sync:` stands on a line of its own")
            yield token.start, token.end, token.string.removeprefix("# sync: ")
        if token.type not in BLANK:
            statement_starts = token.type == tokenize.NEWLINE


def refuse_inside_fstrings(source: str) -> None:
    """Python before 3.12 has no tokens inside f-strings: what would need translation there is refused."""
    for text in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)]:
        for node in ast.walk(text):
            if isinstance(node, ast.Await) or (isinstance(node, ast.Name) and sync_name(node.id) != node.id):
                raise SyntaxError(f"line {text.lineno}: name `{ast.unparse(node)}` outside the f-string")


def translate(source: str) -> str:
    """The twin of one source text, before it is formatted."""
    refuse_inside_fstrings(source)
    lines = list(io.StringIO(source))
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for (row, column), (end_row, end_column), text in sorted(edits(tokens), reverse=True):
        after = lines[end_row - 1][end_column:] if end_row <= len(lines) else ""
        lines[row - 1 : end_row] = [lines[row - 1][:column] + text + after]
    twin = "".join(lines)
    compile(twin, "twin", "exec", dont_inherit=True)
    return twin


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
            name = source.relative_to(root).as_posix().removeprefix("src/perdure/")
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
    differing = 0
    for path, text in twins(options.root).items():
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
