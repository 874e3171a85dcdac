"""Style, executed: the source keeps the rules of tests/tidy_rules.py, and every rule has controls.

A control plants a violation that the rule must catch, and innocents that it must let pass.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import sysconfig
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import plain_english
from sources import PACKAGES, ROOT, at_least, sources, within_package
from tidy_rules import (
    CLASS_METHODS_MAX,
    EXEMPT,
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    File,
    Rule,
    classes_are_small,
    classes_in_two_modules,
    comments_stand_by_what_they_explain,
    complaints,
    data_holds_no_code,
    execute_takes_a_named_statement,
    file_is_short,
    files_below_a_store_are_opened_within,
    functions_are_short,
    handles_have_one_seam,
    machine_traces,
    modules_have_names_of_their_own,
    names_say_something,
    no_module_asks_which_database,
    only_the_log_and_the_stores_write,
    prose_is_plain,
    records_are_built_by_keyword,
    sql_stands_in_sql_files,
    twins_hold_what_waits,
)


@cache
def source() -> list[File]:
    return [File(within_package(path).as_posix(), path.read_text("utf-8")) for path in sources(".py", ".sql")]


def planted(text: str) -> list[File]:
    """One file a line: `path> text`, or a text that then stands in planes/a.py; ⏎ is a line break."""
    lines = [line.strip().replace("⏎", "\n") for line in text.strip().splitlines()]
    parts = [(line, *re.split(r"^([\w/]+\.\w+)> ?", line, maxsplit=1)[1:]) for line in lines]
    return [File(*part[1:]) if part[1:] else File("planes/a.py", part[0]) for part in parts]


def repeated(head: str, line: str, times: int) -> File:
    return File("planes/a.py", head + line * times)


METHOD = "    def f(self): ...\n"
# rule -> (what it must catch, what it must let pass)
CONTROLS: dict[Rule, tuple[list[File], list[File]]] = {
    file_is_short: ([repeated("", "\n", FILE_LINES_MAX + 1)], [repeated("", "\n", FILE_LINES_MAX)]),
    functions_are_short: (
        [repeated("async def f():\n", "    x = 1\n", FUNCTION_LINES_MAX)],
        [repeated("def f():\n", "    x = 1\n", FUNCTION_LINES_MAX - 1)],
    ),
    classes_are_small: (
        [repeated("class A:\n", METHOD, CLASS_METHODS_MAX + 1)],
        [repeated("class A:\n", METHOD, CLASS_METHODS_MAX)],
    ),
    comments_stand_by_what_they_explain: (
        [File("planes/a.py", "x = (\n    1\n)  # why\n"), File("planes/a.py", "with f(\n    1\n):  # why\n    pass\n")],
        [File("planes/a.py", "# Why.\nx = (1)  # one\ny = [\n    1,  # first\n]  # fmt: skip\n")],
    ),
    names_say_something: (
        planted("""class RunManager: ...
            def handler(): ...
            def f(db_helper): ...
            utils = 1
            def process(): ...
            planes/common.py>
            planes/utils/a.py>
            planes/helpers.sql>"""),
        planted("""class Handle: ...
            def process_id(): ...
            from contextlib import contextmanager
            utility = 1"""),
    ),
    records_are_built_by_keyword: (
        planted("""Turn(1, 2, 3, 4, 5, 6, 7)
            x = records.Turn(1, 2, 3, 4, 5, 6, 7, key=1)
            _Row(1, 2, 3, 4, 5, 6, 7)"""),
        planted("""Turn(1, 2, 3, 4, 5, 6, key=7)
            turn(1, 2, 3, 4, 5, 6, 7)
            handles/sync/a.py> Turn(1, 2, 3, 4, 5, 6, 7)"""),
    ),
    modules_have_names_of_their_own: (
        planted("""planes/time.py> x = 1
            doors/http/json.py> x = 1"""),
        planted("""planes/history.py> x = 1
            planes/__init__.py> x = 1
            planes/time.sql> SELECT 1"""),
    ),
    prose_is_plain: (
        planted("""# What a caller may do.
            # It is so. Who waits is woken.
            # One thing.⏎# Whatever is left goes.
            def f():⏎    'Whoever holds it.'
            def f():⏎    'The same, for a run.'
            def f():⏎    'Likewise for a run.'
            x = 'what he said is kept'
            x = f'{a}. What is open stays.'
            x = 'ask the caller himself'
            planes/a.sql> -- a_b: What a run did.⏎SELECT 1
            a.md> It is so.⏎Who waits is woken.
            a.md> - what it kept
            a.md> | a | what it kept |
            a.md> **What it kept** is there."""),
        planted("""# This is what a caller may do.
            # What may a caller do?
            # What a caller may do ------------
            x = 'What'
            x = ['he', 'his']
            def f():⏎    'A caller may do the same.'
            # The same holds for a run.
            planes/a.sql> -- a_b: The rows of a run.⏎SELECT 'what is it'
            a.md> # What it keeps
            a.md> | word | what it is |⏎|---|---|⏎| a | one |
            a.md> ```⏎What it keeps.⏎```"""),
    ),
    sql_stands_in_sql_files: (
        planted("""x = 'SELECT 1'
            x = f'select a from {b}'
            x = 'insert ' + 'into b values (1)'
            x = ' ORDER BY a'
            x = 'UPDATE %s SET a = 1' % b
            x = 'delete from {}'.format(b)
            x = ' '.join(['WHERE', b])
            stores/lanes.py> x = 'PRAGMA a'
            stores/sqlite_more.py> x = 'SELECT 1'"""),
        planted("""'SELECT 1'
            x = 'With love'
            x = 'choose where to go'
            # SELECT 1
            stores/sqlite.py> x = 'PRAGMA a'"""),
    ),
    execute_takes_a_named_statement: (
        planted("""c.execute(f'{a}')
            c.executemany('a' + b, c)
            c.execute('a %s' % b)
            c.execute('{}'.format(b))"""),
        planted("""c.execute(statement, (1,))
            c.execute(sql.turns_tail)
            execute(f'{a}')"""),
    ),
    only_the_log_and_the_stores_write: (
        planted("""x = 'INSERT INTO a VALUES (1)'
            x = f'update {t} set a = 1'
            x = 'delete ' + 'from turns'
            x = 'insert or replace into a'
            x = 'UPDATE ' + t
            x = 'drop it; DELETE {} {}'.format('FROM', t) + 'delete from a'
            x = 'update turns as t set a = 1'
            x = 'TRUNCATE turns'
            x = 'copy turns (a) from stdin'
            artifacts/a.py> x = 'INSERT INTO blobs'
            stores.py> x = 'INSERT INTO blobs'
            planes/a.sql> -- a_b: so.⏎DELETE FROM turns
            planes/a.sql> WITH a AS (SELECT 1) INSERT INTO b SELECT 1
            planes/a.sql> WITH a AS (⏎DELETE⏎FROM b RETURNING c) SELECT c FROM a
            planes/a.sql> SELECT 1;⏎update turns set a = 1
            planes/a.sql> -- a_b: so.⏎SELECT 1⏎-- a_c @postgres: so.⏎DROP TABLE a
            planes/a.sql> CREATE TABLE a (b)
            planes/a.sql> SELECT 1 -- it's fine⏎; INSERT INTO a VALUES ('it''s not')
            planes/a.sql> /* SELECT⏎*/ DELETE FROM a
            doors/a.sql> PRAGMA a"""),
        planted("""x = 'update'
            'INSERT INTO a'
            x = 'the set was updated'
            # INSERT INTO a
            planes/a.sql> -- a_b: DELETE FROM is not here.⏎SELECT a FROM b FOR UPDATE SKIP LOCKED
            planes/a.sql> -- a_b: so.⏎WITH a AS (SELECT 'insert into b') SELECT replace(a, 'b', 'c') FROM a;⏎
            stores/a.py> x = 'INSERT INTO a'
            log/a.sql> DELETE FROM a"""),
    ),
    no_module_asks_which_database: (
        planted("""if core.engine.dialect == "sqlite": pass
            if address.scheme != "files" or address.path is None: pass
            assert isinstance(connection, (int, SqliteConnection))
            dialect = reader.connection.dialect"""),
        planted("""if parts.scheme == "https": pass
            if not address.lasts and connection.is_server: pass
            from perdure.stores.dialect import rows_page
            isinstance(error, Fault)"""),
    ),
    handles_have_one_seam: (
        planted("""cli/a.py> x = store._caller.core
            perdure_testing/a.py> f(handle._stream)
            perdure_adapters/a.py> x = (await f())._stream"""),
        planted("""cli/a.py> x = caller_of(store).core
            cli/a.py> x = self._caller
            runtime/a.py> x = store._caller"""),
    ),
    data_holds_no_code: (
        planted("""x = __import__('a')"""),
        planted("""run.exec(x)
            # __import__(x)
            import_('a')"""),
    ),
    twins_hold_what_waits: (
        planted("handles/aio/a.py> def f(): ..."),
        planted("""handles/aio/a.py> async def f(): ...
            handles/aio/a.py> class A:⏎    def f(self): ...
            handles/a.py> def f(): ..."""),
    ),
    files_below_a_store_are_opened_within: (
        [
            File("perdure_files/store/a.py", "path.write_bytes(b'')"),
            File("perdure_files/store/a.py", "os.open(path, os.O_RDWR)"),
            File("perdure_files/views/a.py", "(folder / 'x').mkdir()"),
        ],
        [File("perdure_files/store/a.py", "layout.within.unlink(path)"), File("stores/a.py", "path.write_bytes(b'')")],
    ),
}
RULES = list(CONTROLS)


def cases(which: int) -> list[Any]:
    return [
        pytest.param(rule, file, id=f"{rule.__name__}-{at}")
        for rule in RULES
        for at, file in enumerate(CONTROLS[rule][which])
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps(rule: Rule) -> None:
    found = complaints(rule, source())
    assert not found, "\n".join([rule.__name__, *found])


def test_the_pages_are_plain() -> None:
    """The source is held by the rule above: these are the pages for people, the examples and the tools."""
    paths = [path.relative_to(ROOT).as_posix() for path in plain_english.pages(ROOT)]
    held = [File(path, (ROOT / path).read_text("utf-8")) for path in paths if "/src/" not in path]
    found = complaints(prose_is_plain, at_least(80, held, "pages, examples and tools"))
    assert not found, "\n".join(found)


def test_a_class_name_stands_in_one_module() -> None:
    assert classes_in_two_modules(source()) == []


def test_control_a_class_name_in_two_modules_is_caught() -> None:
    twice = planted("""planes/a.py> class Found: ...
        effects/b.py> class Found: ...
        handles/aio/c.py> class Store: ...
        handles/sync/c.py> class Store: ...""")
    assert classes_in_two_modules(twice) == ["Found: planes/a.py, effects/b.py"]


def glossary_faults(text: str) -> list[str]:
    """Words that stand out of order, twice, or two in a row."""
    words = re.findall(r"(?m)^\| \*\*(.+?)\*\* *(.*?)\|", text)
    names = [name for name, _ in words]
    late = [after for before, after in pairwise(names) if after.lower() <= before.lower()]
    return late + [name for name, more in words if "," in name or more]


def test_words_of_users_and_of_the_code_stand_once_in_alphabetical_order_and_those_of_users_are_few() -> None:
    users, code = ((ROOT / page).read_text("utf-8") for page in ("docs/glossary.md", "ARCHITECTURE.md"))
    assert [glossary_faults(text) for text in (users, code)] == [[], []]
    words, own = ({*re.findall(r"(?m)^\| \*\*(.+?)\*\*", text)} for text in (users, code))
    assert (50 <= len(words) <= 70, words & own) == (True, set())


@pytest.mark.parametrize("rows", ["**b** ⏎**a** ", "**a** ⏎**a** ", "**a, b** ", "**a** of a view "])
def test_control_a_glossary_out_of_order_is_caught(rows: str) -> None:
    assert glossary_faults("\n".join(f"| {row}| it |" for row in rows.split("⏎"))) != []


@pytest.mark.parametrize(("rule", "file"), cases(0))
def test_control_a_planted_violation_is_caught(rule: Rule, file: File) -> None:
    assert complaints(rule, [file]) != []


@pytest.mark.parametrize(("rule", "file"), cases(1))
def test_control_an_innocent_is_not_accused(rule: Rule, file: File) -> None:
    assert complaints(rule, [file]) == []


# Rules of the linter that stand for rules of ours: what must be caught, below packages/perdure/src/perdure, and what must pass.
CAUGHT = {
    "D100": ["x = 1", "# no docstring"],
    "T201": ["print(1)"],
    "S307": ["eval('1')"],
    "S102": ["exec(x)"],
    "S506": ["import yaml\nyaml.load(x)", "from yaml import load\nload(x)"],
    "TID251": [
        "import pickle", "from marshal import loads", "def f(): import dill.source", "import os, shelve",
        "import time\ntime.time()", "import time\nx = time.time_ns", "from time import time",
        "from datetime import datetime, UTC\ndatetime.now(UTC)", "import datetime\ndatetime.datetime.now()",
        "import random", "from secrets import token_hex", "import uuid\nuuid.uuid4()", "from uuid import UUID, uuid7",
        "import os\nos.urandom(8)", "from os import urandom",
    ],
}  # fmt: skip
PASSES = [
    (
        "perdure/planes/a.py",
        "import time\ntime.monotonic()\nclock.now()\nids.random\nconsole.print(1)\nrun.exec(x)\nretrieval(x)",
    ),
    ("perdure/planes/a.py", "from uuid import UUID\nyaml.safe_load(x)\n# eval(x)\ny = 'eval(x)'"),
    ("perdure/model/instants.py", "import time\ntime.time_ns()"),
    ("perdure/model/ids.py", "import os\nos.urandom(8)"),
    ("../../perdure-testing/src/a.py", "import time\ntime.time()"),
    ("../../perdure-evaluate/src/a.py", "import random"),
]


def linted(path: str, text: str) -> set[str]:
    """The rules of the linter that a file of the source would break."""
    ruff = Path(sysconfig.get_path("scripts"), "ruff")
    command = [ruff, "check", "--quiet", "--output-format", "json", "--stdin-filename", PACKAGES[0].parent / path, "-"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    return {complaint["code"] for complaint in json.loads(ran.stdout)}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in CAUGHT.items() for text in texts])
def test_control_the_linter_catches(rule: str, text: str) -> None:
    assert rule in linted("perdure/planes/a.py", text)


@pytest.mark.parametrize(("path", "text"), PASSES)
def test_control_the_linter_lets_pass(path: str, text: str) -> None:
    assert linted(path, f'"""A module."""\n{text}') & CAUGHT.keys() == set()


def test_exceptions_name_rules_that_exist_and_give_reasons() -> None:
    assert set(EXEMPT) <= {rule.__name__ for rule in RULES}
    assert all(reason for places in EXEMPT.values() for reason in places.values())


def test_complaints_name_file_and_line() -> None:
    assert complaints(data_holds_no_code, [File("log/a.py", "\n__import__(x)")]) == ["log/a.py:2: calls __import__"]


# The public surface, the tracked files, the twin ------------------------------------------------------------


def undocumented(surface: Any) -> list[str]:
    named = [(name, getattr(surface, name)) for name in surface.__all__]
    described = [(name, it) for name, it in named if inspect.isclass(it) or inspect.isroutine(it)]
    return [
        name for name, it in described if not (vars(it) if inspect.isclass(it) else {"__doc__": it.__doc__})["__doc__"]
    ]


def test_public_names_have_docstrings() -> None:
    perdure = pytest.importorskip("perdure")
    if not hasattr(perdure, "__all__"):
        pytest.skip("perdure/__init__.py has no __all__ yet")
    assert undocumented(perdure) == []


def test_control_a_public_name_without_docstring_is_caught() -> None:
    bare, bare_function = type("Bare", (Exception,), {}), lambda: None
    surface = SimpleNamespace(__all__=["a", "b", "c", "d"], a=bare, b=bare_function, c=File, d=3)
    assert undocumented(surface) == ["a", "b"]


def kept_files() -> list[File]:
    """What is tracked or would be: everything that .gitignore does not name."""
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing is tracked")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    texts = [File(path.relative_to(ROOT).as_posix(), text) for path in paths if (text := plain_text(path))]
    return at_least(1000, texts, "tracked files")


def plain_text(path: Path) -> str:
    """The text of a file; nothing for a binary, a link or one that just went."""
    try:
        return path.read_text("utf-8") if path.is_file() else ""
    except (UnicodeDecodeError, FileNotFoundError):
        return ""


def test_tracked_files_name_no_machine() -> None:
    assert complaints(machine_traces, kept_files()) == []


@pytest.mark.parametrize(
    "parts",
    [
        ["", "home", "me"],
        ["x = '", "root", "a'"],
        ["https:", "", "a.b:80", "pypi", "simple", "c"],
        ["file:", "", "", "opt", "simple"],
    ],
)
def test_control_a_machine_path_is_caught(parts: list[str]) -> None:
    assert complaints(machine_traces, [File("README.md", "/".join(parts))]) != []


@pytest.mark.parametrize("text", ["https://pypi.org/simple", "a.com/home", "src/work/a", "~/work/a", "a simple host"])
def test_control_other_paths_are_not_accused(text: str) -> None:
    assert complaints(machine_traces, [File("README.md", text)]) == []


def test_the_sync_twin_is_up_to_date() -> None:
    """Its control is in tests/tools/test_unasync.py: a twin that differs is named and the check fails."""
    command = [sys.executable, ROOT / "tools" / "unasync.py", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
