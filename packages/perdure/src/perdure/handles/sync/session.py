# Generated from handles/aio/session.py by tools/unasync.py: edit that one.
"""Sessions and scopes: one class each, composed of the verbs of the planes."""

from __future__ import annotations

from perdure.handles import colours
from perdure.handles.sync.artifacts import Artifacts
from perdure.handles.sync.boot import Booting
from perdure.handles.sync.checkpoints import Checkpoints
from perdure.handles.sync.conversation import Conversation
from perdure.handles.sync.decisions import Decisions
from perdure.handles.sync.effects import Effects
from perdure.handles.sync.emitted import Emitted
from perdure.handles.sync.history import Past, Time
from perdure.handles.sync.memory import Memories
from perdure.handles.sync.requests import Requests
from perdure.handles.sync.tasks import Work
from perdure.handles.sync.values import Values
from perdure.planes import subjects as adding


class Session(
    Conversation,
    Values,
    Work,
    Decisions,
    Memories,
    Booting,
    Checkpoints,
    Emitted,
    Artifacts,
    Effects,
    Requests,
    Time,
):
    """One unit of work of an agent: its conversation, plan, values, decisions, memories, checkpoints, events and artifacts.

    Get one with `store.session(name)`. It holds no state, so it is cheap to make and safe to share.
    """

    __slots__ = ()

    @property
    def aio(self) -> colours.AsyncSession:
        """This session for async code, at the same time, in any event loop."""
        return colours.async_session(self._caller, self._stream, self._pin)


class Scope(Values, Memories, Past):
    """Values and memories that outlive a session, under a name such as `user:alice` or `project:acme`.

    Get one with `store.scope(name)`. A session that is labelled with its name recalls its memories.
    """

    __slots__ = ()

    def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """Say that everything in the scope, before and after, is about these persons or things. Returns all of them.
        Idempotent.
        """
        return self._write(adding.add_to_scope, subjects)
