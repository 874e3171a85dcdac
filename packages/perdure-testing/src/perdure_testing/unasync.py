"""Translates async source into its sync twin, so that handles and contracts are written once.

Callers: `tools/unasync.py` writes the twins of the handles; `contract/sync` translates the contract when it is imported.
It works on tokens, so comments, strings and layout stay. The async file says what cannot be guessed:

    # sync: code                       this line (indentation kept) stands in the twin only
    # async-only ... # end             the lines between are left out of the twin

A name without a sync meaning outside such a block (`asyncio.gather`) is an error with its line.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

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
    return re.sub(r"\w+", lambda match: sync_name(match[0]), text)


def generator_edit(tokens: list[Token]) -> Edit:
    """`AsyncGenerator[Y, S]` takes two arguments and `Generator` three: fill up with None."""
    depth = commas = 0
    for token in tokens:
        depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
        commas += token.string == "," and depth == 1
        if depth == 0:
            return token.start, token.start, ", None" * (2 - commas)
    raise AssertionError("a text that parses has its brackets closed")


def name_edits(tokens: list[Token], at: int) -> Iterator[Edit]:
    """The edits of one name."""
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
        is_kept = not any(begin <= token.start < end for begin, end, _ in blocks)
        if is_kept and token.type == tokenize.NAME:
            yield from name_edits(tokens, at)
        elif is_kept and token.type == tokenize.STRING:
            is_docstring = statement_starts and tokens[at + 1].type in (tokenize.NEWLINE, tokenize.COMMENT)
            yield token.start, token.end, sync_string(token.string, is_docstring=is_docstring)
        elif is_kept and token.string.startswith("# sync: "):
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
