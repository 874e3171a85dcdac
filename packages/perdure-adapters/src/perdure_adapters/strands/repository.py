"""`PerdureSessionRepository`: sessions of Strands. A message is a turn, and is never written again.

    scope   strands/SESSION          values: session · agent/AGENT · multi_agent/ID, the framework's records
    session SESSION                  the conversation of the agent "default", which other frameworks read and continue
    session SESSION/AGENT            that of any other agent

Turns that another framework said are shown as messages, after the message that stood before them. A result that the ledger
recorded is shown where the framework's own message of it was lost in a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from strands.session.session_repository import SessionRepository  # pyright: ignore[reportMissingImports]
from strands.types.exceptions import SessionException  # pyright: ignore[reportMissingImports]
from strands.types.session import Session, SessionAgent, SessionMessage, decode_bytes_values, encode_bytes_values  # pyright: ignore[reportMissingImports]

from perdure.errors import Invalid, TooLarge
from perdure.handles.atomic import Atomic
from perdure.handles.listing import every
from perdure.model.limits import NAME_MAX_CHARS, check_name
from perdure.model.records.conversation import Role, Turn
from perdure.model.values import to_plain
from perdure_adapters.forms.strands_messages import ENVELOPE, FORM, merged
from perdure_adapters.neutral_messages import is_own, keep, records_of
from perdure_adapters.shared_store import SharedStore

DEFAULT_AGENT = "default"
_SCOPE = "strands/"


def conversation_of(session_id: str, agent_id: str) -> str:
    """The name of the session of Perdure that holds an agent's conversation. SessionException for an id that cannot be one.

    A session's id is a name of any kind, so that every session can be opened. An agent's id holds no slash: what follows the last
    one in a name can be one agent alone.
    """
    if not agent_id or "/" in agent_id:
        raise SessionException(f"agent_id={agent_id} | an agent's id cannot be empty, or contain a slash")
    try:
        check_name(session_id, "session_id", NAME_MAX_CHARS - len(_SCOPE))
        return session_id if agent_id == DEFAULT_AGENT else check_name(f"{session_id}/{agent_id}", "agent_id")
    except Invalid as error:
        raise SessionException(str(error)) from error


class PerdureSessionRepository(SessionRepository):
    """For `RepositorySessionManager(session_id, PerdureSessionRepository("sqlite:///agent.db"))`; see PerdureSessionManager.

    Every method is one commit, durable when it returns. Two processes that write to one agent of a session do not overwrite each
    other: the second message of one number is refused with SessionException.
    """

    def __init__(self, store: Any) -> None:
        self._shared = SharedStore(store)

    @property
    def shared(self) -> SharedStore:
        """The open store."""
        return self._shared

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()

    # -- sessions and agents -----------------------------------------------------------------------------------------

    def create_session(self, session: Session, **_options: Any) -> Session:
        """Create a session. Raises SessionException if there is one."""
        record = {**session.to_dict(), "session_type": session.session_type.value}

        def create(tx: Atomic) -> None:
            values = _records(tx, session.session_id)
            if values.get("session") is not None:
                raise SessionException(f"Session {session.session_id} already exists")
            values.set("session", record)

        self._shared.sync.atomic(create)
        return session

    def read_session(self, session_id: str, **_options: Any) -> Session | None:
        """A session; None if there is none."""
        record = self._record(session_id, "session")
        return None if record is None else Session.from_dict(record)

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_options: Any) -> None:
        """Create an agent. Raises SessionException if there is one, or no session."""
        self._shared.sync.atomic(lambda tx: _put_agent(tx, session_id, session_agent, is_new=True))

    def read_agent(self, session_id: str, agent_id: str, **_options: Any) -> SessionAgent | None:
        """An agent; None if there is none."""
        record = self._record(session_id, f"agent/{agent_id}")
        return None if record is None else SessionAgent.from_dict(record)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_options: Any) -> None:
        """Update an agent; the instant of its creation stays. Raises SessionException if there is none."""
        self._shared.sync.atomic(lambda tx: _put_agent(tx, session_id, session_agent, is_new=False))

    # -- messages ------------------------------------------------------------------------------------------------------

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_options: Any) -> None:
        """Add a message. A message that comes again is stored once; SessionException if another one has its number."""
        name, number = conversation_of(session_id, agent_id), session_message.message_id

        def create(tx: Atomic) -> None:
            self._check_agent(tx, session_id, agent_id)
            session, record = tx.session(name), _record_of(session_message)
            stands = session.said(_key(number))
            if stands is None:
                keep(session, FORM, record, key=_key(number))
            elif _message_of(stands) != session_message:
                raise SessionException(
                    f"Message {number} already exists in agent {agent_id} in session {session_id}: another process wrote it"
                )

        self._shared.sync.atomic(create)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **_options: Any) -> SessionMessage | None:
        """A message by its number; None if there is none."""
        if self.read_agent(session_id, agent_id) is None:
            return None
        turn = self._shared.sync.session(conversation_of(session_id, agent_id)).said(_key(message_id))
        return None if turn is None else _message_of(turn)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **_options: Any) -> None:
        """Replace a message, as a guardrail does: the turn is retracted, and the new one takes its number."""
        name, number = conversation_of(session_id, agent_id), session_message.message_id

        def update(tx: Atomic) -> None:
            self._check_agent(tx, session_id, agent_id)
            session = tx.session(name)
            stands = session.said(_key(number))
            if stands is None:
                raise SessionException(f"Message {number} does not exist in session {session_id}")
            session_message.created_at = _message_of(stands).created_at
            session.retract(stands, because="update_message")
            keep(session, FORM, _record_of(session_message), key=_key(number))

        self._shared.sync.atomic(update)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_options: Any
    ) -> list[SessionMessage]:
        """The messages in order, from `offset` on, at most `limit`."""
        if self.read_agent(session_id, agent_id) is None:
            return []
        session = self._shared.sync.session(conversation_of(session_id, agent_id))
        messages = messages_of([*every(session.turns, after=0)])
        return messages[offset:] if limit is None else messages[offset : offset + limit]

    def has_turns(self, session_id: str, agent_id: str) -> bool:
        """Whether something was said in the conversation of an agent, by whichever framework."""
        return bool(self._shared.sync.session(conversation_of(session_id, agent_id)).turns(last=1))

    # -- several agents ----------------------------------------------------------------------------------------------

    def create_multi_agent(self, session_id: str, multi_agent: Any, **_options: Any) -> None:
        """Keep the state of a graph or swarm. Raises SessionException if there is no session."""
        self._set_multi_agent(session_id, multi_agent, is_new=True)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **_options: Any) -> dict[str, Any] | None:
        """The state of a graph or swarm; None if there is none."""
        record = self._record(session_id, f"multi_agent/{multi_agent_id}")
        return None if record is None else decode_bytes_values(record)

    def update_multi_agent(self, session_id: str, multi_agent: Any, **_options: Any) -> None:
        """Keep the newer state of a graph or swarm. Raises SessionException if there was none."""
        self._set_multi_agent(session_id, multi_agent, is_new=False)

    def _set_multi_agent(self, session_id: str, multi_agent: Any, *, is_new: bool) -> None:
        name, state = f"multi_agent/{multi_agent.id}", encode_bytes_values(multi_agent.serialize_state())

        def put(tx: Atomic) -> None:
            values = _records(tx, session_id)
            _check_session(values, session_id)
            if not is_new and values.get(name) is None:
                raise SessionException(f"MultiAgent {multi_agent.id} does not exist in session {session_id}")
            values.set(name, state)

        self._shared.sync.atomic(put)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _record(self, session_id: str, name: str) -> Any:
        conversation_of(session_id, DEFAULT_AGENT)
        values = self._shared.sync.scope(_SCOPE + session_id)
        return None if values.get("session") is None else values.get(name)

    def _check_agent(self, tx: Atomic, session_id: str, agent_id: str) -> None:
        values = _records(tx, session_id)
        _check_session(values, session_id)
        if values.get(f"agent/{agent_id}") is None:
            raise SessionException(f"Agent {agent_id} does not exist in session {session_id}")


def _records(tx: Atomic, session_id: str) -> Any:
    conversation_of(session_id, DEFAULT_AGENT)
    return tx.scope(_SCOPE + session_id)


def _check_session(values: Any, session_id: str) -> None:
    if values.get("session") is None:
        raise SessionException(f"Session {session_id} does not exist")


def _put_agent(tx: Atomic, session_id: str, agent: SessionAgent, *, is_new: bool) -> None:
    conversation_of(session_id, agent.agent_id)
    values, name = _records(tx, session_id), f"agent/{agent.agent_id}"
    _check_session(values, session_id)
    stands = values.get(name)
    if (stands is None) != is_new:
        how = "already exists" if is_new else "does not exist"
        raise SessionException(f"Agent {agent.agent_id} {how} in session {session_id}")
    record = agent.to_dict()
    values.set(name, record if stands is None else {**record, "created_at": stands["created_at"]})


# -- turns and messages ------------------------------------------------------------------------------------------------


def _key(message_id: int) -> str:
    return f"strands/{message_id}"


def _record_of(message: SessionMessage) -> Any:
    """A message as a record: what counts of it, and around it what the framework keeps besides."""
    about = {"message_id": message.message_id, "created_at": message.created_at, "updated_at": message.updated_at}
    if message.redact_message is not None:
        about["redacted"] = message.message
    record = {**message.to_message(), ENVELOPE: about}
    try:
        to_plain(record, "message")
    except TooLarge:
        raise
    except Invalid:  # NUL, a lone surrogate: it is kept as JSON, which has no bytes
        return encode_bytes_values(record)
    return record


def _message_of(turn: Turn) -> SessionMessage:
    """The framework's message of one of its own turns."""
    [record] = records_of(FORM, turn) or [{}]
    message = decode_bytes_values(record)
    about = message.pop(ENVELOPE)
    redacted = about.pop("redacted", None)
    if redacted is None:
        return SessionMessage(message=message, **about)
    return SessionMessage(message=redacted, redact_message=message, **about)


