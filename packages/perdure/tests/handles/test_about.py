"""Every verb that can hold text takes `about=`, and every listing can be asked for a subject: by the public signatures."""

from __future__ import annotations

import inspect
import re

import perdure
from surface.reading import load

TOOL = load()
TEXT = ("str", "Any", "object", "Source", "Verdict")
LISTS = re.compile(r"^(Page|list)\[")
LEAST = {"verbs": 220, "that take subjects": 77, "listings for a subject": 22}  # none of them may fall

# Verbs that take text and no subjects: the reason of each.
READS = "it only reads"
INHERITS = "it stands in its run, and is about whom that is; run.add_subjects names more"
NAMES = "it takes names that are chosen for machines and operators, and holds no other text"
SUBJECTS = "it takes subjects alone"
BRINGS = "what it brings has subjects of its own"
WITHOUT = {
    "Run.step": INHERITS, "Run.model": INHERITS, "Run.respond": INHERITS, "RunHandle.cancel": INHERITS,
    "RunHandle.fork": "a what-if has the subjects of all that it copies, and stands in a run",
    "Session.rule_from": "it is about whom the decision is that it was made of",
    "Scope.rule_from": "it is about whom the decision is that it was made of",
    "Session.workflow_from": "it is about whom the run is that it was made of",
    "Scope.workflow_from": "it is about whom the run is that it was made of",
    "Session.fork": "it is about whom the session is that it continues",
    "Store.adopt": BRINGS, "Store.import_": BRINGS, "Store.recover": BRINGS,
    "Run.add_subjects": SUBJECTS, "RunHandle.add_subjects": SUBJECTS, "Scope.add_subjects": SUBJECTS,
    "Session.add_subjects": SUBJECTS,
    "Session.label": NAMES, "Session.unlabel": NAMES, "Session.pin": NAMES, "RunHandle.pin": NAMES, "Run.wait": NAMES,
    "Run.patched": NAMES, "Run.branch": NAMES, "Session.unset": NAMES, "Scope.unset": NAMES, "Session.lock": NAMES,
    "Scope.lock": NAMES, "Store.as_": NAMES, "Store.forget_actor": NAMES, "Session.prune_checkpoints": NAMES,
    "Subscription.reset": NAMES, "Store.subscribe": NAMES, "Session.claim_next": NAMES, "Store.declare_gone": NAMES,
    "Store.delete": NAMES,
    "Store.quarantine": "it tells of damage, in the store's own stream",
    "Session.fold": "its state is ephemeral, and of the session",
    "Store.atomic": "what it runs are the verbs themselves",
    "Atomic.inside": "it runs a verb, which takes them", "Atomic.sql": "it is the user's own SQL, on tables of the user",
    "Atomic.scope": NAMES, "Atomic.session": "drift: store.session takes them; call add_subjects of what it gives",
    "Session.boot": "it keeps which records it showed, and no text", "Store.index": "what it makes is derived",
} | dict.fromkeys(
    (
        "Artifact.save", "Atomic.effect",
        "Decision.referred_by", "RunHandle.forecast", "RunHandle.timeline", "Scope.entry", "Scope.get",
        "Session.artifact", "Session.await_durable", "Session.entry", "Session.get", "Session.ready", "Session.referring",
        "Session.restore", "Session.result_of", "Session.said", "Store.artifact", "Store.backup", "Store.checked",
        "Store.effect", "Store.export", "Store.export_incident", "Store.export_learning", "Store.feed", "Store.query",
        "Store.readable", "Store.recoverable", "Store.run", "Store.run_id", "Store.subjects",
    ),
    READS,
)  # fmt: skip
# Listings that are no listing of records of a tenant.
NOT_RECORDS = {
    "Atomic.sql",
    "Decision.referred_by", "Run.undo", "RunHandle.effects", "RunHandle.steps", "RunHandle.timeline", "RunHandle.waits",
    "Session.boots", "Session.lacking", "Session.line", "Session.ready", "Session.referring", "Session.respond", "Store.actors",
    "Store.checked", "Store.declare_gone", "Store.feed", "Store.quarantine", "Store.query", "Store.subjects",
}  # fmt: skip


def shown(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else TOOL.spelt(annotation)


def takes_text(verb) -> bool:
    """Whether a caller can give it words."""
    return any(word in shown(each.annotation) for each in verb.arguments.values() for word in TEXT)


def lists(verb) -> bool:
    return bool(LISTS.match(TOOL.returned(verb.function)))


def silent() -> set[str]:
    """The verbs that take text and no subjects."""
    return {name for name, verb in TOOL.verbs().items() if takes_text(verb) and "about" not in verb.arguments}


def test_every_verb_that_can_hold_text_takes_subjects() -> None:
    assert silent() - WITHOUT.keys() == set(), "let it take about=, or say here why it does without"
    assert len(TOOL.verbs()) >= LEAST["verbs"]
    assert sum("about" in verb.arguments for verb in TOOL.verbs().values()) >= LEAST["that take subjects"]


def test_the_exceptions_are_none_that_take_them() -> None:
    assert WITHOUT.keys() - silent() == set()


def test_every_listing_can_be_asked_for_a_subject() -> None:
    listings = {name: verb for name, verb in TOOL.verbs().items() if lists(verb)}
    able = {name for name, verb in listings.items() if "about" in verb.arguments}
    assert listings.keys() - able == NOT_RECORDS & listings.keys() - able
    assert NOT_RECORDS - listings.keys() == set()
    assert len(able) >= LEAST["listings for a subject"]


def test_control_a_verb_without_the_parameter_is_found(monkeypatch) -> None:
    def say(self, content: str) -> None: ...

    monkeypatch.setattr(TOOL, "verbs", lambda: {"Session.say": TOOL.Verb("say", say, perdure.Session)})
    assert silent() == {"Session.say"}


def test_control_a_method_that_a_combinator_makes_is_looked_at(monkeypatch) -> None:
    """Such a method has no text of its own in the class: its signature is all that can be read."""

    def made(*args, **kwargs): ...

    made.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
        inspect.Parameter("text", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str),
    ])  # fmt: skip
    monkeypatch.setattr(perdure.Session, "mention", made, raising=False)
    assert "Session.mention" in silent()
