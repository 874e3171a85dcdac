"""Messages of frameworks as turns, and turns as messages of frameworks: the neutral model, once for all adapters.

A framework registers a `Form`: how one of its records is parsed into a neutral `Message`, and how a message is rendered into its
records. One record is one turn. Where rendering the parsed message does not give the record back, the turn keeps the record as
its native form, which only the same form reads. Reasoning that a provider signed goes back to that provider alone. A call
without a result is rendered with one that says so (P14). No framework is imported here. Callers: the adapters.

A record that is rendered bears the identity of its turn. A framework that gives it back says nothing new: `keep` finds the turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, TooLarge
from perdure.handles.sync.session import Session
from perdure.model.records.conversation import Call, Native, Role, Turn
from perdure.planes.conversation.transcript import INTERRUPTED, as_text

Part = dict[str, Any]


class Message(msgspec.Struct, frozen=True):
    """A neutral message: what `say` or, with `call`, `result` takes.

    tool: of a result that is rendered, the tool that gave it. opaque: no other framework can show it.
    """

    role: str
    content: Any = None
    calls: tuple[Call, ...] = ()
    call: str | None = None
    error: bool = False
    usage: dict[str, Any] | None = None
    model: str | None = None
    tool: str | None = None
    opaque: bool = False


OPAQUE = Message("assistant", opaque=True)
PART = "/part"  # a result that stands in the record of the turn after it; the form of that record shows it there


def no_results(record: Any) -> list[Message]:  # noqa: ARG001 - as every form
    """No results besides the message itself."""
    return []


class Form(NamedTuple):
    """The form of one framework. provider: whose signed reasoning its model takes; "" for none in particular.

    results: the results that a record carries besides what `parse` gives of it, as of parallel calls; each is a turn before it.
    id_path: the fields in which a record bears its id; none where a framework gives no record back.
    """

    name: str
    provider: str
    parse: Callable[[Any], Message]
    render: Callable[[Message], list[Any]]
    results: Callable[[Any], list[Message]] = no_results
    id_path: tuple[str, ...] = ()


class ShownRecords(NamedTuple):
    """Records of one form. skipped: turns that only another framework can show."""

    records: list[Any]
    skipped: int


FORMS: dict[str, Form] = {}


def register(form: Form) -> Form:
    """Make a form known by its name. A later one takes the place of an earlier one."""
    FORMS[form.name] = form
    return form


# -- parts of contents, as transcripts know them ----------------------------------------------------------------


def text(content: str) -> Part:
    """A text."""
    return {"type": "text", "text": content}


def image(url: str) -> Part:
    """An image, by an address or as data (`data:image/png;base64,…`)."""
    return {"type": "image_url", "image_url": {"url": url}}


def thought(content: str, provider: str, signature: str | None = None) -> Part:
    """Reasoning of a model. The signature is believed by its own provider alone."""
    part = {"type": "thinking", "thinking": content, "provider": provider}
    return part if signature is None else {**part, "signature": signature}


def image_of(part: Any) -> tuple[str, str] | None:
    """The media type and the base64 data of an image that is given as data; None for any other part."""
    url = url_of(part)
    if url is None or not url.startswith("data:"):
        return None
    kind, marker, data = url.removeprefix("data:").partition(";base64,")
    return (kind, data) if marker else None


def url_of(part: Any) -> str | None:
    """The address of an image, as the parts of any provider say it; None for any other part."""
    if part.get("type") == "image_url":
        address = part.get("image_url")
        url = address.get("url") if isinstance(address, dict) else address
    elif part.get("type") == "image":
        source = part.get("source") if isinstance(part.get("source"), dict) else part
        data = source.get("data") or source.get("base64")
        url = source.get("url") or (
            data and f"data:{source.get('media_type') or source.get('mime_type')};base64,{data}"
        )
    else:
        return None
    return url if isinstance(url, str) and url else None


def parts_of(content: Any) -> list[Part]:
    """Content as parts: text becomes one, other values their JSON."""
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return content
    plain = as_text(content)
    return [text(plain)] if plain else []


def plain_text(content: Any) -> str:
    """Content as one text, without reasoning."""
    return as_text([part for part in parts_of(content) if part.get("type") != "thinking"] or None)


def for_provider(content: Any, provider: str) -> Any:
    """Content without reasoning of other providers: to them it is no text and no proof."""
    if not isinstance(content, list):
        return content
    return [part for part in content if not _is_strange(part, provider)] or None


def _is_strange(part: Any, provider: str) -> bool:
    is_thought = isinstance(part, dict) and part.get("type") in ("thinking", "redacted_thinking")
    return is_thought and part.get("provider", "anthropic") != provider


# -- a record becomes a turn -------------------------------------------------------------------------------------


def keep(
    session: Session, form: Form, record: Any, *, key: str | None = None, usage: dict[str, Any] | None = None,
    parent: int | None = None,
) -> Turn:  # fmt: skip
    """Say a framework's record as one turn. session: a sync handle, mostly inside `store.atomic`, so that many are one commit.

    A record that was rendered of a turn of this session is that turn. A record that contradicts the conversation (a result
    without its call, a second result, an id that is still open) is kept as it is, for its own framework alone: nothing is lost,
    and nothing that others read is wrong. usage: what the answer took that this record is the last one of. parent: the turn that
    it follows, where that is not the newest one; a result follows that.
    """
    stands = turn_named(session, _id_of(form, record))
    if stands is not None:
        return stands
    message = _parsed(form, record)
    native = native_of(form, record, message)
    if parent is None:
        _keep_results(session, form, record, key)
    if not message.opaque:
        try:
            return _say(session, msgspec.structs.replace(message, usage=usage or message.usage), native, key, parent)
        except TooLarge:
            raise
        except (Conflict, NotFound, Invalid) as refused:
            if isinstance(refused, KeyReused) and refused.path == "key":
                raise
    return _kept_as_it_is(session, Native(form.name, record), key, parent)


def _keep_results(session: Session, form: Form, record: Any, key: str | None) -> None:
    """Say the results that a record carries besides its message. One that contradicts the conversation stands in the record."""
    for number, result in enumerate(_results_in(form, record)):
        own = None if key is None else f"{key}/{number}"
        try:
            session.result(
                result.call or "", result.content, error=result.error, key=own, native=Native(form.name + PART, None)
            )
        except TooLarge:
            raise
        except (Conflict, NotFound, Invalid):
            continue


def _parsed(form: Form, record: Any) -> Message:
    try:
        return form.parse(record)
    except (KeyError, TypeError, ValueError, AttributeError):  # a record from outside may be anything
        return OPAQUE


def _results_in(form: Form, record: Any) -> list[Message]:
    try:
        return form.results(record)
    except (KeyError, TypeError, ValueError, AttributeError):  # as above
        return []


def native_of(form: Form, record: Any, message: Message) -> Native | None:
    """The native form of a record, where rendering its message does not give it back, as where a record bears an id."""
    same = not message.opaque and not form.id_path and form.render(message) == [record]
    return None if same else Native(form.name, record)


def _say(session: Session, message: Message, native: Native | None, key: str | None, parent: int | None) -> Turn:
    if message.call is not None and parent is None:
        return session.result(message.call, message.content, error=message.error, key=key, native=native)
    return session.say(
        message.role,  # type: ignore[arg-type]
        message.content, key=key, calls=message.calls, native=native, usage=message.usage, model=message.model, parent=parent,
    )  # fmt: skip


def _kept_as_it_is(session: Session, native: Native, key: str | None, parent: int | None) -> Turn:
    try:
        return session.say("assistant", key=key, native=native, parent=parent)
    except TooLarge:
        raise
    except Invalid:  # NUL, a lone surrogate: as bytes
        return session.say(
            "assistant", key=key, native=Native(native.form, json.dumps(native.body).encode()), parent=parent
        )


# -- the identity of a turn, whichever framework shows it --------------------------------------------------------

_IDENTITY = re.compile(r"perdure:([0-9a-f]{32}):([0-9]{1,18})(?:/([0-9]{1,9}))?")


class TurnIdentity(NamedTuple):
    """The session and the number of a turn. part: 0 for the turn, N for the missing result of its Nth call."""

    uid: str
    seq: int
    part: int = 0

    def __str__(self) -> str:
        return f"perdure:{self.uid}:{self.seq}" + (f"/{self.part}" if self.part else "")


def identity_of(turn: Turn, part: int = 0) -> str:
    """The id by which every framework knows a turn that it did not say itself."""
    return str(TurnIdentity(turn.ref.uid, turn.seq, part))


def identity_in(text: object) -> TurnIdentity | None:
    """The identity that an id says; None for an id of a framework's own."""
    match = _IDENTITY.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else TurnIdentity(match[1], int(match[2]), int(match[3] or 0))


