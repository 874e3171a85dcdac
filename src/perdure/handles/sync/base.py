# Generated from handles/aio/base.py by tools/unasync.py: edit that one.
"""What every handle has: a caller, and for handles of one stream, that stream."""

from __future__ import annotations

from typing import Any

from perdure.handles.callers import Caller
from perdure.log.change import Stream


class StoreHandle:
    """A handle that asks across a whole store. Slots, here and below: setting what does not exist is an error."""

    __slots__ = ("__weakref__", "_caller")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller


class StreamHandle:
    """A handle on one stream. Cheap to make, safe to share between tasks and threads; it holds no state of the stream."""

    __slots__ = ("__weakref__", "_caller", "_pin", "_stream")

    def __init__(self, caller: Caller, stream: Stream, pin: str = "") -> None:
        self._caller = caller
        self._stream = stream
        self._pin = pin

    @property
    def name(self) -> str:
        """The name under which the stream was opened."""
        return self._stream.name

    @property
    def uid(self) -> str:
        """The stream's identity: the same on every store that it is moved to."""
        return self._stream.uid.hex()

    def _write(self, verb: Any, *args: Any, **kwargs: Any) -> Any:
        return self._caller.write_in(self._stream, verb, args, kwargs, self._pin)

    def _read(self, verb: Any, *args: Any, **kwargs: Any) -> Any:
        return self._caller.read(verb, self._stream, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
