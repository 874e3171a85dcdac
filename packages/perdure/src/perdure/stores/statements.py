"""Named SQL: statements live in `.sql` files beside the code that uses them, written once for every database.

    -- turns_tail: the last turns of a stream, newest first.
    SELECT … WHERE stream = :stream
      AND role = :role --? role
    -- turns_tail @postgres: why PostgreSQL needs its own text
    SELECT …

A line that ends in `--? name` is left out unless that parameter is given (not None), and one in `--? !name` if it is: filters
come from this closed text, never from input. `:now` is the store's clock, `named(e)` the actor of an event as people know it,
`about(…)` and its like say what is about the subject `:about`, `copied(…)` what came by import (`about_words.sql`). Overrides
(`@sqlite`, `@postgres`) need a reason; a test counts them. `-- name prepared: …` marks a statement that a connection plans once
though it spans a range: it is run so often that planning it for each use would cost more (docs/decisions/0158).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_HEAD = re.compile(r"^-- ([a-z]\w*)( prepared)?(?: @(\w+))?: (\S.*)$")  # a capital letter begins a plain comment
_OPTIONAL = re.compile(r"\s*--\? ([\w !]+)$")
_PARAM = re.compile(r"(?<![:\w]):([a-z_]\w*)")
# `named(e)` in a statement or view: the actor of the event `e`, by the directory of its tenant (log/actors.py).
NAMED = (
    r"\bnamed\((\w+)\)",
    r"coalesce((SELECT min(who.name) FROM actors who WHERE who.tenant = \1.tenant AND who.actor = \1.actor), \1.actor)",
)
# A page, or what lies beyond a parameter; `:now` is compared with the expiry of rows that were looked up.
_RANGE = re.compile(r":limit\b|(?:<(?!>)|(?<!<)>)=? ?\(?:(?!now\b)")
_ABOUT = re.compile(r"\b((?:about|copied)(?:_\w+)?)\(([\w.]+)\)")
_POSTGRES_NOW = "coalesce(%(now)s::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint)"


class Statement:
    """One named statement; `text(dialect, params)` is what the database gets."""

    __slots__ = ("_fixed", "_rendered", "doc", "name", "overrides", "source", "spans", "uses_now")

    def __init__(self, name: str, doc: str, source: str, *, prepared: bool = False) -> None:
        self.name = name
        self.doc = doc
        self.source = source
        self.overrides: dict[str, tuple[str, str]] = {}  # dialect -> (reason, text)
        self.uses_now = ":now" in source
        # Planned for each use: its parameters say how much it reads.
        self.spans = not prepared and _RANGE.search(source) is not None
        self._rendered: dict[tuple[str, frozenset[str]], str] = {}
        self._fixed: dict[str, str] = {}  # dialect -> the text, where nothing in it is optional: most of them

    def source_for(self, dialect: str) -> str:
        """The text as it is written, with all of its optional lines."""
        return self.overrides[dialect][1] if dialect in self.overrides else self.source

    def text(self, dialect: str, params: Mapping[str, Any]) -> str:
        """The text for a database, with the optional lines whose parameters are given."""
        return self._fixed.get(dialect) or self._text(dialect, params)

    def _text(self, dialect: str, params: Mapping[str, Any]) -> str:
        given = frozenset([name for name, value in params.items() if value is not None])
        text = self._rendered.get((dialect, given))
        if text is None:
            text = self._rendered[dialect, given] = self._render(dialect, given)
        return text

    def _render(self, dialect: str, given: frozenset[str]) -> str:
        source = self.source_for(dialect)
        lines = [_OPTIONAL.sub("", line) for line in source.splitlines() if _wanted(line, given)]
        text = "\n".join(lines)
        text = re.sub(*NAMED, text)
        text = _ABOUT.sub(lambda match: _about_words()[match[1]].source_for(dialect).replace("<it>", match[2]), text)
        text = to_postgres(text) if dialect == "postgres" else text
        if not any(map(_OPTIONAL.search, source.splitlines())):
            self._fixed[dialect] = text
        return text


def _wanted(line: str, given: frozenset[str]) -> bool:
    optional = _OPTIONAL.search(line)
    return optional is None or all((name.lstrip("!") in given) != name.startswith("!") for name in optional[1].split())


def to_postgres(text: str) -> str:
    """The statement for psycopg: named parameters, and the database's own clock unless one is passed in."""
    return _PARAM.sub(lambda match: _POSTGRES_NOW if match[1] == "now" else f"%({match[1]})s", text.replace("%", "%%"))


def file_of(package: str, name: str) -> Path:
    """Where a file lies in a package. `importlib.resources` would load what opens archives: a tenth of `import perdure`."""
    paths = [Path(folder, name) for folder in import_module(package).__path__]
    return next((path for path in paths if path.exists()), paths[0])


@cache
def _about_words() -> dict[str, Statement]:
    return {each.name: each for each in Statements("perdure.stores", "about_words.sql")}


class Statements:
    """All statements of one `.sql` file, as attributes."""

    def __init__(self, package: str, file: str) -> None:
        self.file = file
        self._by_name: dict[str, Statement] = {}
        self._parse(file_of(package, file).read_text(encoding="utf-8"))

    def __getattr__(self, name: str) -> Statement:
        """Asked for what is no attribute: no such statement was parsed."""
        raise AttributeError(f"{self.file} has no statement {name!r}")

    def __iter__(self) -> Any:
        return iter(self._by_name.values())

    def _parse(self, text: str) -> None:
        head: re.Match[str] | None = None
        lines: list[str] = []
        for line in [*text.splitlines(), "-- end: "]:
            match = _HEAD.match(line) or (line == "-- end: " or None)
            if match:
                if head:
                    self._add(head, "\n".join(lines).strip())
                head, lines = (match if isinstance(match, re.Match) else None), []
            else:
                lines.append(line)

    def _add(self, head: re.Match[str], source: str) -> None:
        name, prepared, dialect, doc = head.groups()
        if dialect:
            statement = self._by_name[name]
            statement.overrides[dialect] = (doc, source)
            statement.uses_now = statement.uses_now or ":now" in source
        else:
            self._by_name[name] = Statement(name, doc, source, prepared=prepared is not None)
            setattr(self, name, self._by_name[name])
