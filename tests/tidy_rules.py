"""The rules of tests/test_tidy.py: each is a function from one file to complaints (line, what).

Exceptions stand here with their reasons, and nowhere else.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import plain_english

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
CLASS_METHODS_MAX = 40
POSITIONAL_MAX = 6
VAGUE = {"manager", "handler", "helper", "util", "common"}
# Words of frameworks, where their users look for them: Strands calls it so.
FRAMEWORK_NAMES = {"PerdureSessionManager"}
GENERATED = "handles/sync/"
SCHEMES = {"sqlite", "memory", "files", "postgresql", "postgres"}
_OF_A_DATABASE = re.compile(r"(Sqlite|Postgres|Files)[A-Z]")

_AFTER_A_BRACKET = re.compile(r"\s*[)\]}][^#\"']*  # (?!fmt:|noqa|type:)")

# rule -> where it does not hold (a file, or a folder ending in /) -> why
EXEMPT: dict[str, dict[str, str]] = {
    "file_is_short": {
        "stores/migrations/0005_mended.sql": "one migration for the whole format; a released one is never split",
        "effects/effect_engine.py": "one class, which a reader searches by its list of methods (decision 0166)",
        "runtime/run_engine.py": "as above",
        "runtime/journal.py": "places, records and what they give are one thing to a replay (decision 0166)",
    },
    "names_say_something": {
        "perdure_adapters/agent_framework/middleware.py": "the framework calls the method of a middleware `process`",
    },
    "functions_are_short": {},
    "classes_are_small": {
        "runtime/run_engine.py": "whatever a program may ask for, in the order of `Run` (decision 0166)",
    },
    "sql_stands_in_sql_files": {
        "stores/dialect.py": "generates statements from our own table declarations: identifiers only",
        "stores/statements.py": "`named(e)`, a word that every statement and view may use, stands for a part of one",
        "stores/sqlite.py": "pragmas, savepoints and set-wise flushes have no values in their text",
        "stores/postgres.py": "session settings and set-wise flushes have no values in their text",
        "stores/pgvector.py": "its schema and size are part of the text, quoted by the server or whole numbers",
        "stores/postgres_listener.py": "the name of a channel is made by the server",
        "stores/postgres_wall.py": "roles, grants and policies name things of the catalogue, which are quoted; no values",
        "perdure_evaluate/recall/": "SQLite's own full-text search is what ours is measured beside",
        "stores/postgres_session.py": "session settings, as above",
        "stores/bounded_connection.py": "session settings, as above",
        "stores/user_query.py": "the user's own SQL; its views are ours, and the one value in them is quoted by SQLite",
        "cli/query.py": "the help shows what a user may ask",
        "perdure_evaluate/bench/": "the raw floor is plain SQL on tables of its own: that is what it measures",
        "perdure_evaluate/recovery/subjects/": "other people's stores, as other people write them",
        "perdure_testing/contract/": "the views are for people who bring their own SQL, and so do their tests",
    },
    "execute_takes_a_named_statement": {
        "stores/dialect.py": "as above",
        "stores/sqlite.py": "as above",
        "stores/postgres.py": "as above",
        "stores/postgres_session.py": "as above",
        "stores/postgres_listener.py": "as above",
        "stores/postgres_wall.py": "as above",
        "stores/user_query.py": "as above",
        "perdure_evaluate/recall/": "as above",
        "perdure_evaluate/bench/": "the raw floor is plain SQL on tables of its own: that is what it measures",
        "perdure_evaluate/recovery/subjects/": "other people's stores, as other people write them",
        "perdure_testing/contract/": "the views are for people who bring their own SQL, and so do their tests",
    },
    "only_the_log_and_the_stores_write": {
        "verbs/": "the method of a route is called so",
        "log/": "the one way to write is declared here",
        "stores/": "and carried out here",
        "perdure_files/store/": "as above",
        "perdure_evaluate/recall/": "as above",
        "perdure_evaluate/bench/": "the raw floor is plain SQL on tables of its own: that is what it measures",
        "perdure_evaluate/recovery/subjects/": "other people's stores, as other people write them",
        "perdure_testing/contract/": "the views are for people who bring their own SQL, and so do their tests",
    },
    "no_module_asks_which_database": {
        "stores/": "this is where the databases are",
        "perdure_files/store/": "as above",
        "perdure_evaluate/bench/": "fills and counts the tables of the raw floor, in the words of each database",
    },
    "files_below_a_store_are_opened_within": {
        "perdure_files/store/folder_access.py": "this is the one module that opens and writes files there",
        "perdure_files/store/engine.py": "the cache is SQLite's, in a folder whose name nobody else knows (docs/decisions/0025)",
        "perdure_files/store/connection.py": "as above",
        "perdure_files/store/layout.py": "as above; and the folder of the store itself is the operator's choice",
        "perdure_files/store/cache_place.py": "the key lies outside every store",
        "perdure_files/views/page_keeper.py": "closes what was opened within, and makes the folder that a user names (--to)",
    },
    "twins_hold_what_waits": {
        "handles/aio/made.py": "its functions make methods that wait",
    },
    "handles_have_one_seam": {
        "perdure_adapters/langgraph/saver.py": "its own method, which finds the stream of a thread",
    },
    "prose_is_plain": {
        "stores/migrations/": "released files never change, comments included: SQLite keeps the text of a table",
        "planes/memory/embedder.py": "its unrelated sentences are about anybody",
        "model/words.py": "its stop words are the ones that a text may hold",
    },
}


@dataclass(frozen=True)
class File:
    """One source file, by its path below packages/perdure/src/perdure."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree)) if self.path.endswith(".py") else []

    def among(self, *kinds: type[ast.AST]) -> list[Any]:
        return [node for node in self.nodes if isinstance(node, kinds)]


