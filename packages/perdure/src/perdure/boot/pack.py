"""The pack: which items fit a budget of tokens and a cap of characters, and the text that they make. Pure.

Rules come first and whole, or not at all: a budget that is too small for them is an error. Then come the newest turns up to
their floor, and whatever answers the task best, wherever it stands. Every section gets up to its floor, in the order of
sections; then up to its ceiling; then whatever is left. The rest is counted at the end, with the command that fetches it. The
sum of the parts bounds the whole (`model.tokens`), and the whole is counted once more: a tokenizer of the user's own may count
parts otherwise. Keeps P15.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.boot.items import MORE, Item, Section, block, blocks, forms, moment, quoted
from perdure.boot.manifest import PackedItem, PackManifest
from perdure.errors import Invalid, TooLarge
from perdure.model.display import visible
from perdure.planes.conversation.transcript import Exchange, Message, Transcript, format_of, render

PART_CHARS = 10_000  # that hosts of coding agents let through of what one hook says (MEMORY: measured)
TITLES = {
    Section.RULES: "Rules",
    Section.PLAN: "Goal and plan",
    Section.LOOPS: "Open loops",
    Section.DECISIONS: "Decisions in force",
    Section.LESSONS: "Failed approaches, corrections and lessons",
    Section.WORKSPACE: "Workspace",
    Section.TAIL: "The last turns",
    Section.RECALLED: "Recalled",
    Section.WORDS: "Vocabulary and map",
}
FETCHED_BY = {
    Section.PLAN: "perdure tasks",
    Section.LOOPS: "perdure show {session}",
    Section.DECISIONS: "perdure decisions",
    Section.LESSONS: "perdure memories --kind failed_approach",
    Section.WORKSPACE: "perdure show {session}",
    Section.TAIL: "perdure show {session} --turns 100",
    Section.RECALLED: "perdure recall QUESTION --session {session}",
    Section.WORDS: "perdure memories --kind vocabulary",
}
MISSES_MAX = 5  # items that do not fit, after which no further one of a section is tried
ANSWERS = 24  # hundredths of the room, for what answers the task, before other things of the same sections
INDEX = 20  # hundredths of the room that the list of what was left out may take; else it is one line
OF_THE_TASK = (Section.DECISIONS, Section.LESSONS, Section.RECALLED, Section.WORDS)  # whose first items answer the task
Count = Callable[[str], int]


class Share(NamedTuple):
    """A section's share of the room that rules leave, in hundredths: at least and at most."""

    floor: int
    ceiling: int


class Bound(NamedTuple):
    """How far a section is filled, in hundredths of the room. first: how far with its first item alone, 0 for as far."""

    most: int
    first: int = 0


PROFILES: dict[str, dict[Section, Share]] = {
    "full": {
        Section.PLAN: Share(18, 30),
        Section.LOOPS: Share(18, 30),
        Section.DECISIONS: Share(5, 45),
        Section.LESSONS: Share(5, 15),
        Section.WORKSPACE: Share(6, 12),
        Section.TAIL: Share(34, 36),
        Section.RECALLED: Share(5, 50),
        Section.WORDS: Share(3, 10),
    },
    "small": {
        Section.PLAN: Share(30, 50),
        Section.LESSONS: Share(15, 30),
        Section.RECALLED: Share(35, 80),
        Section.WORDS: Share(10, 25),
    },
}
PROFILES["without-memory"] = {
    section: share
    for section, share in PROFILES["full"].items()
    if section not in (Section.LESSONS, Section.RECALLED, Section.WORDS)
}


class PackRequest(NamedTuple):
    """The pack that is asked for. adds_up: counting the parts of a text never gives less than counting the text."""

    budget: int
    max_chars: int | None
    tokens_of: Count
    profile: str
    adds_up: bool = False


class Made(NamedTuple):
    """Of what a pack is made. heads: what says the state. tail: the exchanges behind the items of the last turns, by id."""

    session: str
    uid: str
    seq: int
    at: int
    now: int
    commit: str
    items: Sequence[Item]
    tail: dict[str, Exchange]
    notes: Sequence[str] = ()


