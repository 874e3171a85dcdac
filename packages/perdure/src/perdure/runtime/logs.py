"""Logs: what the `perdure.*` loggers say, with fields, as lines for people or for machines.

The library only writes to its loggers; it installs nothing. An application that wants our formats calls
`configure`, as the command line does for --log-level. Where records come from: `stores/commit_logging.py`, at the one
commit point. A log never holds the content of an event. A test sends a canary through every verb and
looks for it.
"""

from __future__ import annotations

import json
import logging
from typing import TextIO

from perdure.model.display import visible
from perdure.model.instants import SECOND_US, to_datetime
from perdure.runtime import log_context

ROOT = "perdure"
FIELDS = (
    "store",
    "stream",
    "seq",
    "kind",
    "actor",
    "jobs",
    "events",
    "streams",
    "fault",
    "attempt",
    "lock_wait_ms",
    "run",
    "agent",
    "parent",
    "token",
    "worker",
    "agents",
    "pid",
    "role",
    "status",
    "why",
)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The structured fields that a record carries, in the order of FIELDS; with the run that it was logged for, if any."""
    run = log_context.current()
    about = {} if run is None else {name: value for name, value in run._asdict().items() if value is not None}
    found = about | vars(record)
    return {name: found[name] for name in FIELDS if name in found}


def _instant(record: logging.LogRecord) -> str:
    return to_datetime(round(record.created * SECOND_US)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(form: logging.Formatter, record: logging.LogRecord) -> str:
    """Where something was raised: by a record that says just that (`model.display.whence`), or by an exception of ours."""
    return form.formatException(record.exc_info) if record.exc_info else getattr(record, "trace", "")


class JsonLines(logging.Formatter):
    """One JSON object a line: at, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "at": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if trace := _trace(self, record):
            line["trace"] = trace
        return json.dumps(line, default=str)


class LogLines(logging.Formatter):
    """One line for people: instant, level, logger, message, name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; whatever a name holds, the terminal gets no command from it."""
        fields = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        line = visible(
            f"{_instant(record)} {record.levelname:<7} {record.name}: {record.getMessage()} {fields}".rstrip()
        )
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


def configure(level: str = "info", *, as_json: bool = False, stream: TextIO | None = None) -> logging.Logger:
    """Send what the `perdure.*` loggers say to a stream (default: stderr). A later call replaces it."""
    root = logging.getLogger(ROOT)
    for old in [out for out in root.handlers if isinstance(out.formatter, (JsonLines, LogLines))]:
        root.removeHandler(old)
    out = logging.StreamHandler(stream)
    out.setFormatter(JsonLines() if as_json else LogLines())
    root.addHandler(out)
    root.setLevel(level.upper())
    root.propagate = False  # nothing twice, whatever the application's root logger does
    return root
