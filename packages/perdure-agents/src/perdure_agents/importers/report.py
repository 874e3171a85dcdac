"""The result of an import: what was taken, what stood there already, what was left out, where and why. For the doors."""

from __future__ import annotations

from collections import Counter

import msgspec

from perdure_agents.importers.items import ImportedRepair, LeftOut

LISTED_MAX = 1_000  # remarks of one kind that are kept word by word; the rest is counted


class ImportReport(msgspec.Struct, frozen=True):
    """The whole import. `files` are those that were read, by format; `read`, `added` and `standing` count items by kind.

    `added` is new in the store, `standing` was there already. `ok`: nothing was left out.
    """

    ok: bool
    dry_run: bool
    files: dict[str, int]
    sessions: tuple[str, ...]
    read: dict[str, int]
    added: dict[str, int]
    standing: dict[str, int]
    left_out: tuple[LeftOut, ...]
    left_out_count: int
    mended: tuple[ImportedRepair, ...]
    mended_count: int
    passed_over: dict[str, int]


class ReportInProgress:
    """A report in the making."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.added: Counter[str] = Counter()
        self.standing: Counter[str] = Counter()
        self.passed_over: Counter[str] = Counter()
        self._sessions: dict[str, None] = {}
        self._left_out: list[LeftOut] = []
        self._mended: list[ImportedRepair] = []
        self._counts: Counter[str] = Counter()

    def session(self, name: str) -> None:
        """A session was read."""
        self._sessions.setdefault(name)

    def leave_out(self, remark: LeftOut) -> None:
        """Something was left out."""
        self._counts["left out"] += 1
        if len(self._left_out) < LISTED_MAX:
            self._left_out.append(remark)

    def mend(self, remark: ImportedRepair) -> None:
        """Something was mended."""
        self._counts["mended"] += 1
        if len(self._mended) < LISTED_MAX:
            self._mended.append(remark)

    def report(self, *, dry_run: bool) -> ImportReport:
        """How it came out."""
        return ImportReport(
            ok=not self._counts["left out"], dry_run=dry_run, files=dict(self.files),
            sessions=tuple(self._sessions), read=dict(self.read), added=dict(self.added),
            standing=dict(self.standing), left_out=tuple(self._left_out), left_out_count=self._counts["left out"],
            mended=tuple(self._mended), mended_count=self._counts["mended"], passed_over=dict(self.passed_over),
        )  # fmt: skip