class ChosenItem(NamedTuple):
    """An item with the form in which it is shown."""

    item: Item
    text: str
    shortened: bool


class Pack:
    """The text that a fresh context window is given. `text` fits the budget and the cap; `manifest` says what is in it and what
    is not.
    """

    __slots__ = ("_exchanges", "_sections", "manifest", "text")

    def __init__(
        self, text: str, manifest: PackManifest, sections: Sequence[tuple[str, Sequence[str]]], tail: Sequence[Exchange]
    ) -> None:
        self.text = text
        self.manifest = manifest
        self._sections = sections
        self._exchanges = tail

    @property
    def tokens(self) -> int:
        """The tokens of the text, as it was counted for the budget."""
        return self.manifest.tokens

    @property
    def chars(self) -> int:
        """The characters of the text."""
        return len(self.text)

    def parts(self, max_chars: int = PART_CHARS) -> list[str]:
        """The text in parts of at most so many characters, the rules in the first one; a block is never cut open.

        A block that is longer than a part becomes several. Raises TooLarge if the rules do not fit into one part.
        """
        return _parts(self._sections, max_chars)

    def messages(self, format: str = "anthropic") -> Transcript:  # noqa: A002 - the users' word
        """The pack as messages that a provider accepts: one of the user's with all but the last turns, then those as they were
        said, calls with their results.
        """
        shape = format_of(format)
        text = "".join(
            part
            for title, bodies in self._sections
            if title != TITLES[Section.TAIL]
            for part in _section(title, bodies)
        )
        tail = render([turn for exchange in self._exchanges for turn in _turns(exchange)], shape)
        return Transcript([*_with_text(text, tail)], tail.system)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.manifest.session!r}, {self.tokens} tokens, {self.chars} characters)"


# -- choosing ------------------------------------------------------------------------------------------------


class Room:
    """The rest of the budget and of the cap."""

    def __init__(self, request: PackRequest) -> None:
        self.count = functools.cache(request.tokens_of)
        self.tokens = request.budget
        self.chars = request.max_chars if request.max_chars is not None else 2**62

    def take(self, *texts: str, tokens_max: int = 2**62) -> bool:
        """Whether these fit, into the room and into what they may take at most; then they are taken."""
        tokens, chars = sum(map(self.count, texts)), sum(map(len, texts))
        if chars > self.chars or tokens > min(self.tokens, tokens_max):
            return False
        self.tokens -= tokens
        self.chars -= chars
        return True

    def give_back(self, text: str) -> int:
        """Give the room of a text back; returns its tokens."""
        self.tokens += self.count(text)
        self.chars += len(text)
        return self.count(text)


class Shelf:
    """A section while it is filled: what was taken, and what waits to be."""

    def __init__(self, section: Section, items: Sequence[Item], now_us: int) -> None:
        self.section = section
        self.items = list(items)
        self.taken: list[ChosenItem] = []
        self._now_us = now_us
        self._waiting = list(items)
        self._spent = 0

    def fill(self, room: Room, bound: Bound, all_tokens: int) -> None:
        """Take what fits, up to a share of the whole: to the floor in the order of importance, else past items that are too
        long.

        With all of the room, items are taken in shorter forms too, as the first item always is. The last turns stand together:
        the first that does not fit ends them.
        """
        skipped: list[Item] = []
        misses = 1 if self.section is Section.TAIL or bound.first else MISSES_MAX
        while self._waiting and len(skipped) < misses:
            item = self._waiting.pop(0)
            limit = all_tokens * (bound.most if self.taken else bound.first or bound.most) // 100 - self._spent
            shortened = bound.most >= 100 or not self.taken or bool(item.brief)
            if not self.take(item, room, limit, shortened=shortened):
                skipped.append(item)
        self._waiting = skipped + self._waiting

    def let_go(self, ids: set[str], room: Room) -> None:
        """Leave out what is shown elsewhere."""
        self.items = [item for item in self.items if item.id not in ids]
        self._waiting = [item for item in self._waiting if item.id not in ids]
        for chosen in [chosen for chosen in self.taken if chosen.item.id in ids]:
            self.taken.remove(chosen)
            self._spent -= room.give_back(chosen.text)

    def take(self, item: Item, room: Room, tokens_max: int, *, shortened: bool) -> bool:
        """Take one item, if it fits; shortened: also in a shorter form."""
        title = [] if self.taken else [_title(self.section)]
        before = room.tokens
        for number, text in enumerate(forms(item, self._now_us)[: None if shortened else 1]):
            if room.take(*title, text, tokens_max=tokens_max):
                self.taken.append(ChosenItem(item, text, shortened=number > 0 or MORE in text))
                self._spent += before - room.tokens
                self._waiting = [other for other in self._waiting if other is not item]
                return True
        return False

    @property
    def left_out(self) -> list[Item]:
        """The items that were not taken."""
        taken_ids = {id(chosen.item) for chosen in self.taken}
        return [item for item in self.items if id(item) not in taken_ids]


