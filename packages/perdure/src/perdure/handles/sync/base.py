# Generated from handles/aio/base.py by tools/unasync.py: edit that one.
"""The base of every handle: a caller, and for handles of one stream, that stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from perdure.errors import Error
from perdure.handles.facts import StreamFacts
from perdure.log.change import Stream
from perdure.runtime.callers import Caller
from perdure.stores.core import Reader
from perdure.stores.revocable import RevocableVerb
from perdure.stores.tx import Tx

T = TypeVar("T")
P = ParamSpec("P")


class StoreHandle:
    """A handle that asks across a whole store. Slots, here and below: setting what does not exist is an error."""

    __slots__ = ("__weakref__", "_caller")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _write(self, verb: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._caller.write(self._caller.fenced(verb), *args, **kwargs)


class StreamHandle(StreamFacts):
    """A handle on one stream. Cheap to make, safe to share between tasks and threads; it holds no state of the stream."""

    __slots__ = ("__weakref__", "_caller", "_pin", "_stream")

    def __init__(self, caller: Caller, stream: Stream, pin: str = "") -> None:
        self._caller = caller
        self._stream = stream
        self._pin = pin

    def _write(self, verb: Callable[Concatenate[Tx, Stream, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._caller.write_in(self._stream, self._caller.fenced(verb), args, kwargs, self._pin)

    def _state(self, verb: Callable[Concatenate[Tx, Stream, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Write down a fact, which no lock that was lost meanwhile can undo."""
        return self._caller.write_in(self._stream, verb, args, kwargs, self._pin)

    def _take(
        self, verb: Callable[Concatenate[Tx, Stream, P], T], back: Callable[[Tx, Stream, Any], None], /, *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:  # fmt: skip
        """Take something for this caller. If it is stopped before it hears that it got it, it is given back. Not fenced: see
        `_write`.
        """
        if not self._caller.core.acts:
            return self._state(verb, *args, **kwargs)
        taking = RevocableVerb(verb, back)
        try:
            return self._state(taking, *args, **kwargs)
        except Exception:
            raise
        except BaseException:
            with suppress(Error):  # the store is away: it is free when its time is over, or this process ends
                self._state(taking.take_back)
            raise

    def _read(self, verb: Callable[Concatenate[Reader, Stream, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._caller.read(verb, self._stream, *args, **kwargs)
