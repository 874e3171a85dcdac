# Generated from handles/aio/conversation.py by tools/unasync.py: edit that one.
"""Handles for sessions, turns, summaries, transcripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from perdure.errors import Invalid, TimedOut, TooLarge
from perdure.handles.later import summaries
from perdure.handles.sync.base import StoreHandle, StreamHandle
from perdure.handles.sync.made import gives, pages_all, reads
from perdure.log.change import Stream
from perdure.model.filters import SessionFilters
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.records.conversation import (
    Call,
    Cover,
    Ending,
    Native,
    Pins,
    SessionRecord,
    Shape,
    Speaker,
    Status,
    Turn,
)
from perdure.model.storable import storable
from perdure.planes import subjects as adding
from perdure.planes.conversation import sessions, turns
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page
from perdure.stores.tx import Tx
from perdure.verbs import conversation as verbs

if TYPE_CHECKING:
    from perdure.planes.conversation.transcript import Transcript

P = ParamSpec("P")
_NONE = (None, None, None, None)
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.001, 0.05


class Conversation(StreamHandle):
    """The verbs of a session for its status, goal, pins, turns, summaries and transcript.

    Every write is one commit: whole or not at all, durable when the call returns, and not begun if it raises.
    """

    __slots__ = ()

    # -- turns -----------------------------------------------------------------------------------------------

    def say(
        self,
        role: Speaker,
        content: Any = None,
        *,
        key: str | None = None,
        calls: Sequence[Call] = (),
        about: Iterable[str] = (),
        shown: Iterable[object] = (),
        native: tuple[str, Any] | Native | None = None,
        usage: Mapping[str, Any] | None = None,
        model: str | None = None,
        parent: Turn | int | None = None,
    ) -> Turn:
        """Add a turn. The role is system, user or assistant; the content is any value, mostly text or content parts.

        key: makes it idempotent, also after a crash or a lost reply: the same key and input return the turn that stands, other
            input raises KeyReused. Without a key every call adds a turn.
        calls: tool calls of an assistant turn. An id is used once until its call has a result (Conflict).
        about: the persons or things that the turn is about, for erasure and access.
        shown: the hits, memories or turns that the model was shown before it said this; kept as the turn's `shown`.
        native: the message in its framework's own form, as (form, body), where the turn cannot express all of it. The content
            may then be left out, and only that framework can show the turn.
        usage, model: the tokens that it took, and the model that said it.
        parent: the turn that it follows, if not the one before it (0: none). `line` returns such a branch.

        The first turn in a closed session opens it again, in the same commit. Raises Invalid or TooLarge with the path.
        """
        write = self._write if self._stream.id in self._caller.heartbeat.spoken else self._speak
        rare = (native, usage, model, parent) != _NONE or calls or about or shown
        if not rare:  # nearly every turn: eleven arguments cost as much as the row
            return write(turns.say, role, content, key=key)
        return write(
            turns.say, role, content, key=key, calls=calls, about=about, shown=shown, native=native, usage=usage, model=model,
            parent=parent,
        )  # fmt: skip

    def _speak(self, verb: Callable[Concatenate[Tx, Stream, P], Turn], /, *args: P.args, **kwargs: P.kwargs) -> Turn:
        """Write a turn; the first one of this store in a session looks whether that was closed."""
        heartbeat = self._caller.heartbeat
        if self._stream.id in heartbeat.spoken:
            return self._write(verb, *args, **kwargs)
        said = self._write(sessions.reopening(verb), *args, **kwargs)
        if self._stream.id in heartbeat.attended:  # else it is not committed yet
            heartbeat.spoken.add(self._stream.id)
        return said

    def result(
        self, call_id: str, value: Any, *, error: bool = False, key: str | None = None,
        native: tuple[str, Any] | Native | None = None, about: Iterable[str] = (),
    ) -> Turn:  # fmt: skip
        """Add the result of a call, as a tool turn. Idempotent: a call has one result.

        The same result again returns the turn that stands; another one raises KeyReused. NotFound if no turn made the call. An
        id that was used again names the newest call.
        key: a name for this result, by which it is found even if the id is used again.
        native: as for `say`.
        about: as for `say`; the result is also about the subjects of the turn that made the call.

        Parts that no store takes (NUL, a lone surrogate, an object) are kept as text, {"unstorable": type, "text": text},
        because the call was made. Raises TooLarge.
        """
        try:
            return self._speak(turns.result, call_id, value, error=error, key=key, native=native, about=about)
        except Invalid as refused:
            if isinstance(refused, TooLarge) or not refused.path.startswith("value"):
                raise
        return self._speak(turns.result, call_id, storable(value), error=error, key=key, native=native, about=about)

    def retract(self, *turns_: Turn | int, because: str | None = None, about: Iterable[str] = ()) -> int:
        """Take turns back: turns, transcript, pending, search and boot no longer show them, and their keys are free again.

        Returns how many this call took back. Idempotent. The log keeps the turns, `at` shows them as they were, and retention
        empties them by its rules for turns. A call whose result is taken back waits for a result again. A fork that was made
        before still has the turns; a fork that takes back shared turns hides them for itself. A summary that covers them stays
        as it is. NotFound if one is no turn of this session.
        """
        return self._write(turns.retract, turns_, because, about=about)

    line = reads(verbs.line)

    def await_durable(self, position: Turn | int | str, *, timeout: Duration = "30s") -> int:
        """Wait until another thread, task or process has written something: an event by its number, or a turn by its key.

        Returns the number of the event. Raises TimedOut if it does not come.
        """
        seconds = duration_us(timeout, "timeout") / SECOND_US
        deadline, pause = time.monotonic() + seconds, FIRST_LOOK_SECONDS
        while (seq := self._read(turns.durable, position)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{position!r} is not durable after {seconds:g} s", path="position")
            self._caller.pause(min(pause, left))
            pause = min(pause * 2, LAST_LOOK_SECONDS)
        return seq

    def turns(
        self,
        last: int | None = None,
        *,
        after: int | str | None = None,
        before: int | str | None = None,
        about: str | None = None,
        limit: int = 100,
    ) -> Page[Turn]:
        """Return turns in order: the `last` so many, or up to `limit` after or before a sequence number.

        Without arguments, the last 100. One call returns at most 1,000; `perdure.every(session.turns)` iterates over all.
        `.next` of the page is None when there are no more. Otherwise pass it as `after=` if you gave `after` (0: from the
        first), or as `before=` to read earlier turns. A fork also shows the turns of its origin.
        about: only turns about this subject.
        """
        return self._read(turns.turns, last=last, after=after, before=before, about=about, limit=limit)

    said = reads(verbs.said)

    result_of = reads(verbs.result_of)

    pending = reads(verbs.pending_)

    def summarise(
        self,
        upto: int,
        text: str,
        *,
        from_: int | None = None,
        keys: Iterable[str] | None = None,
        about: Iterable[str] = (),
    ) -> Cover:
        """Let a text stand for the turns from `from_` (default: the first) to `upto`. The turns stay readable.

        keys: identifiers (paths, names of code, versions …) to keep beside the text. Default: those of the range that the text
            does not mention, at most the 200 most frequent.
        about: subjects of the summary, besides those of the turns.

        A later summary may cover whole earlier ones. Raises Conflict if it would cross one, lie inside one, or separate a call
        from its result, and NotFound if there are no such turns. Not idempotent: of two equal ranges the newest stands.
        """
        names = self._read(summaries.keys_of, upto, text, from_=from_) if keys is None else keys
        return self._write(summaries.summarise, upto, text, from_=from_, keys=names, about=about)

    def lacking(self, cover: Cover) -> list[str]:
        """Return the identifiers in the turns of a summary that neither its text nor its keys mention. Writes nothing."""
        return self._read(summaries.lacking, cover)

    due = reads(verbs.due)

    covers = reads(verbs.covers)

    def transcript(
        self, format: Shape = "openai", *, full: bool = False, last: int | None = None  # noqa: A002 - the users' word
    ) -> Transcript:  # fmt: skip
        """Return the conversation as messages for "openai" or "anthropic" (whose system text is in `.system`): always valid
        (P14).

        full: show all turns. Otherwise a summary stands for the turns that it covers; system turns always stay.
        last: only so many of the newest turns, and more where a call would be separated from its result.

        A call whose result never came gets a result that says so.
        """
        return self._read(summaries.transcript, format, full=full, last=last)

    # -- status ----------------------------------------------------------------------------------------------

    def get_status(self) -> Status:
        """Return active, waiting, completed or failed; crashed when the process at work in the session died without leaving."""
        return self._read(sessions.get_status)

    @property
    def status(self) -> Status:
        """The answer of `get_status`."""
        return self.get_status()

    def info(self) -> SessionRecord:
        """Return everything about the session except its contents."""
        return self._read(sessions.info)

    def mark_waiting(self) -> None:
        """Mark the session as waiting for a person or program. Idempotent. Conflict if it is closed."""
        self._write(sessions.mark_waiting)

    def mark_active(self) -> None:
        """Mark a waiting session as active again. Idempotent. Conflict if it is closed."""
        self._write(sessions.mark_active)

    def close(self, status: Ending = "completed") -> None:
        """End the session as completed or failed. Idempotent; Conflict if it ended the other way.

        Closing states that the work is over; it locks nothing. A later turn is kept and opens the session again. Another
        process that is at work in the session at this moment may still add a turn without opening it.
        """
        self._write(sessions.close_session, status, self._caller.core.holder)
        self._caller.heartbeat.step_out(self._stream)

    def reopen(self) -> None:
        """Make a closed session active again. Idempotent: an open one stays as it is."""
        self._write(sessions.reopen)

    def archive(self) -> None:
        """Leave the session out of listings. All of it stays, and it can be opened by its name. Idempotent.

        Raises Conflict for an open session: unfinished work must stay visible. `reopen` takes the session out of the archive
        too.
        """
        self._write(sessions.archive)

    def unarchive(self) -> None:
        """Show the session in listings again. Idempotent."""
        self._write(sessions.unarchive)

    unpark = gives(verbs.unpark)

    # -- goal, labels, pins ----------------------------------------------------------------------------------

    def get_goal(self) -> str | None:
        """Return the goal of the session, or None."""
        return self._read(sessions.get_goal)

    def set_goal(self, goal: str | None, *, about: Iterable[str] = ()) -> None:
        """Set the goal of the session; None removes it. Idempotent. about: subjects of the whole session from here on."""
        self._write(sessions.set_goal, goal, about=about)

    def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """Say that the whole session, before and after, and its runs are about these persons or things. Returns all of its
        subjects. Idempotent.
        """
        return self._write(adding.add_to_session, subjects)

    @property
    def goal(self) -> str | None:
        """The goal of the session; setting it is one commit."""
        return self.get_goal()

    @goal.setter
    def goal(self, goal: str | None) -> None:
        self.set_goal(goal)

    def set_title(self, title: str, *, about: Iterable[str] = ()) -> None:
        """Change the title of the session. Its name, by which it is opened, stays. Idempotent. about: as for a goal."""
        self._write(sessions.set_title, title, about=about)

    def label(self, *labels: str) -> tuple[str, ...]:
        """Add labels; returns all labels. Idempotent."""
        return self._write(sessions.label, labels)

    def unlabel(self, *labels: str) -> tuple[str, ...]:
        """Remove labels; returns the labels that stay. Idempotent."""
        return self._write(sessions.unlabel, labels)

    def pin(
        self,
        *,
        model: str | None = None,
        prompt: str | None = None,
        tools: Mapping[str, str] | None = None,
        commit: str | None = None,
    ) -> Pins:
        """Pin the software versions in force. A given version replaces the pinned one; the others stay. Idempotent.

        The text of the prompt is hashed, not kept. Every later event of this handle, and of handles that are opened from now
        on, carries the digest of the pins.
        """
        pins: Pins = self._write(sessions.pin, model=model, prompt=prompt, tools=tools, commit=commit)
        self._pin = pins.digest
        return pins

    def pins(self) -> Pins | None:
        """Return the pinned software versions, or None."""
        return self._read(sessions.get_pins)


class ConversationAcross(StoreHandle):
    """Verbs of a store that ask across all sessions."""

    __slots__ = ()

    sessions = pages_all(verbs.all_sessions, SessionFilters)
