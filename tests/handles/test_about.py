"""Every record that can hold text takes `about=`, and every listing can be asked for a subject: read off the surface itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_type_hints

import perdure.handles.aio
from perdure.model import filters

FOLDER = Path(perdure.handles.aio.__path__[0])
ROADS = {"_write", "_speak", "_state", "write", "write_in", "_run", "run", "_told", "_end", "_move"}  # to a commit
TEXT = ("str", "Any", "object", "Source", "Verdict")

# Methods that write and take text, and no subjects: the reason of each.
INHERITS = "it stands in its run, and is about whom that is; run.add_subjects names more"
NAMES = "it takes names that are chosen for machines and operators, and holds no other text"
WITHOUT = {
    "AsyncRun.step": INHERITS, "AsyncRun.model": INHERITS, "AsyncRun.respond": INHERITS, "AsyncRunHandle.cancel": INHERITS,
    "AsyncRunHandle.fork": "a what-if has the subjects of all that it copies, and stands in a run",
    "AsyncMemories.rule_from": "it is about whom the decision is that it was made of",
    "AsyncMemories.workflow_from": "it is about whom the run is that it was made of",
    "AsyncTime.fork": "it is about whom the session is that it continues",
    "AsyncRuns.adopt": "an envelope brings its subjects",
    "AsyncConversation.add_subjects": "it takes subjects alone", "AsyncScope.add_subjects": "it takes subjects alone",
    "AsyncRun.add_subjects": "it takes subjects alone", "AsyncRunHandle.add_subjects": "it takes subjects alone",
    "AsyncConversation.close": NAMES, "AsyncConversation.label": NAMES, "AsyncConversation.unlabel": NAMES,
    "AsyncConversation.pin": NAMES, "AsyncRunHandle.pin": NAMES, "AsyncRun.wait": NAMES, "AsyncRun.patched": NAMES,
    "AsyncRun.sleep": NAMES, "AsyncValues.unset": NAMES, "AsyncStore.as_": NAMES, "AsyncUpkeep.forget_actor": NAMES,
    "AsyncCheckpoints.prune_checkpoints": NAMES, "AsyncUpkeep.quarantine": "it tells of damage, in the store's own stream",
    "AsyncEmitted.fold": "its state is ephemeral, and of the session",
    "AsyncSubscription.reset": NAMES, "AsyncEmittedAcross.subscribe": NAMES, "AsyncWork.claim_next": NAMES,
    "AsyncRecovery.declare_gone": NAMES, "AsyncRetaining.delete": NAMES,
    "AsyncInterchange.import_": "a bundle brings its subjects",
    "AsyncStore.atomic": "what it runs are the verbs themselves", "AsyncRun.atomic": "what it runs are the verbs themselves",
}  # fmt: skip
# Listings that are no listing of records of a tenant.
NOT_RECORDS = {
    "AsyncUpkeep.actors", "AsyncUpkeep.subjects", "AsyncMemories.boots", "AsyncBooting.boots", "AsyncRecovery.recoverable",
    "AsyncDecisions.referring", "AsyncDecision.referred_by", "AsyncStore.query", "AsyncWork.ready",
    "AsyncConversation.line", "AsyncConversation.lacking",
    "AsyncEmittedAcross.feed", "AsyncEmittedAcross.feed_held_by", "AsyncRunHandle.waits", "AsyncRunHandle.effects",
    "AsyncRunHandle.steps", "AsyncMemoriesAcross.checked", "AsyncEffects.respond",
    "AsyncEnveloping.timeline", "AsyncRecovery.declare_gone", "AsyncUpkeep.quarantine", "AsyncRun.undo",
}  # fmt: skip


class Method(NamedTuple):
    """A public method of the handles."""

    name: str
    node: ast.AsyncFunctionDef | ast.FunctionDef

    @property
    def parameters(self) -> dict[str, str]:
        """Its parameters and what they are annotated with."""
        for each in self.node.decorator_list:
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "filtered":
                record = getattr(filters, ast.unparse(each.args[0]))
                return {name: str(kind) for name, kind in get_type_hints(record).items()}
        given = self.node.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
        return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in named}

    @property
    def writes(self) -> bool:
        """Whether it comes to a commit."""
        calls = [each.func for each in ast.walk(self.node) if isinstance(each, ast.Call)]
        return any(isinstance(each, ast.Attribute) and each.attr in ROADS for each in calls)

    @property
    def takes_text(self) -> bool:
        """Whether a caller can give it words."""
        return any(word in kind for kind in self.parameters.values() for word in TEXT)

    @property
    def lists(self) -> bool:
        """Whether it gives a list or a page."""
        gives = ast.unparse(self.node.returns) if self.node.returns else ""
        return gives.startswith(("Page[", "list[")) and not self.writes


def methods() -> Iterator[Method]:
    """The last definition of every public method: overloads come before it."""
    for path in sorted(FOLDER.glob("*.py")):
        for found in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(found, ast.ClassDef):
                own = {
                    each.name: Method(f"{found.name}.{each.name}", each)
                    for each in found.body
                    if isinstance(each, (ast.AsyncFunctionDef, ast.FunctionDef)) and not each.name.startswith("_")
                }
                yield from own.values()


def silent() -> set[str]:
    return {each.name for each in methods() if each.writes and each.takes_text and "about" not in each.parameters}


def test_every_record_that_can_hold_text_takes_subjects():
    assert silent() - WITHOUT.keys() == set()


def test_the_exceptions_are_none_that_take_them():
    known = {each.name: each for each in methods()}
    stale = [name for name in WITHOUT if name not in known or "about" in known[name].parameters]
    assert stale == []


def test_control_a_verb_without_the_parameter_is_found(monkeypatch):
    plain = ast.parse("async def say(self, content: Any) -> None: await self._write(turns.say, content)").body[0]
    monkeypatch.setitem(globals(), "methods", lambda: [Method("AsyncConversation.say", plain)])
    assert silent() == {"AsyncConversation.say"}


def test_every_listing_can_be_asked_for_a_subject():
    lists = {each.name: each for each in methods() if each.lists}
    assert [name for name, each in lists.items() if "about" not in each.parameters and name not in NOT_RECORDS] == []
    assert len([name for name, each in lists.items() if "about" in each.parameters]) >= 18
