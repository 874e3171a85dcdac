# Generated from handles/aio/boot.py by tools/unasync.py: edit that one.
"""Handle for booting: the working set of a session, in a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from perdure.handles.later import boot_making as making
from perdure.handles.later import checking
from perdure.handles.sync.base import StreamHandle

if TYPE_CHECKING:
    from perdure.boot.manifest import PackManifest
    from perdure.boot.pack import Pack


class Booting(StreamHandle):
    """How a fresh context window comes back to a session."""

    __slots__ = ()

    def boot(
        self,
        budget: int = 4_000,
        task: str | None = None,
        *,
        tokenizer: Callable[[str], Any] | None = None,
        max_chars: int | None = None,
        profile: str = "full",
        root: str | PathLike[str] | None = None,
        commands: Iterable[Sequence[str]] = (),
        urls: Iterable[str] = (),
        models: Iterable[str] | None = None,
    ) -> Pack:
        """The text needed to continue: rules whole, plan, open loops, decisions, lessons, workspace, the last turns, what is
        recalled for `task` (else for the goal), vocabulary and map; and a list of what was left out.

        The text takes at most `budget` tokens and `max_chars` characters. tokenizer: a function from a text to its tokens or
        their number; without one they are estimated, and the estimate errs upward. profile: "full", "small" (for subagents)
        or "without-memory". root, commands, urls, models: how checks are run, as in `recall`; with a root, the commit that it is
        at and what in it is not committed are shown too. The same state gives the same text. Its manifest is kept (see
        `boots`), and the memories in it count as used; nothing else is changed.
        Raises TooLarge if the rules alone do not fit: its `facts` say what is `needed`; Invalid for a budget, tokenizer or
        profile that makes no sense, and Refused inside `atomic`.
        """
        asked = making.asked_for(budget, max_chars, tokenizer, profile)
        looking = checking.looking_at(root, commands, urls, models)
        self._caller.check_may_search()
        caller = self._caller
        return caller.work(making.boot, caller.core, caller.tenant, self._stream, task, asked, looking)

    def boots(self) -> list[PackManifest]:
        """The manifests of the last boots of this session, the newest first, at most 20: what was shown, by handle, how it
        stood and what was left out. `perdure.boot.manifest.difference` compares two. Writes nothing.
        """
        return self._read(making.manifests)
