"""`PerdureSessionStore`: mirrors transcripts of the Claude Agent SDK into sessions of Perdure, one turn a line.

A line comes back as it was. Its `uuid` is the key of its turn, so a batch that is sent again adds nothing. A deleted transcript
is retracted: the log keeps it until retention empties it. Subagents have sessions of their own. Safe under tasks and processes.
A session that another framework began is brought (`session_names`); what others said in it is shown as lines between its own.
A store that has the agent's ledger adds the results that the ledger has and the transcript has not, before a host resumes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from claude_agent_sdk import fold_session_summary  # pyright: ignore[reportMissingImports]

from perdure.errors import KeyReused
from perdure.handles.atomic import Atomic
from perdure.handles.listing import every
from perdure.handles.sync.session import Session
from perdure.model.limits import NAME_MAX_CHARS
from perdure.model.records.conversation import SessionHeader, Turn
from perdure_adapters import session_names
from perdure_adapters.forms.claude_lines import LINES, answers, chained
from perdure_adapters.neutral_messages import is_own, keep, records_by_turn
from perdure_adapters.shared_store import SharedStore

if TYPE_CHECKING:
    from perdure_adapters.claude_agent.ledger import PerdureLedger

SUMMARY = "claude.summary"
KEY = "claude.key"
BROUGHT = "claude.brought"  # of a session that was brought: the keys of the transcripts that it is, each with its host's folder


class PerdureSessionStore:
    """A `SessionStore` for `ClaudeAgentOptions(session_store=…)`. store: a URL or an open store. ledger: that of the agent."""

    def __init__(self, store: Any, *, ledger: PerdureLedger | None = None) -> None:
        self._opened = SharedStore(store)
        self._ledger = ledger

    # -- the protocol ----------------------------------------------------------------------------------------------

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Add lines in one commit, each uuid once."""
        if entries:
            await run_sync(self._opened.sync.atomic, lambda tx: _append(tx, key, entries))

    async def load(self, key: Any) -> list[Any] | None:
        """All lines in order; None if there are none.

        With a ledger, calls that an earlier process carried out, and whose results were not mirrored when it died, have them.
        """
        results = {} if self._ledger is None else await self._ledger.untold(key)
        if results:
            await self.append(key, answers(await run_sync(self._load, key) or [], results))
        return await run_sync(self._load, key)

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The transcripts of a project, without those of subagents."""
        return await run_sync(self._listed, project_key)

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """The summary of each transcript that the SDK folds as lines come."""
        return await run_sync(self._summaries, project_key)

    async def delete(self, key: Any) -> None:
        """Take a transcript back, with those of its subagents unless one of them is named."""
        await run_sync(self._delete, key)

    async def list_subkeys(self, key: Any) -> list[str]:
        """The subagents of a transcript."""
        return await run_sync(self._subkeys, key)

    # -- for other code --------------------------------------------------------------------------------------------

    async def bring(self, session: str, key: Any, *, cwd: str) -> int:
        """Let a session that any framework wrote be this transcript: `resume=key["session_id"]` continues it where it is.

        Idempotent. session: its name in Perdure. cwd: the folder of the host, as its lines say it. Returns how many lines there
        are. Raises NotFound if there is no such session, Conflict if the transcript has lines of its own.
        """
        return await run_sync(self._bring, session, key, cwd)

    # -- how: on a thread, because hosts run the SDK under asyncio and under trio ------------------------------------

    def _load(self, key: Any) -> list[Any] | None:
        session = self._find(key)
        if session is None:
            return None
        brought = next((origin for origin in session.get(BROUGHT, []) if _is_of(origin, key)), {})
        lines = _lines([*every(session.turns, after=0)])
        return chained(lines, brought.get("session_id"), brought.get("cwd", "")) or None

    def _bring(self, name: str, key: Any, cwd: str) -> int:
        self._opened.sync.atomic(lambda tx: _bring(tx, name, key, cwd))
        return len(self._load(key) or ())

    def _listed(self, project_key: str) -> list[Any]:
        return [
            {"session_id": key["session_id"], "mtime": _ms(header)}
            for header in self._labelled(_project(project_key))
            for key in [self._get(header, KEY), *(self._get(header, BROUGHT) or ())]
            if key is not None and key["project_key"] == project_key
        ]

    def _summaries(self, project_key: str) -> list[Any]:
        pairs = [(header, self._get(header, SUMMARY)) for header in self._labelled(_project(project_key))]
        return [{**summary, "mtime": _ms(header)} for header, summary in pairs if summary is not None]

    def _delete(self, key: Any) -> None:
        names = [session_names.name_in(self._opened.sync, name_of(key))] if self._find(key) is not None else []
        if not key.get("subpath"):
            names += [header.name for header in self._labelled(_family(key))]
        for name in names:
            self._opened.sync.atomic(lambda tx, name=name: _delete(tx, name, key))

    def _subkeys(self, key: Any) -> list[str]:
        return [self._get(header, KEY)["subpath"] for header in self._labelled(_family(key))]

    def _find(self, key: Any) -> Session | None:
        """The session of a transcript that has lines; none is made."""
        label = _family(key) if key.get("subpath") else _project(key["project_key"])
        name = session_names.name_in(self._opened.sync, name_of(key))
        has_lines = any(header.name == name for header in self._labelled(label))
        return self._opened.sync.session(name) if has_lines else None

    def _labelled(self, label: str) -> Iterator[SessionHeader]:
        return every(self._opened.sync.sessions, label=label)

    def _get(self, header: SessionHeader, name: str) -> Any:
        return self._opened.sync.session(header.name).get(name)

    def close(self) -> None:
        """Let the store go."""
        self._opened.close()


def name_of(key: Any) -> str:
    """The name of the session that holds a transcript."""
    parts = [key["project_key"], key["session_id"], *([key["subpath"]] if key.get("subpath") else [])]
    return _short("claude:" + "/".join(parts), parts)


def _project(project_key: str) -> str:
    return _short(f"claude-project:{project_key}", [project_key])


def _family(key: Any) -> str:
    parts = [key["project_key"], key["session_id"]]
    return _short("claude-of:" + "/".join(parts), parts)


def _short(name: str, parts: list[str]) -> str:
    """The name, if it is short and says which parts it has; else a digest of the parts."""
    if len(name) <= NAME_MAX_CHARS and name.isprintable() and not any("/" in part for part in parts[:2]):
        return name
    return f"{name.partition(':')[0]}:{hashlib.sha256(repr(parts).encode()).hexdigest()}"


def _append(tx: Atomic, key: Any, entries: list[Any]) -> None:
    own = bool(key.get("subpath"))
    session = session_names.session_in(tx, name_of(key))
    session.label(_family(key) if own else _project(key["project_key"]))
    if session.get(KEY) is None and session.get(BROUGHT) is None:
        session.set(KEY, {name: value for name, value in key.items() if value is not None})
    for entry in entries:
        uuid = entry.get("uuid")
        try:
            keep(session, LINES, entry, key=uuid if isinstance(uuid, str) and uuid else None)
        except KeyReused:
            continue  # the first of a uuid stands
    if not own:
        session.set(SUMMARY, fold_session_summary(session.get(SUMMARY), key, entries))


def _lines(turns: list[Turn]) -> Iterator[Any]:
    """The lines of a transcript. Those of other frameworks have the instants of their turns."""
    for turn, lines in records_by_turn(LINES, turns, resumes=True):
        yield from (line if is_own(LINES, turn) else {"timestamp": turn.at.isoformat(), **line} for line in lines or ())


def _bring(tx: Atomic, name: str, key: Any, cwd: str) -> None:
    session_names.bring(tx, name, name_of(key))
    session = tx.session(name)
    session.label(_project(key["project_key"]))
    others = [origin for origin in session.get(BROUGHT, []) if not _is_of(origin, key)]
    about = {"project_key": key["project_key"], "session_id": key["session_id"], "cwd": cwd}
    if session.get(BROUGHT) != (origins := [*others, about]):
        session.set(BROUGHT, origins)


def _is_of(brought: Any, key: Any) -> bool:
    return all(brought[name] == key[name] for name in ("project_key", "session_id"))


def _delete(tx: Atomic, name: str, key: Any) -> None:
    session = tx.session(name)
    session.retract(*every(session.turns, after=0), because="delete")
    session.unlabel(_project(key["project_key"]), _family(key))
    session.unset(SUMMARY)
    session.unset(BROUGHT)
    session_names.let_go(tx, name_of(key))


def _ms(header: SessionHeader) -> int:
    return int(header.last_at.timestamp() * 1000)