Complaints = Iterator[tuple[int, str]]
Rule = Callable[[File], Complaints]


# Shape ------------------------------------------------------------------------------------------------------


def file_is_short(file: File) -> Complaints:
    if (count := file.text.count("\n")) > FILE_LINES_MAX:
        yield FILE_LINES_MAX, f"{count} lines, more than {FILE_LINES_MAX}"


def functions_are_short(file: File) -> Complaints:
    for function in file.among(ast.FunctionDef, ast.AsyncFunctionDef):
        if (count := function.end_lineno - function.lineno + 1) > FUNCTION_LINES_MAX:
            yield function.lineno, f"{function.name} has {count} lines, more than {FUNCTION_LINES_MAX}"


def classes_are_small(file: File) -> Complaints:
    for found in file.among(ast.ClassDef):
        methods = [node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        count = sum("overload" not in {getattr(each, "id", "") for each in node.decorator_list} for node in methods)
        if count > CLASS_METHODS_MAX:
            yield found.lineno, f"{found.name} has {count} methods, more than {CLASS_METHODS_MAX}"


def comments_stand_by_what_they_explain(file: File) -> Complaints:
    """After a bracket that a formatter has put on a line of its own a comment is read last: it goes above, or the line is cut."""
    for number, line in enumerate(file.text.splitlines(), 1):
        if _AFTER_A_BRACKET.match(line):
            yield number, "a comment after a closing bracket: put it above the statement"


def names_say_something(file: File) -> Complaints:
    names = [(1, part) for part in file.path.rpartition(".")[0].split("/")]
    names += [(node.lineno, node.name) for node in file.among(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)]
    names += [(node.lineno, node.id) for node in file.among(ast.Name) if isinstance(node.ctx, ast.Store)]
    names += [(node.lineno, node.arg) for node in file.among(ast.arg)]
    for line, name in names:
        words = {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
        if (vague := words & VAGUE) and name not in FRAMEWORK_NAMES:
            yield line, f"{name}: {', '.join(vague)} says nothing; use a word of docs/glossary.md or ARCHITECTURE.md"
    for function in file.among(ast.FunctionDef, ast.AsyncFunctionDef):
        if function.name.strip("_") == "process":
            yield function.lineno, "process: say what it does"


def records_are_built_by_keyword(file: File) -> Complaints:
    """After six values a reader counts commas, and a new field in the middle moves all that follow."""
    for call in file.among(ast.Call):
        name = getattr(call.func, "id", getattr(call.func, "attr", "")).lstrip("_")
        if name[:1].isupper() and len(call.args) > POSITIONAL_MAX and not file.path.startswith(GENERATED):
            yield call.lineno, f"{name} is built from {len(call.args)} positional values, more than {POSITIONAL_MAX}"


def modules_have_names_of_their_own(file: File) -> Complaints:
    """A module named like one of the standard library is misread in every import and every traceback."""
    stem = file.path.rpartition("/")[2].removesuffix(".py")
    if file.path.endswith(".py") and not stem.startswith("__") and stem in sys.stdlib_module_names:
        yield 1, f"{stem} is a module of the standard library"


def classes_in_two_modules(files: list[File]) -> list[str]:
    """Public class names that stand in two written modules: one word, one meaning."""
    places: dict[str, list[str]] = {}
    for file in files:
        if file.path.endswith(".py") and not file.path.startswith(GENERATED):
            for node in file.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(file.path)
    return [f"{name}: {', '.join(paths)}" for name, paths in places.items() if len(paths) > 1]


def prose_is_plain(file: File) -> Complaints:
    """A sentence opens with a thing or a role, nobody is a he, and a docstring says what it is without the one before it."""
    for said in plain_english.sentences(file.path, file.text):
        yield from ((said.line, f"{fault}: {said.text[:90]!r}") for fault in said.faults)


# A folder that came with git ------------------------------------------------------------------------------------


BELOW_A_STORE = ("perdure_files/store/", "perdure_files/views/")
OPENING = {
    "open", "write_bytes", "write_text", "read_bytes", "read_text", "mkdir", "makedirs", "unlink", "rename", "touch",
    "symlink_to", "hardlink_to", "rmdir", "rmtree", "removedirs", "link", "symlink", "truncate", "chmod", "utime", "new_file",
}  # fmt: skip


def files_below_a_store_are_opened_within(file: File) -> Complaints:
    """What is opened or written by a path may be a link that came with git: `within` goes by descriptors, and follows none."""
    if not file.path.startswith(BELOW_A_STORE):
        return
    for call in file.among(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if name in OPENING and not owner.endswith("within"):
            yield call.lineno, f"{owner}.{name}: reach it through `within`, which follows no link"


# SQL: in its files, and one way to write --------------------------------------------------------------------


SQL_TEXT = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|CREATE|ALTER|DROP|PRAGMA|VACUUM|TRUNCATE|MERGE)\s"
    r"|\b(WHERE\s+\S|ORDER\s+BY|GROUP\s+BY|ON\s+CONFLICT|RETURNING\s+\S)"
    r"|(?i:\bselect\s.+\sfrom\s+\S|\binsert\s+into\s|\bupdate\s+\S+\s+set\s|\bdelete\s+from\s)",
    re.DOTALL,
)
WRITES = re.compile(
    r"^\s*(INSERT|UPDATE|DELETE|REPLACE|MERGE|TRUNCATE)\b"
    r"|(?i:\b(insert(\s+or\s+\w+)?|replace|merge)\s+into\b|\bdelete\s+from\b|\bdo\s+update\b"
    r"|\bupdate\s+(or\s+\w+\s+|only\s+)?\S+(\s+(as\s+)?\w+)?\s+set\b"
    r"|\btruncate\s+(table\s+)?\w|\bcopy\s+\S+(\s*\([^)]*\))?\s+from\b)"
)


def text_of(node: ast.AST) -> str | None:
    """The text that an expression builds, with x for every hole; None if it builds no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) or "x" for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            texts = text_of(left), text_of(right)
            return None if texts == (None, None) else "".join("x" if text is None else text for text in texts)
        case ast.BinOp(op=ast.Mod(), left=left):
            return text_of(left)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return text_of(text)
        case ast.Call(func=ast.Attribute(value=glue, attr="join"), args=[ast.List(elts=parts) | ast.Tuple(elts=parts)]):
            return (text_of(glue) or " ").join(text_of(part) or "x" for part in parts)
    return None


def texts(file: File) -> Iterator[tuple[int, str]]:
    """Every text in the code but docstrings; built texts as a whole and in their parts."""
    docstrings = {id(node.value) for node in file.among(ast.Expr)}  # alone in a statement: nobody runs it
    for node in file.among(ast.expr):
        if id(node) not in docstrings and (text := text_of(node)) is not None:
            yield node.lineno, text


def statements(file: File) -> Iterator[tuple[int, str]]:
    """The statements of a `.sql` file, without comments and literals."""
    if file.path.endswith(".sql"):
        bare = re.sub(r"--.*|/\*[\s\S]*?\*/|'[^']*'", " ", re.sub(r"(?m)^-- \w+( @\w+)?: .*", ";", file.text))
        for text in filter(str.strip, bare.split(";")):
            yield file.text.count("\n", 0, max(file.text.find(text.strip()[:40]), 0)) + 1, text


def sql_stands_in_sql_files(file: File) -> Complaints:
    for line, text in texts(file):
        if SQL_TEXT.search(text):
            yield line, f"SQL in Python: {' '.join(text.split())[:50]!r}; name it in a .sql file"


def execute_takes_a_named_statement(file: File) -> Complaints:
    for call in file.among(ast.Call):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        built = [it for it in call.args[:1] if text_of(it) is not None and not isinstance(it, ast.Constant)]
        if called.startswith("execute") and built:
            yield call.lineno, "a statement built in place; values are parameters, statements have names"


def only_the_log_and_the_stores_write(file: File) -> Complaints:
    for line, text in texts(file):
        if WRITES.search(text):
            yield line, f"writes past tx.record: {' '.join(text.split())[:50]!r}"
    for line, text in statements(file):
        if WRITES.search(text) or not re.match(r"\s*\(?(select|with)\b", text, re.IGNORECASE):
            yield (
                line,
                f"only SELECT here; to write is tx.record or tx.touch: {' '.join(text.split())[:50]!r}",
            )


def no_module_asks_which_database(file: File) -> Complaints:
    """A store from another package is none of those that we know: what differs is an attribute that stores/store.py or
    stores/url.py declares."""
    for node in file.among(ast.Attribute):
        if node.attr == "dialect":
            yield node.lineno, "asks for the dialect: declare what differs in stores/store.py"
    for node in file.among(ast.Compare):
        sides = [*ast.walk(node)]
        if any(isinstance(each, ast.Attribute) and each.attr == "scheme" for each in sides) and any(
            isinstance(each, ast.Constant) and each.value in SCHEMES for each in sides
        ):
            yield node.lineno, "compares the scheme of a store: declare what differs in stores/url.py"
    for node in file.among(ast.Call):
        if getattr(node.func, "id", "") == "isinstance" and _OF_A_DATABASE.search(ast.unparse(node.args[1])):
            yield node.lineno, "asks for the class of a database: declare what differs in stores/store.py"


# What data, time and chance may do --------------------------------------------------------------------------


SEAM = ("cli/", "perdure_")
BEHIND = {"_caller": "caller_of", "_stream": "stream_of"}


def handles_have_one_seam(file: File) -> Complaints:
    """The command line and the siblings reach behind a handle by `runtime.callers` alone."""
    for node in file.among(ast.Attribute) if file.path.startswith(SEAM) else ():
        if node.attr in BEHIND and getattr(node.value, "id", "") != "self":
            yield node.lineno, f"{ast.unparse(node)}: {BEHIND[node.attr]}({ast.unparse(node.value)})"


def data_holds_no_code(file: File) -> Complaints:
    """The linter bans pickle, eval and their like; this is the one that it cannot see."""
    for call in file.among(ast.Call):
        if getattr(call.func, "id", "") == "__import__":
            yield call.lineno, "calls __import__"


def twins_hold_what_waits(file: File) -> Complaints:
    for node in file.tree.body if file.path.startswith("handles/aio/") else ():
        if isinstance(node, ast.FunctionDef):
            yield node.lineno, f"{node.name} awaits nothing: its sync twin is a copy; it belongs below the handles"


MACHINE = re.compile(
    r"(?<![\w.~-])/(work|root|home)/"
    r"|(https?|file)://(?!pypi\.org/)[^\s\"']*/simple\b"
    r"|(?i:\b(artifactory|devpi|nexus)\.)"
)


def machine_traces(file: File) -> Complaints:
    for number, line in enumerate(file.text.splitlines(), 1):
        if MACHINE.search(line):
            yield number, f"a machine path or a registry host: {line.strip()[:60]!r}"


def complaints(rule: Rule, files: list[File]) -> list[str]:
    spared = tuple(EXEMPT.get(rule.__name__, {}))
    found = [(file, *complaint) for file in files if not file.path.startswith(spared) for complaint in rule(file)]
    return [f"{file.path}:{line}: {what}" for file, line, what in found]