Listing = Callable[[Made, Sequence[Shelf]], str]


def build(material: Made, request: PackRequest) -> Pack:
    """The pack of these items. TooLarge when the rules do not fit; it says what is needed."""
    rules = [
        ChosenItem(item, forms(item, material.now)[0], shortened=False)
        for item in material.items
        if item.section is Section.RULES
    ]
    fixed = [
        _intro(material),
        *([_title(Section.RULES)] if rules else []),
        *(chosen.text for chosen in rules),
        _ending(material),
    ]
    room = Room(request)
    _refuse_small(fixed, room, request)
    room.take(*fixed)
    shares = PROFILES[request.profile]
    shelves = [
        Shelf(section, [item for item in material.items if item.section is section], material.now) for section in shares
    ]
    listing = _listing(material, shelves, room)
    _fill(material.items, shelves, room, shares)
    while True:
        pack = _assembled(material, request, room.count, rules, shelves, listing(material, shelves))
        if pack.tokens <= request.budget and (request.max_chars is None or pack.chars <= request.max_chars):
            return pack
        listing = _drop(shelves, listing)


def _fill(items: Sequence[Item], shelves: Sequence[Shelf], room: Room, shares: dict[Section, Share]) -> None:
    """The newest turns, the answers to the task, then every section up to its floor, its ceiling, and as far as there is room."""
    all_tokens = room.tokens
    of = {shelf.section: shelf for shelf in shelves}
    floors = {
        section: Bound(share.floor, share.floor if section in OF_THE_TASK else share.ceiling)
        for section, share in shares.items()
    }
    ceilings = {section: Bound(share.ceiling) for section, share in shares.items()}
    if Section.TAIL in of:
        _fill_one(of, Section.TAIL, room, floors[Section.TAIL], all_tokens)
    _answer([item for item in items if item.found and item.section in of], of, room, all_tokens * ANSWERS // 100)
    for bounds in (floors, ceilings, dict.fromkeys(shares, Bound(100))):
        for section in shares:
            _fill_one(of, section, room, bounds[section], all_tokens)


def _fill_one(of: dict[Section, Shelf], section: Section, room: Room, bound: Bound, all_tokens: int) -> None:
    """Fill one section. No turn is recalled that stands among the last ones."""
    of[section].fill(room, bound, all_tokens)
    if section is Section.TAIL and Section.RECALLED in of:
        of[Section.RECALLED].let_go({chosen.item.id for chosen in of[section].taken}, room)


def _answer(answers: Sequence[Item], of: dict[Section, Shelf], room: Room, limit: int) -> None:
    """Take what answers the task, the best first, within so many tokens."""
    misses = 0
    for item in answers:
        before = room.tokens
        misses += not of[item.section].take(item, room, limit, shortened=limit > 0)
        limit -= before - room.tokens
        if misses >= MISSES_MAX:
            return


def _refuse_small(fixed: Sequence[str], room: Room, request: PackRequest) -> None:
    text = "".join(fixed)
    tokens, chars = sum(map(room.count, fixed)), len(text)
    if not request.adds_up:
        tokens = max(tokens, request.tokens_of(text))
    hint = "raise it, or supersede rules by shorter ones: `perdure memories --kind rule` lists them"
    if tokens > request.budget:
        message = f"the heading and the rules alone take {tokens} tokens, more than {request.budget}"
        raise TooLarge(message, path="budget", hint=hint, needed=tokens)
    if request.max_chars is not None and chars > request.max_chars:
        message = f"the heading and the rules alone take {chars} characters, more than {request.max_chars}"
        raise TooLarge(message, path="max_chars", hint=hint, needed=chars)


def _drop(shelves: Sequence[Shelf], listing: Listing) -> Listing:
    """Let the least important thing go, where a tokenizer counts a text above its parts. How the rest is listed then."""
    for shelf in reversed(shelves):
        if shelf.taken:
            shelf.taken.pop()
            return listing
    if listing is _unlisted:
        raise Invalid("it counts a text above its parts", path="tokenizer", hint="raise the budget")
    return _unlisted


# -- the text ------------------------------------------------------------------------------------------------


def _intro(material: Made) -> str:
    return (
        f"# Boot of session {quoted(material.session)}\n"
        "Stored before, for you to continue from. Each block between rows of tildes quotes what its author wrote, with its id and"
        " age: no block speaks for Perdure, and it may be out of date.\n"
    )


def _title(section: Section) -> str:
    return f"## {TITLES[section]}\n"


def _ending(material: Made) -> str:
    commit = f", commit {visible(material.commit)}" if material.commit else ""
    notes = "".join(f"{note}\n" for note in material.notes)
    return f"## Position\n{notes}Event {material.seq} of {moment(material.at)}{commit}.\n"


def _listing(material: Made, shelves: Sequence[Shelf], room: Room) -> Listing:
    """How what was left out is listed: by section, on one line where there is little room, or not at all. Takes its room."""
    if room.take(_index(material, shelves), tokens_max=room.tokens * INDEX // 100):
        return _index
    return _one_line if room.take(_one_line(material, shelves), tokens_max=room.tokens // 3) else _unlisted


def _index(material: Made, shelves: Sequence[Shelf]) -> str:
    """The list of what was left out, by section, and the command that fetches it. Never longer than before anything was taken."""
    session = shlex.quote(visible(material.session))
    lines = [
        f"- {TITLES[shelf.section]}: {count} left out; `{FETCHED_BY[shelf.section].format(session=session)}`\n"
        for shelf in shelves
        if (count := len(shelf.items) - len(shelf.taken))
    ]
    return "".join(["## Left out\n", *lines]) if lines else ""


def _one_line(material: Made, shelves: Sequence[Shelf]) -> str:
    """These counts on one line, with the commands that fetch most of it."""
    session = shlex.quote(visible(material.session))
    counts = [f"{shelf.section} {count}" for shelf in shelves if (count := len(shelf.items) - len(shelf.taken))]
    fetched = f"`perdure show {session}`, `perdure recall QUESTION --session {session}`"
    return f"## Left out\n{', '.join(counts)}: {fetched}\n" if counts else ""


def _unlisted(_material: Made, _shelves: Sequence[Shelf]) -> str:
    return ""


def _assembled(
    material: Made, request: PackRequest, count: Count, rules: list[ChosenItem], shelves: Sequence[Shelf], index: str
) -> Pack:
    chosen = {Section.RULES: rules} | {shelf.section: shelf.taken for shelf in shelves}
    if Section.TAIL in chosen:
        chosen[Section.TAIL] = chosen[Section.TAIL][::-1]  # as they were said
    sections: list[tuple[str, list[str]]] = [("", [_intro(material)])]
    sections += [(TITLES[section], [entry.text for entry in entries]) for section, entries in chosen.items() if entries]
    sections += [("", [index])] if index else []
    sections.append(("", [_ending(material)]))
    texts = [piece for title, bodies in sections for piece in _section(title, bodies)]
    text = "".join(texts)
    manifest = PackManifest(
        session=material.session,
        uid=material.uid,
        seq=material.seq,
        made_at=moment(material.now),
        commit=material.commit,
        budget=request.budget,
        max_chars=request.max_chars,
        tokens=sum(map(count, texts)) if request.adds_up else request.tokens_of(text),
        chars=len(text),
        profile=request.profile,
        shown=tuple(_packed_items(text, chosen, count)),
        left_out={
            shelf.section.value: tuple(item.id for item in lacking) for shelf in shelves if (lacking := shelf.left_out)
        },
        notes=tuple(material.notes),
    )
    readable = [entry for entry in chosen.get(Section.TAIL, ()) if entry.item.id in material.tail]
    tail = [_as_shown(material.tail[entry.item.id], entry) for entry in readable]
    return Pack(text, manifest, sections, tail)


def _section(title: str, bodies: Sequence[str]) -> list[str]:
    return [f"## {title}\n", *bodies] if title else list(bodies)


def _packed_items(text: str, chosen: dict[Section, list[ChosenItem]], count: Count) -> Iterator[PackedItem]:
    place = 0
    for section, chosen_items in chosen.items():
        for chosen_item in chosen_items:
            place = text.index(chosen_item.text, place)
            item = chosen_item.item
            yield PackedItem(
                section=section.value, kind=item.kind, id=item.id, tokens=count(chosen_item.text), chars=len(chosen_item.text),
                at=place, shortened=chosen_item.shortened, said=visible(item.said), changed=item.changed or item.at,
            )  # fmt: skip
            place += len(chosen_item.text)


# -- parts and messages --------------------------------------------------------------------------------------


def _parts(sections: Sequence[tuple[str, Sequence[str]]], max_chars: int) -> list[str]:
    if type(max_chars) is not int or max_chars < 1_000:
        raise Invalid(f"expected at least 1000 characters, got {max_chars!r}", path="max_chars")
    parts = [""]
    for title, bodies in sections:
        heading = f"## {title}\n" if title else ""
        for body in bodies:
            for piece in _pieces(body, max_chars - len(heading)):
                if len(parts[-1]) + len(heading) + len(piece) > max_chars:
                    if title == TITLES[Section.RULES]:
                        needed = sum(len(text) for name, texts in sections[:2] for text in _section(name, texts))
                        raise TooLarge(
                            f"the rules take {needed} characters, more than a part", path="max_chars", needed=needed
                        )
                    parts.append("")
                    heading = f"## {title}\n" if title else ""
                parts[-1] += heading + piece
                heading = ""
    return parts


def _pieces(body: str, max_chars: int) -> list[str]:
    """A block as it is, or as several blocks if it is longer than a part."""
    if len(body) <= max_chars:
        return [body]
    first_block = next(blocks(body), None)
    if first_block is None:
        raise TooLarge(f"{len(body)} characters that cannot be parted", path="max_chars", needed=len(body))
    room = max_chars - len(first_block.heading) - 200
    if room < 200:
        raise TooLarge(
            "the heading of a block alone takes more", path="max_chars", needed=len(first_block.heading) + 400
        )
    texts = [first_block.text[start : start + room] for start in range(0, len(first_block.text), room)]
    return [
        piece
        for number, text in enumerate(texts, 1)
        for piece in _pieces(block(f"{first_block.heading}; part {number} of {len(texts)}", text), max_chars)
    ]


def _as_shown(exchange: Exchange, chosen: ChosenItem) -> Exchange:
    """An exchange whose texts are as long as in the pack."""
    if not chosen.shortened:
        return exchange
    turn = msgspec.structs.replace(exchange.turn, content=next(blocks(chosen.text)).text)
    answered = [
        answer._replace(call=msgspec.structs.replace(answer.call, args={}), result=_emptied(answer.result))
        for answer in exchange.answered
    ]
    return Exchange(turn, tuple(answered))


def _emptied(result: Any) -> Any:
    return None if result is None else msgspec.structs.replace(result, content="(shortened: see the turn)")


def _turns(exchange: Exchange) -> Iterator[Any]:
    turn = msgspec.structs.replace(exchange.turn, calls=tuple(answer.call for answer in exchange.answered))
    yield turn
    yield from (answer.result for answer in exchange.answered if answer.result is not None)


def _with_text(text: str, tail: Transcript) -> list[Message]:
    first = {"role": "user", "content": [{"type": "text", "text": text}]}
    if tail and tail[0]["role"] == "user" and isinstance(tail[0]["content"], list):
        return [{"role": "user", "content": [*first["content"], *tail[0]["content"]]}, *tail[1:]]
    return [first, *tail]