def turn_named(session: Session, name: object) -> Turn | None:
    """The turn of this session that an id is the identity of; None for an id of a framework's own, or a retracted turn."""
    identity = identity_in(name)
    if identity is None:
        return None
    page = session.turns(after=identity.seq - 1, limit=1)
    return page[0] if page and (page[0].ref.uid, page[0].seq) == (identity.uid, identity.seq) else None


def is_missing_result(name: object) -> bool:
    """Whether an id is that of a result that was rendered where none came: it is no turn, now or later."""
    identity = identity_in(name)
    return identity is not None and identity.part > 0


def says_the_same(form: Form, turn: Turn, record: Any) -> bool:
    """Whether a record is its turn, unchanged. Reasoning of another framework does not count: each reader gets its own."""
    rendered = records_of(form, turn) or [None]
    if is_own(form, turn):
        return rendered == [record]
    return _words(_parsed(form, rendered[0])) == _words(_parsed(form, record))


def _words(message: Message) -> tuple[Any, ...]:
    parts = parts_of(for_provider(message.content, "")) if message.content is not None else []
    return message.role, parts, message.calls, message.call, message.error, message.opaque


def _id_of(form: Form, record: Any) -> Any:
    for name in form.id_path:
        record = record.get(name) if isinstance(record, dict) else None
    return record if form.id_path else None


