"""Handles for sessions, turns, summaries, transcripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Never, NoReturn, ParamSpec

from perdure.effects.storable import storable
from perdure.errors import Invalid, TimedOut, TooLarge
from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.filtered import filtered
from perdure.handles.later import summaries
from perdure.log.change import Stream
from perdure.model.filters import SessionFilters
from perdure.model.instants import SECOND_US, duration_us
from perdure.model.records.conversation import (
    Call,
    Cover,
    Due,
    Ending,
    Native,
    Pending,
    Pins,
    SessionHeader,
    SessionRecord,
    Shape,
    Speaker,
    Status,
    Turn,
)
from perdure.planes import subjects as adding
from perdure.planes.conversation import pending, sessions, turns
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from perdure.planes.conversation.transcript import Transcript

P = ParamSpec("P")
_NONE = (None, None, None, None)
FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.001, 0.05


class AsyncConversation(AsyncStreamHandle):
    """The verbs of a session for its status, goal, pins, turns, summaries and transcript.

    Every write is one commit: whole or not at all, durable when the call returns, and not begun if it raises.
    """

    __slots__ = ()

    # -- turns -----------------------------------------------------------------------------------------------

    async def say(
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
        """Add a turn: role system, user or assistant; content is any value, mostly text or content parts.

        key: makes it idempotent, also after a crash or a lost reply: the same key and input give the turn
        that stands, other input raises KeyReused. Without a key every call is a new turn. calls: tool calls
        of an assistant turn; an id is used once until its call has a result (Conflict). about: whom it is about, for
        erasure and access. shown: what the model was shown when it said this (hits of a recall or a search, memories, turns):
        kept with the turn, as its `shown`. native: the message as its framework has it, (form, body), where the turn cannot
        say all of it; with it the content may be left out, and then only that framework can show the turn. usage, model: what
        saying it took. parent: the turn that it follows, if that is not the one before it (0: none); `line` gives a branch.
        A closed session is open again from the first turn on, in the same commit: nothing
        that was said is lost, and no session reads as over that continues. Raises Invalid or TooLarge with the path.
        """
        write = self._write if self._stream.id in self._caller.heartbeat.spoken else self._speak
        rare = (native, usage, model, parent) != _NONE or calls or about or shown
        if not rare:  # nearly every turn: eleven arguments cost as much as the row
            return await write(turns.say, role, content, key=key)
        return await write(
            turns.say, role, content, key=key, calls=calls, about=about, shown=shown, native=native, usage=usage, model=model,
            parent=parent,
        )  # fmt: skip

    async def _speak(
        self, verb: Callable[Concatenate[Tx, Stream, P], Turn], /, *args: P.args, **kwargs: P.kwargs
    ) -> Turn:
        """Write a turn; the first one of this store in a session looks whether that was closed."""
        heartbeat = self._caller.heartbeat
        if self._stream.id in heartbeat.spoken:
            return await self._write(verb, *args, **kwargs)
        said = await self._write(sessions.reopening(verb), *args, **kwargs)
        if self._stream.id in heartbeat.attended:  # else it is not committed yet
            heartbeat.spoken.add(self._stream.id)
        return said

    async def result(
        self, call_id: str, value: Any, *, error: bool = False, key: str | None = None,
        native: tuple[str, Any] | Native | None = None, about: Iterable[str] = (),
    ) -> Turn:  # fmt: skip
        """Add the result of a call, as a tool turn. Idempotent: a call has one result.

        An id that was used again names the newest call. key: names this result, so that it is found also after that. native:
        as of `say`. The same result again gives the turn that stands; another one raises KeyReused. NotFound if no turn
        made the call. Parts that no store takes (NUL, a lone surrogate, an object) are kept as text, as in the result of an
        effect, because the call was made: {"unstorable": its type, "text": what it says}. TooLarge is raised as ever. about: as
        for `say`; it is also about whom the turn is that made the call.
        """
        try:
            return await self._speak(turns.result, call_id, value, error=error, key=key, native=native, about=about)
        except Invalid as refused:
            if isinstance(refused, TooLarge) or not refused.path.startswith("value"):
                raise
        return await self._speak(
            turns.result, call_id, storable(value), error=error, key=key, native=native, about=about
        )

    async def retract(self, *turns_: Turn | int, because: str | None = None, about: Iterable[str] = ()) -> int:
        """Take turns back: nothing shows them any more (turns, transcript, pending, search, boot), and their keys are free again.
        Returns how many this call took back. Idempotent.

        The log keeps them, and `at` shows them as they were; retention empties them by its rules for turns. A call whose result
        is taken back waits for one again. A fork that was made before still has them; a fork that takes back what it shares
        hides it for itself. A summary that was made of them stays as it is. NotFound if one is no turn of this session.
        """
        return await self._write(turns.retract, turns_, because, about=about)

    async def line(self, head: Turn | int, *, limit: int = 100) -> list[Turn]:
        """The branch that ends with a turn, in order, the newest `limit` of it: each turn follows its `parent`, or else the
        turn before it. NotFound if there is no such turn. `turns` and `transcript` show all branches, in the order of saying.
        """
        return await self._read(turns.line, head, limit)

    async def await_durable(self, position: Turn | int | str, *, timeout: Duration = "30s") -> int:
        """Wait until something is durable that another thread, task or process is about to write: an event by its number, or a
        turn by its key. Returns its number; TimedOut if it does not come.
        """
        seconds = duration_us(timeout, "timeout") / SECOND_US
        deadline, pause = time.monotonic() + seconds, FIRST_LOOK_SECONDS
        while (seq := await self._read(turns.durable, position)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{position!r} is not durable after {seconds:g} s", path="position")
            await self._caller.pause(min(pause, left))
            pause = min(pause * 2, LAST_LOOK_SECONDS)
        return seq

    async def turns(
        self,
        last: int | None = None,
        *,
        after: int | str | None = None,
        before: int | str | None = None,
        about: str | None = None,
        limit: int = 100,
    ) -> Page[Turn]:
        """Turns in order: the `last` so many; or up to `limit` of those after or before a sequence number.

        Without arguments, the last 100. At most 1,000 at once; `perdure.every(session.turns)` goes through all. `.next` of
        what it gives is None when that was all; else there are more: further on, for `after=`, if `after` was given (0: from
        the first), or earlier ones, for `before=`. A fork shows the turns of what it was forked from. about: only those that are
        about this subject.
        """
        return await self._read(turns.turns, last=last, after=after, before=before, about=about, limit=limit)

    async def said(self, key: str) -> Turn | None:
        """The turn that was said under a key, if there is one."""
        return await self._read(turns.said, key)

    async def result_of(self, call_id: str) -> Turn | None:
        """The result of a call, if it has one: of the newest turn that made it."""
        return await self._read(turns.result_of, call_id)

    async def pending(self) -> Pending | None:
        """The open end of the conversation: the results of calls, or the answer to a turn; None when nothing. Raises NotFound in
        a past, or in a fork made there, whose last turns were pruned since.
        """
        return await self._read(pending.pending)

    async def summarise(
        self,
        upto: int,
        text: str,
        *,
        from_: int | None = None,
        keys: Iterable[str] | None = None,
        about: Iterable[str] = (),
    ) -> Cover:
        """Let a text stand for the turns from `from_` (by default the first) to `upto`; they stay readable.

        keys: identifiers (paths, names of code, versions …) that are kept beside the text. By default these are the ones of
        the range that the text does not say, so that none is lost; the most frequent 200 of them.
        A later summary may swallow earlier ones whole. Conflict if it would cross one, lie inside one, or
        part a call from its result. NotFound if there are no such turns. Not idempotent: the newest of two
        equal ranges stands. about: whom it is about besides those of the turns.
        """
        names = await self._read(summaries.keys_of, upto, text, from_=from_) if keys is None else keys
        return await self._write(summaries.summarise, upto, text, from_=from_, keys=names, about=about)

    async def lacking(self, cover: Cover) -> list[str]:
        """The identifiers of what a summary covers that neither its text nor its keys say. Writes nothing."""
        return await self._read(summaries.lacking, cover)

    async def due(self, *, width: int = 50, fan: int = 10) -> Due | None:
        """The range to summarise next, so that opening this session stays quick; None while there is nothing to do.

        As soon as twice `width` turns follow the last summary, the first `width` of them; as soon as `fan` summaries of about
        the same size stand in a row, these. `summarise(due.last_seq, text, from_=due.first_seq)` does it. Writes nothing.
        """
        return await self._read(summaries.due, width=width, fan=fan)

    async def covers(self, *, nested: bool = False, about: str | None = None) -> list[Cover]:
        """The summaries that stand, in the order of what they cover; nested: also those that others have
        swallowed.
        """
        return await self._read(summaries.covers, nested=nested, about=about)

    async def transcript(
        self, format: Shape = "openai", *, full: bool = False, last: int | None = None  # noqa: A002 - the users' word
    ) -> Transcript:  # fmt: skip
        """The conversation as messages for "openai" or "anthropic" (whose rules are in `.system`): always
        valid (P14).

        Summaries stand for what they cover, unless `full`; system turns always stay. last: only so many of
        the newest turns, and more where a call would be parted from its result. A call whose result never
        came gets one that says so.
        """
        return await self._read(summaries.transcript, format, full=full, last=last)

    # -- status ----------------------------------------------------------------------------------------------

    async def get_status(self) -> Status:
        """active, waiting, completed or failed; crashed when whoever was at it has died without leaving."""
        return await self._read(sessions.get_status)

    # async-only
    @property
    def status(self) -> NoReturn:
        """Only sync code has it: nothing can be awaited in an attribute."""
        raise AttributeError("ask with `await session.get_status()`")

    # end
    # sync: @property
    # sync: def status(self) -> Status:
    # sync:     """The answer of `get_status`."""
    # sync:     return self.get_status()

    async def info(self) -> SessionRecord:
        """All about the session but its contents."""
        return await self._read(sessions.info)

    async def mark_waiting(self) -> None:
        """The session waits for somebody. Idempotent. Conflict if it is closed."""
        await self._write(sessions.mark_waiting)

    async def mark_active(self) -> None:
        """The session goes on after waiting. Idempotent. Conflict if it is closed."""
        await self._write(sessions.mark_active)

    async def close(self, status: Ending = "completed") -> None:
        """End the session as completed or failed. Idempotent; Conflict if it ended the other way.

        Closing is a statement, not a lock: what is said afterwards is kept, and opens it again. Another process that is at work
        in it just then may still say something without opening it.
        """
        await self._write(sessions.close_session, status, self._caller.core.holder)
        self._caller.heartbeat.step_out(self._stream)

    async def reopen(self) -> None:
        """Make a closed session active again. Idempotent: an open one stays as it is."""
        await self._write(sessions.reopen)

    async def archive(self) -> None:
        """Leave the session out of listings; all of it stays, and it can be opened by its name. Idempotent.

        Conflict for one that is open: what is not over must stay in sight. Opening it again ends that.
        """
        await self._write(sessions.archive)

    async def unarchive(self) -> None:
        """Let listings have the session again. Idempotent."""
        await self._write(sessions.unarchive)

    # -- goal, labels, pins ----------------------------------------------------------------------------------

    async def get_goal(self) -> str | None:
        """The goal of the session, if one was set."""
        return await self._read(sessions.get_goal)

    async def set_goal(self, goal: str | None, *, about: Iterable[str] = ()) -> None:
        """Say what the session is for; None lets the goal go. Idempotent. about: whom the whole session is about from here on."""
        await self._write(sessions.set_goal, goal, about=about)

    async def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """The whole session is about these persons or things: everything in it, before and after, and its runs. Returns all of
        its subjects. Idempotent.
        """
        return await self._write(adding.add_to_session, subjects)

    # async-only
    @property
    def goal(self) -> NoReturn:
        """Only sync code has it: nothing can be awaited in an attribute."""
        raise AttributeError("ask with `await session.get_goal()`, say it with `await session.set_goal(…)`")

    @goal.setter
    def goal(self, goal: Never) -> None:  # noqa: ARG002 - a checker sees that nothing can be assigned
        raise AttributeError("say it with `await session.set_goal(…)`")

    # end
    # sync: @property
    # sync: def goal(self) -> str | None:
    # sync:     """The goal of the session; setting it is one commit."""
    # sync:     return self.get_goal()

    # sync: @goal.setter
    # sync: def goal(self, goal: str | None) -> None:
    # sync:     self.set_goal(goal)

    async def set_title(self, title: str, *, about: Iterable[str] = ()) -> None:
        """Give the session another title. Idempotent. Its name, by which it is opened, stays as it is. about: as for a goal."""
        await self._write(sessions.set_title, title, about=about)

    async def label(self, *labels: str) -> tuple[str, ...]:
        """Add labels; returns all of them. Idempotent."""
        return await self._write(sessions.label, labels)

    async def unlabel(self, *labels: str) -> tuple[str, ...]:
        """Take labels away; returns those that stay. Idempotent."""
        return await self._write(sessions.unlabel, labels)

    async def pin(
        self,
        *,
        model: str | None = None,
        prompt: str | None = None,
        tools: Mapping[str, str] | None = None,
        commit: str | None = None,
    ) -> Pins:
        """Pin the software versions in force: what is given replaces what was pinned, the rest stays.
        Idempotent.

        The text of the prompt is hashed, not kept. Every later event of this handle, and of handles that are
        opened from now on, carries the digest.
        """
        pins: Pins = await self._write(sessions.pin, model=model, prompt=prompt, tools=tools, commit=commit)
        self._pin = pins.digest
        return pins

    async def pins(self) -> Pins | None:
        """The software versions that are pinned, if any."""
        return await self._read(sessions.get_pins)


class AsyncConversationAcross(AsyncStoreHandle):
    """Asking across the store: sessions."""

    __slots__ = ()

    @filtered(SessionFilters)
    async def sessions(self, asked: SessionFilters) -> Page[SessionHeader]:
        """A page of sessions, newest first; the next is `after=page.next`, and `perdure.every(store.sessions)` goes through
        all. They are headers: `info()` has the rest.

        since, until: when it was created, as an instant or an age ("7d"). Sessions whose `ttl` is over are
        left out unless `expired`, and those that were archived unless `archived`. about: only those in which anything is about
        this subject.
        Raises Invalid with the path of a filter that makes no sense.
        """
        return await self._caller.read(sessions.sessions, asked)
