# Generated from handles/aio/responding.py by tools/unasync.py: edit that one.
"""Carrying out a model's answer in a session: its turn and its calls, each once. See `effects.batch`. Keeps P2, P14."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from perdure.handles.later import responding
from perdure.handles.sync.effects import Effects
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Answer
from perdure.planes.subjects import named
from perdure.runtime.shells import acting_in


class Responding(Effects):
    """Verbs of a session for carrying out a model's answers."""

    __slots__ = ()

    def respond(
        self,
        content: Any = None,
        *,
        calls: Sequence[Call | Mapping[str, Any]],
        tools: Iterable[Callable[..., Any]],
        key: str | None = None,
        about: Iterable[str] = (),
    ) -> list[Answer]:
        """Add a model's answer as a turn, and carry out its calls, in order and each once. Returns an Answer for each call.

        The turn lands with all calls planned, and each result with the next dispatch: N effects take N + 1 commits. A call that
        fails, is refused, or fits no tool has an error for its answer, in the conversation too, and the others continue. Tools
        that only read are called directly. After a crash, InDoubt or Waiting, the same calls again continue where they were;
        they are known by the id of the first (`turn = session.pending().turn` has them).
        calls: each a Call, or a mapping of id, tool and args.
        key: of the turn, as for `say`.
        about: subjects of the answer, its calls and their results.

        Raises KeyReused when the calls were part of another turn, Invalid when a call has no id of its own.
        """
        self._caller.check_may_send()
        acting = acting_in(self._caller, self._stream)
        return self._run(responding.respond(acting, content, key, calls, tools, named(about)))