def _identified(form: Form, turn: Turn, records: list[Any], part: int = 0) -> list[Any]:
    return [_with_id(record, form.id_path, identity_of(turn, at)) for at, record in enumerate(records, part)]


def _with_id(record: Any, path: tuple[str, ...], identity: str) -> Any:
    if not path:
        return record
    return {**record, path[0]: _with_id(record.get(path[0], {}), path[1:], identity) if path[1:] else identity}


# -- turns become records ----------------------------------------------------------------------------------------


def message_of(turn: Turn) -> Message:
    """A turn as a neutral message."""
    opaque = turn.native is not None and turn.content is None and not turn.calls and turn.call is None
    return Message(
        role=turn.role.value, content=turn.content, calls=turn.calls, call=turn.call, error=turn.error, usage=turn.usage,
        model=turn.model, opaque=opaque,
    )  # fmt: skip


def records_of(
    form: Form, turn: Turn, *, provider: str | None = None, tool: str | None = None
) -> list[Any] | None:  # fmt: skip
    """The records of one turn: its native one, or the rendered message. None for what only another framework can show.

    provider: whose signed reasoning is taken; by default that of the form. tool: the tool that gave a result.
    """
    if is_own(form, turn):
        body = turn.native.body  # type: ignore[union-attr]
        return [json.loads(body) if isinstance(body, bytes) else body]
    if turn.native is not None and turn.native.form == form.name + PART:
        return []
    message = message_of(turn)
    if message.opaque:
        return None
    content = for_provider(message.content, form.provider if provider is None else provider)
    return _identified(form, turn, form.render(msgspec.structs.replace(message, content=content, tool=tool)))


def is_own(form: Form, turn: Turn) -> bool:
    """Whether a turn is a record of this form."""
    return turn.native is not None and turn.native.form == form.name


