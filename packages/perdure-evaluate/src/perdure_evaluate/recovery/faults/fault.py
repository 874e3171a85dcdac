"""A fault: which schedules it has for a task, how a story is told under it, and what proves that it bites."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask


def everywhere(_: type[Subject], __: RecoveryTask) -> str:
    """A fault that any subject and task can meet."""
    return ""


class Control(msgspec.Struct, frozen=True):
    """A subject that must be caught by a fault on this task: by any of these measures, in any of its cases."""

    subject: str
    task: str
    measures: tuple[str, ...]


class RecoveryFault(msgspec.Struct, frozen=True):
    """A fault. schedules: all that there are for a task, in order; missing: why it cannot be tried on this machine, or "".

    unfit: why a subject cannot meet it at a task, or "".
    """

    name: str
    about: str
    schedules: Callable[[RecoveryTask, int], list[str]]
    tell: Callable[[Story, str], None]
    control: Control | None
    missing: Callable[[], str] = lambda: ""
    unfit: Callable[[type[Subject], RecoveryTask], str] = everywhere
