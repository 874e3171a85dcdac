"""The result of one case: from the witness and the acknowledgements that were streamed, never from what a subject says of itself.

`judge` reads a story that is over. The definitions are those of docs/protocol.md; every count is of things, not of cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any

import msgspec

from perdure_evaluate.recovery.interface import Belief
from perdure_evaluate.recovery.lives import Ack, Life
from perdure_evaluate.recovery.oracle import Oracle, effects_of, foretell
from perdure_evaluate.recovery.outside import KINDS, Knowing, mark
from perdure_evaluate.recovery.program_edits import canonical
from perdure_evaluate.recovery.story import Story

VIOLATIONS = ("duplicates", "lost", "acknowledged_lost", "wrong", "stale", "stranded")
PARTS = 5  # of a story, to see whether what it writes grows
DETAILS_MAX = 8  # of states that lost something: there are thousands


class Score(msgspec.Struct, kw_only=True):
    """One case. The first six are violations.

    duplicates: effects that arrived more than once, each time beyond the first; lost: that never arrived; acknowledged_lost:
    operations that were acknowledged and later not known any more; wrong: 1 if the end differs from the oracle's and nothing was
    said; stale: effects that rest on a note as it was before somebody else changed it; stranded: 1 if it came to no end.
    surfaced, guessed: blind effects in doubt that a person was asked about, and not.
    states: of a power loss, that were looked at; kills: lives that were killed.
    """

    duplicates: int = 0
    lost: int = 0
    acknowledged_lost: int = 0
    wrong: int = 0
    stale: int = 0
    stranded: int = 0
    surfaced: int = 0
    guessed: int = 0
    audit_missing: int = 0
    audit_invented: int = 0
    states: int = 0
    kills: int = 0
    effects: int = 0
    operations: int = 0
    struck: bool = False
    recover_seconds: float | None = None
    bytes_fifths: list[float] = []
    said: str = ""
    detail: list[str] = []

    @property
    def failed(self) -> list[str]:
        """The violations, by name."""
        return [name for name in VIOLATIONS if getattr(self, name)]


def judge(story: Story) -> Score:
    """Read a story that is over."""
    score = Score(struck=any(life.at or life.end == "killed" for life in story.lives))
    acked = Acknowledged(story)
    oracle, outdated = _oracles(story, acked)
    over = bool(story.lives) and story.lives[-1].end == "done"
    score.said = next((life.said for life in story.lives if life.end == "failed"), "")
    score.operations = len(acked.first)
    score.acknowledged_lost = len(acked.lost) + len(story.taken)
    score.detail += [f"acknowledged and lost: {name}" for name in sorted(acked.lost)] + story.taken[:DETAILS_MAX]
    score.states, score.kills = story.states, sum(life.end == "killed" for life in story.lives)
    _count_effects(score, story, oracle, outdated, over=over)
    _look_into_commits(score, story, oracle)
    _count_doubt(score, story)
    if not over:
        score.stranded = 1
        score.detail.append(f"stranded: {story.lives[-1].end} {story.lives[-1].said}".rstrip())
    elif story.final is not None:
        _compare_end(score, story.final, oracle)
        _audit(score, story, story.final)
    score.recover_seconds = recovery_seconds(story.lives)
    score.bytes_fifths = growth(story.lives[0].acks if story.lives else [])
    return score


def _oracles(story: Story, acked: Acknowledged) -> tuple[Oracle, Oracle]:
    """The acts that must have happened; and those that would have, if nobody had changed a note."""
    amended = {key: value for key, (_, value) in story.amended.items()}
    facts = (story.task, story.ground.seed, acked.steps, acked.effects)
    return foretell(*facts, amended), foretell(*facts)


class Acknowledged:
    """The acknowledgements over all lives. first: by (verb, name) the value that others saw first; lost: what went again.

    Lives may overlap, so everything is taken in the order in which it happened. An acknowledgement after a copy of the store was
    made goes with the store when the copy takes its place: that is what was meant by it.
    """

    def __init__(self, story: Story) -> None:
        self.first: dict[tuple[str, str], Any] = {}
        self._seen: dict[str, tuple[Life, float]] = {}  # the first acknowledgement of a step: by whom, and when
        self.lost: set[str] = set()
        self._copy: dict[tuple[str, str], Any] = {}
        self._amended: set[str] = set()
        lived = [moment for life in story.lives for moment in self._moments(life)]
        for _, take in sorted([*lived, *self._outer_moments(story)], key=itemgetter(0)):
            take()
        if story.final is not None:
            self._compare(story.final)
        self.steps = {name: value for (verb, name), value in self.first.items() if verb == "step"}
        self.effects = {name: value for (verb, name), value in self.first.items() if verb == "act"}

    def _moments(self, life: Life) -> Iterator[tuple[float, Callable[[], None]]]:
        """The belief of a life when it began, what it worked, and what it acknowledged."""
        if life.belief is not None:
            yield life.resumed, partial(self._compare, life.belief)
        yield from ((at, partial(self._worked, life, name)) for name, at in life.worked)
        yield from ((ack.t, partial(self._take, life, ack)) for ack in life.acks)

    def _outer_moments(self, story: Story) -> Iterator[tuple[float, Callable[[], None]]]:
        """The acts of others on the store."""
        if story.lost_at:
            yield story.kept_at, self._keep_copy
            yield story.lost_at, self._go_back
        yield from ((at, partial(self._amend, key, value)) for key, (at, value) in story.amended.items())

    def _keep_copy(self) -> None:
        self._copy = dict(self.first)

    def _go_back(self) -> None:
        self.first = self._copy

    def _amend(self, key: str, value: Any) -> None:
        self.first["note", key] = value
        self._amended.add(key)

    def _worked(self, life: Life, name: str) -> None:
        """Work that was acknowledged is not done again by who could know of it: it was there before, or is its own."""
        earlier = self._seen.get(name)
        if ("step", name) in self.first and earlier is not None and (earlier[0] is life or earlier[1] <= life.resumed):
            self.lost.add(f"step {name}")

    def _take(self, life: Life, ack: Ack) -> None:
        if ack.verb == "step":
            self._seen.setdefault(ack.name, (life, ack.t))
        if ack.verb == "note" and ack.name in self._amended:
            return  # it was kept before, and passed again: its own value is not the one that stands
        if self.first.setdefault((ack.verb, ack.name), ack.value) != ack.value:
            self.lost.add(f"{ack.verb} {ack.name}")

    def _compare(self, belief: Belief) -> None:
        self.lost.update(forgotten(self.first, belief))


def forgotten(first: dict[tuple[str, str], Any], belief: Belief) -> Iterator[str]:
    """Acknowledged things that are not in a belief, or differ there. A belief says nothing about steps."""
    for (verb, name), value in first.items():
        held = {"note": belief.notes, "act": belief.effects}.get(verb)
        if held is not None and (name not in held or held[name] != value):
            yield f"{verb} {name}"


def _count_effects(score: Score, story: Story, oracle: Oracle, outdated: Oracle, *, over: bool) -> None:
    """Arrivals against what must have arrived. An effect that leaves no trace of its own is looked at where it stands."""
    arrived = story.world.arrivals()
    score.effects = sum(arrived.values())
    for name in sorted({name for name, _ in arrived}):
        times = sum(count for (other, _), count in arrived.items() if other == name)
        if times > 1:
            score.duplicates += times - 1
            score.detail.append(f"{times} times: {name}")
        marks = {arrival_mark for other, arrival_mark in arrived if other == name}
        if (
            story.amended
            and name in outdated.effects
            and mark(outdated.effects[name].payload) in marks - _marks_due(oracle, name)
        ):
            score.stale += 1
            score.detail.append(f"rests on what had changed: {name}")
        elif marks - _marks_due(oracle, name) and not _was_told(story, name):
            score.wrong = 1
            score.detail.append(f"not what others had seen: {name}")
    missing = [name for name in oracle.effects if not any(other == name for other, _ in arrived)]
    for name in missing:
        effect = oracle.effects[name]
        if over and not (KINDS[effect.kind] is Knowing.SAME and story.world.stands(effect.kind, effect.payload)):
            score.lost += 1
            score.detail.append(f"never: {name}")


def _marks_due(oracle: Oracle, name: str) -> set[str]:
    """The mark of what must have arrived under a name; nothing, if nothing must."""
    return {mark(oracle.effects[name].payload)} if name in oracle.effects else set()


def _was_told(story: Story, name: str) -> bool:
    """Whether a person was asked about an effect of a store that had become an older one, and took it as it was."""
    return bool(story.lost_at) and name in _doubts_asked(story)


def _doubts_asked(story: Story) -> set[str]:
    """The effects that a person was asked about."""
    return {canonical(name) for life in story.lives for name in life.doubts}


def _look_into_commits(score: Score, story: Story, oracle: Oracle) -> None:
    """A commit pushed in the name of the agent holds what the agent wrote."""
    written: dict[str, str] = {}
    for name, effect in oracle.effects.items():
        if effect.kind == "write":
            written[effect.payload["path"]] = effect.payload["content"]
        elif effect.kind == "commit":
            content = story.world.committed(f"{name}/{mark(effect.payload)}", effect.payload["path"])
            if content not in (None, written[effect.payload["path"]]) and not _was_told(story, name):
                score.wrong = 1
                score.detail.append(f"holds what the agent did not write: {name}")


def _count_doubt(score: Score, story: Story) -> None:
    """Blind effects that were begun and not acknowledged when a life ended by a strike: was a person asked?

    A result that the next life finds in its store is no guess: it was kept before the strike, only not yet acknowledged.
    """
    kinds = effects_of(story.case.task)
    questions = _doubts_asked(story)
    open_ones: set[str] = set()
    for life, after in zip(story.lives, [*story.lives[1:], None], strict=True):
        if life.end in ("killed", "hung"):
            recorded = {ack.name for ack in life.acks} | set(after.belief.effects if after and after.belief else ())
            open_ones |= {name for name in life.calling if name not in recorded}
    blind = {name for name in open_ones if KINDS[kinds[name]] is Knowing.BLIND}
    score.surfaced = len(questions)
    score.guessed = len(blind - questions)


def _compare_end(score: Score, final: Belief, oracle: Oracle) -> None:
    differing = sorted(name for name in oracle.notes if final.notes.get(name) != oracle.notes[name])
    if differing or final.result != oracle.result:
        score.wrong = 1
        score.detail.append(f"the end differs: {', '.join(differing[:5]) or 'the result'}")
    if score.wrong and score.said:
        score.wrong = 0  # it is wrong, and it was said: not in silence


def _audit(score: Score, story: Story, final: Belief) -> None:
    """Can who-did-what be rebuilt from the store alone?"""
    arrived = {name for name, _ in story.world.arrivals()}
    score.audit_missing = len(arrived - set(final.effects))
    traceless = {name for name, kind in effects_of(story.case.task).items() if KINDS[kind] is Knowing.SAME}
    score.audit_invented = len(set(final.effects) - arrived - traceless)


def recovery_seconds(lives: list[Life]) -> float | None:
    """The longest time from when a life after a strike had its store before it until its first new operation, or its end."""
    operations: set[tuple[str, str]] = set()
    times: list[float] = []
    for before, life in zip([None, *lives], lives, strict=False):
        if before is not None and before.end == "killed" and life.end in ("done", "waiting") and life.resumed:
            fresh = [ack.t for ack in life.acks if (ack.verb, ack.name) not in operations]
            times.append((fresh[0] if fresh else life.ended) - life.resumed)
        operations |= {(ack.verb, ack.name) for ack in life.acks}
    return max(times, default=None)


def growth(acks: list[Ack]) -> list[float]:
    """Bytes written an operation, in each fifth of a life in which they were counted; nothing, where they were not."""
    if len(acks) < PARTS * 2 or not acks[-1].written:
        return []
    part = len(acks) // PARTS
    edges = [*(number * part for number in range(PARTS)), len(acks) - 1]
    return [(acks[end].written - acks[begin].written) / (end - begin) for begin, end in pairwise(edges)]


def grown(fifths: list[float]) -> float:
    """How many times the second fifth the last one is. The first one fills empty pages, and is spared."""
    return fifths[-1] / fifths[1]
