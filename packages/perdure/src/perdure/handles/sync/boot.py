# Generated from handles/aio/boot.py by tools/unasync.py: edit that one.
"""Handle for booting: the text with which a fresh context window continues a session, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from perdure.handles.later import boot_making as making
from perdure.handles.later import checking
from perdure.handles.sync.base import StreamHandle
from perdure.handles.sync.made import reads
from perdure.verbs import runs as verbs

if TYPE_CHECKING:
    from perdure.boot.pack import Pack


class Booting(StreamHandle):
    """Verbs of a session for a fresh context window."""

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
        """Return the text that a fresh context window needs to continue this session.

        It holds the rules (whole), plan, open loops, decisions, lessons, workspace, last turns, memories recalled for `task`
        (else for the goal), vocabulary and map, and a list of what was left out. The same state gives the same text.
        budget, max_chars: the text takes at most so many tokens and characters.
        tokenizer: a function from a text to its tokens or their number. Without one, tokens are estimated, rather too high than
            too low.
        profile: "full", "small" (for subagents) or "without-memory".
        root, commands, urls, models: how checks are run, as in `recall`. With a root, its commit and its uncommitted changes
            are shown too.

        The manifest of the text is kept (see `boots`), and the memories in it count as used; nothing else is changed. Raises
        TooLarge if the rules alone do not fit (`facts` has `needed`), Invalid for a budget, tokenizer or profile that makes no
        sense, and Refused inside `atomic`.
        """
        asked = making.asked_for(budget, max_chars, tokenizer, profile)
        looking = checking.looking_at(root, commands, urls, models)
        self._caller.check_may_search()
        caller = self._caller
        return caller.work(making.boot, caller.core, caller.tenant, self._stream, task, asked, looking)

    boots = reads(verbs.boots)