class _Placed(NamedTuple):
    """A message at its place: the number of the last own message before it, and its turn."""

    number: int
    seq: int
    message: SessionMessage
    is_own: bool


def messages_of(turns: list[Turn]) -> list[SessionMessage]:
    """Turns as the framework's messages, in its order: by number, so that a replaced message stays where it was."""
    own_calls = {call.id for turn in turns if is_own(FORM, turn) for call in turn.calls}
    results = {turn.call: turn for turn in turns if not is_own(FORM, turn) and turn.call in own_calls}
    placed = sorted(_placed(turns, own_calls), key=lambda entry: (entry.number, not entry.is_own, entry.seq))
    messages: list[SessionMessage] = []
    for at, entry in enumerate(placed):
        messages.append(entry.message)
        if at + 1 < len(placed):
            messages += _lost_results(entry, placed[at + 1].message, results)
    return messages


def _placed(turns: list[Turn], own_calls: set[str]) -> Iterator[_Placed]:
    last, foreign = -1, []
    for turn in turns:
        if is_own(FORM, turn):
            yield from _joined(foreign, last)
            foreign, message = [], _message_of(turn)
            yield _Placed(message.message_id, turn.seq, message, is_own=True)
            last = max(last, message.message_id)
        elif turn.role is not Role.TOOL or turn.call not in own_calls:
            foreign.append(turn)
    yield from _joined(foreign, last)


def _joined(foreign: list[Turn], last: int) -> Iterator[_Placed]:
    """Turns of other frameworks in a row, as messages of alternating roles."""
    records = [record for turn in foreign for record in records_of(FORM, turn) or ()]
    for at, record in enumerate(merged(records)):
        instant = foreign[0].at.isoformat()
        message = SessionMessage(message=record, message_id=last, created_at=instant, updated_at=instant)
        yield _Placed(last, foreign[0].seq + at, message, is_own=False)


def _lost_results(entry: _Placed, after: SessionMessage, results: dict[str, Turn]) -> Iterator[SessionMessage]:
    """The results that the ledger has of a message's calls, if the conversation went on without the framework's own."""
    calls = [block["toolUse"]["toolUseId"] for block in entry.message.to_message()["content"] if "toolUse" in block]
    if not entry.is_own or any("toolResult" in block for block in after.to_message()["content"]):
        return
    records = [record for call in calls if call in results for record in records_of(FORM, results[call]) or ()]
    for record in merged(records):
        yield SessionMessage(message=record, message_id=entry.number)