def show(
    form: Form, turns: Sequence[Turn], *, completes: bool = True, provider: str | None = None, resumes: bool = False
) -> ShownRecords:
    """Turns as records of a form, in order; see `records_by_turn`."""
    groups = [
        records for _, records in records_by_turn(form, turns, completes=completes, provider=provider, resumes=resumes)
    ]
    return ShownRecords([record for records in groups for record in records or ()], groups.count(None))


def records_by_turn(
    form: Form, turns: Sequence[Turn], *, completes: bool = True, provider: str | None = None, resumes: bool = False
) -> Iterator[tuple[Turn, list[Any] | None]]:
    """Each turn with its records; None for a turn that only another framework can show.

    A result that a record of the form carries too is shown there alone. completes: every call has a result, an interrupted one
    where none came. resumes: the framework itself goes on with the calls of its records, until another one has spoken after them.
    provider: whose model reads them, where the form serves many; its own signed reasoning is among them then.
    """
    open_calls = unanswered(turns) if completes else {}
    carried = _carried(form, turns)
    resumable = _left_to(form, turns) if resumes else set()
    makers: dict[str | None, Turn] = {}
    for turn in turns:
        makers |= {call.id: turn for call in turn.calls}
        maker = makers.get(turn.call)
        if (
            maker is not None
            and not is_own(form, turn)
            and (maker.seq in resumable or (maker.seq, turn.call) in carried)
        ):
            yield turn, []
            continue
        tool = next((call.tool for call in maker.calls if call.id == turn.call), None) if maker is not None else None
        records = records_of(form, turn, provider=provider, tool=tool)
        for part, call in enumerate(turn.calls, 1) if turn.seq not in resumable else ():
            if call.id in open_calls.get(turn.seq, ()) and (turn.seq, call.id) not in carried:
                message = Message("tool", INTERRUPTED, call=call.id, error=True, tool=call.tool)
                records = [*(records or ()), *_identified(form, turn, form.render(message), part)]
        yield turn, records


def _carried(form: Form, turns: Iterable[Turn]) -> set[tuple[int, str | None]]:
    """The calls whose results records of this form carry, each with the turn that made it."""
    makers: dict[str | None, int] = {}
    carried: set[tuple[int, str | None]] = set()
    for turn in turns:
        makers |= {call.id: turn.seq for call in turn.calls}
        for record in (records_of(form, turn) or ()) if is_own(form, turn) else ():
            calls = [message.call for message in (_parsed(form, record), *_results_in(form, record))]
            carried |= {(makers[call], call) for call in calls if call in makers}
    return carried


def _left_to(form: Form, turns: Sequence[Turn]) -> set[int]:
    """The records of this form after which no other framework has spoken."""
    spoken = (
        turn.seq for turn in turns if not is_own(form, turn) and turn.call is None and not message_of(turn).opaque
    )
    last = max(spoken, default=0)
    return {turn.seq for turn in turns if is_own(form, turn) and turn.seq > last}


def unanswered(turns: Iterable[Turn]) -> dict[int, set[str]]:
    """The calls among these turns that have no result among them, by the turn that made them."""
    open_calls: dict[int, set[str]] = {}
    makers: dict[str, int] = {}
    for turn in turns:
        if turn.role is Role.TOOL and turn.call in makers:
            open_calls[makers[turn.call]].discard(turn.call)
        for call in turn.calls:
            makers[call.id] = turn.seq
            open_calls.setdefault(turn.seq, set()).add(call.id)
    return {seq: calls for seq, calls in open_calls.items() if calls}


def arguments_of(arguments: Any) -> dict[str, Any]:
    """The arguments of a call by name. A text that is no JSON object is kept verbatim, as `value`."""
    if isinstance(arguments, dict):
        return arguments
    try:
        value = json.loads(arguments) if arguments else {}
    except (TypeError, ValueError):
        value = arguments
    return value if isinstance(value, dict) else {"value": arguments}
