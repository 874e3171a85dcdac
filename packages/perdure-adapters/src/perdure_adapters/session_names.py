"""The names of sessions, one rule for all adapters.

The id by which a framework knows a conversation is the name of its session. A framework that knows one by several parts (an app,
a user and an id; a project and an id) joins them to one name. A session of any other name is brought: from then on the
framework's own name stands for that session. The framework continues it where it is, and nothing is copied. Callers: adapters.
"""

from __future__ import annotations

from perdure.errors import Conflict, NotFound
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Session
from perdure.handles.sync.store import Store
from perdure.planes.conversation import sessions
from perdure_adapters.shared_store import SharedStore

BROUGHT = "adapters.brought"  # scope: a framework's own name of a conversation ─▶ the session that it is


async def session_of(shared: SharedStore, own: str) -> AsyncSession:
    """The session that a framework's own name stands for."""
    return await shared.aio.session(await name_of(shared, own))


async def name_of(shared: SharedStore, own: str) -> str:
    """The name of the session that a framework's own name stands for."""
    return await (await shared.aio.scope(BROUGHT)).get(own, own)


def session_in(tx: Atomic, own: str) -> Session:
    """`session_of`, in a commit."""
    return tx.session(name_in(tx, own))


def name_in(tx: Atomic | Store, own: str) -> str:
    """`name_of`, in a commit or in sync code."""
    return tx.scope(BROUGHT).get(own, own)


def bring(tx: Atomic, session: str, own: str) -> None:
    """Let a framework's own name stand for a session. Idempotent.

    Raises NotFound if there is no such session, Conflict if the name stands for another conversation that has turns.
    """
    if tx.inside(sessions.find_session, session) is None:
        raise NotFound(f"there is no session {session!r}", path="session", hint="`perdure sessions` lists them")
    stands = name_in(tx, own)
    if stands == session:
        return
    if tx.inside(sessions.find_session, stands) is not None and tx.session(stands).turns(last=1):
        raise Conflict(f"{own!r} is the session {stands!r} already", path="session", hint="bring it under another id")
    tx.scope(BROUGHT).set(own, session)


def let_go(tx: Atomic, own: str) -> None:
    """Let a framework's own name stand for a session of its own again."""
    tx.scope(BROUGHT).unset(own)
