"""`PerdureSessionService`: sessions of Google ADK that last. An event is a turn, and a state delta lands in its commit.

    session adk/APP/USER/ID      turns with their events · value adk.state
    scope   adk/APP              values: state that all of the app share · scope adk/APP/USER: of a user
    scope   adk.sessions/APP     USER/ID ─▶ when it was last updated: for listings

Two processes may append to one session: no copy is stale, and no event is lost. An event that comes again is stored once. Turns
of other frameworks are shown as events, and a session that another framework began is brought (`session_names`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from google.adk.errors.already_exists_error import AlreadyExistsError  # pyright: ignore[reportMissingImports]
from google.adk.errors.session_not_found_error import SessionNotFoundError  # pyright: ignore[reportMissingImports]
from google.adk.events.event import Event  # pyright: ignore[reportMissingImports]
from google.adk.platform.time import get_time  # pyright: ignore[reportMissingImports]
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse  # pyright: ignore[reportMissingImports]
from google.adk.sessions.session import Session  # pyright: ignore[reportMissingImports]
from google.adk.sessions.state import State  # pyright: ignore[reportMissingImports]
from pydantic_core import to_jsonable_python

from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery, every
from perdure.model.ids import new_uid
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.conversation import Turn
from perdure_adapters import session_names
from perdure_adapters.forms.adk_events import FORM
from perdure_adapters.neutral_messages import is_own, keep, records_by_turn, records_of
from perdure_adapters.shared_store import SharedStore

STATE = "adk.state"


def name_of(*parts: str) -> str:
    """The name of a session or a scope: its parts cannot be confused, whatever they hold."""
    return "/".join(("adk", *(quote(part, safe=" ") for part in parts)))


class PerdureSessionService(BaseSessionService):
    """For `Runner(…, session_service=PerdureSessionService("sqlite:///agent.db"))`. store: a URL or an open store."""

    def __init__(self, store: Any) -> None:
        self._shared = SharedStore(store)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session. Raises AlreadyExistsError if there is one of this id."""
        own_id = (session_id or "").strip() or new_uid().hex()
        parts = _divided(state or {})
        now = get_time()
        if not await self._shared.aio.atomic(lambda tx: _create(tx, app_name, user_id, own_id, parts, now)):
            raise AlreadyExistsError(f"Session with id {own_id} already exists.")
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=own_id)
        assert session is not None, "created above"
        return session

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or the newest of them; None if it is not there. Costs what it gives."""
        own_id = session_id.strip()
        head = await (await self._shared.aio.scope(_list(app_name))).get(_entry(user_id, own_id))
        if head is None:
            return None
        session = await session_names.session_of(self._shared, name_of(app_name, user_id, own_id))
        events = await _events(session, config or GetSessionConfig())
        state = await self._state(app_name, user_id, session)
        return Session(
            app_name=app_name, user_id=user_id, id=own_id, state=state, events=events, last_update_time=head["updated"]
        )

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions without their events, the oldest update first."""
        listing = await self._shared.aio.scope(_list(app_name))
        prefix = None if user_id is None else _entry(user_id, "")
        sessions = []
        async for entry in aevery(listing.entries, prefix=prefix):
            user, _, session_id = entry.name.partition("/")
            owner, own = unquote(user), unquote(session_id)
            session = await session_names.session_of(self._shared, name_of(app_name, owner, own))
            state = await self._state(app_name, owner, session)
            about = {"state": state, "last_update_time": entry.value["updated"]}
            sessions.append(Session(app_name=app_name, user_id=owner, id=own, **about))
        return ListSessionsResponse(
            sessions=sorted(sessions, key=lambda session: (session.last_update_time, session.user_id, session.id))
        )

    async def bring(self, session: str, *, app_name: str, user_id: str, session_id: str) -> Session:
        """Let a session that any framework wrote be this session of a user: it is continued where it is. Idempotent.

        session: its name in Perdure. Raises NotFound if there is none, Conflict if the id is that of another session with events.
        """
        own_id = session_id.strip()
        await self._shared.aio.atomic(lambda tx: _bring(tx, session, app_name, user_id, own_id))
        own_session = await self.get_session(app_name=app_name, user_id=user_id, session_id=own_id)
        assert own_session is not None, "brought above"
        return own_session

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session: its events are retracted, and retention empties them. Idempotent."""
        await self._shared.aio.atomic(lambda tx: _delete(tx, app_name, user_id, session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state that the sessions of a user share, without its prefix."""
        return dict(await (await self._shared.aio.scope(name_of(app_name, user_id))).get(STATE, {}))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event: one commit with its state. Partial events are not stored, and neither is `temp:` state."""
        if event.partial:
            return event
        event.id = event.id or new_uid().hex()
        trimmed = self._trim_temp_delta_state(event.model_copy(deep=True))
        record = trimmed.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=repr)
        delta = _divided(trimmed.actions.state_delta or {}) if trimmed.actions else _divided({})
        new = await self._shared.aio.atomic(lambda tx: _append(tx, session, event, record, delta))
        if new is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if new:
            await super().append_event(session=session, event=event)
            session.last_update_time = event.timestamp
        return event

    async def _state(self, app_name: str, user_id: str, session: AsyncSession) -> dict[str, Any]:
        app = await (await self._shared.aio.scope(name_of(app_name))).get(STATE, {})
        user = await self.get_user_state(app_name=app_name, user_id=user_id)
        merged = dict(await session.get(STATE, {}))
        merged |= {State.APP_PREFIX + key: value for key, value in app.items()}
        return merged | {State.USER_PREFIX + key: value for key, value in user.items()}

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


# -- in one commit -----------------------------------------------------------------------------------------------


def _create(
    tx: Atomic, app: str, user: str, own_id: str, parts: dict[str, dict[str, Any]], now: float
) -> bool:  # fmt: skip
    listing = tx.scope(_list(app))
    if listing.get(_entry(user, own_id)) is not None:
        return False
    session_names.session_in(tx, name_of(app, user, own_id)).set(STATE, parts["session"])
    _share(tx, app, user, parts)
    listing.set(_entry(user, own_id), {"updated": now})
    return True


def _bring(tx: Atomic, session: str, app: str, user: str, own_id: str) -> None:
    session_names.bring(tx, session, name_of(app, user, own_id))
    listing = tx.scope(_list(app))
    if listing.get(_entry(user, own_id)) is None:
        newest = tx.session(session).turns(last=1)
        listing.set(_entry(user, own_id), {"updated": newest[0].at.timestamp() if newest else 0.0})


def _append(tx: Atomic, session: Session, event: Event, record: Any, delta: dict[str, dict[str, Any]]) -> bool | None:
    """None: there is no such session. False: the event stands already."""
    app, user = session.app_name, session.user_id
    listing = tx.scope(_list(app))
    if listing.get(_entry(user, session.id)) is None:
        return None
    conversation = session_names.session_in(tx, name_of(app, user, session.id))
    stands = conversation.said(event.id)
    if stands is not None and records_of(FORM, stands) == [record]:
        return False
    keep(conversation, FORM, record, key=event.id if stands is None else None)
    if delta["session"]:
        conversation.set(STATE, {**conversation.get(STATE, {}), **delta["session"]})
    _share(tx, app, user, delta)
    listing.set(_entry(user, session.id), {"updated": event.timestamp})
    return True


def _share(tx: Atomic, app: str, user: str, delta: dict[str, dict[str, Any]]) -> None:
    for scope, changed in ((name_of(app), delta["app"]), (name_of(app, user), delta["user"])):
        if changed:
            values = tx.scope(scope)
            values.set(STATE, {**values.get(STATE, {}), **changed})


def _delete(tx: Atomic, app: str, user: str, own_id: str) -> None:
    if not tx.scope(_list(app)).unset(_entry(user, own_id)):
        return
    session = session_names.session_in(tx, name_of(app, user, own_id))
    session.retract(*every(session.turns, after=0), because="delete_session")
    session.unset(STATE)
    session_names.let_go(tx, name_of(app, user, own_id))


# -- names, states and events ------------------------------------------------------------------------------------


def _list(app: str) -> str:
    return f"adk.sessions/{quote(app, safe=' ')}"


def _entry(user: str, session_id: str) -> str:
    return f"{quote(user, safe=' ')}/{quote(session_id, safe=' ')}"


def _divided(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """State by whom it belongs to; `temp:` belongs to nobody, and what is no JSON is kept as text."""
    parts: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for key, value in to_jsonable_python(state, fallback=repr).items():
        if key.startswith(State.APP_PREFIX):
            parts["app"][key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            parts["user"][key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            parts["session"][key] = value
    return parts


async def _events(session: AsyncSession, config: GetSessionConfig) -> list[Event]:
    recent = config.num_recent_events
    records: list[Any] = []
    if recent is None:
        records = _records([turn async for turn in aevery(session.turns, after=0)])
    elif recent:
        page = turns = [*await session.turns(last=min(2 * recent + 10, PAGE_MAX_ROWS))]
        while page and len(records := _records(turns)) < recent:
            page = [*await session.turns(before=turns[0].seq, limit=PAGE_MAX_ROWS)]
            turns = [*page, *turns]
        records = records[-recent:]
    events = [Event.model_validate(record) for record in records]
    after = config.after_timestamp
    if after is not None:
        older = [at for at, event in enumerate(events) if event.timestamp < after]
        events = events[older[-1] + 1 :] if older else events
    return events


def _records(turns: Sequence[Turn]) -> list[Any]:
    """The events of turns. Those of other frameworks have the instants of their turns."""
    return [
        record if is_own(FORM, turn) else {"timestamp": turn.at.timestamp(), **record}
        for turn, records in records_by_turn(FORM, turns, resumes=True)
        for record in records or ()
    ]
