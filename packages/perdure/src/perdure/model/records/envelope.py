"""The envelope: the least state that is needed to continue a run, as data. See docs/decisions/0009.

Its parts are rows as they stand and documents as they are stored; a document of more than 8 KiB lies in a blob, and the
envelope names it. `to_json` and `from_json` carry it to another store: an envelope that was altered on the way is refused
(P10).
"""

from __future__ import annotations

import enum
import hashlib
import json
from typing import Annotated, Any, NoReturn

import msgspec

from perdure.errors import Damaged, Invalid, TooLarge
from perdure.model.pins import OnChange
from perdure.model.records.effects import EffectState, ToolKind
from perdure.model.records.runs import PinsChange, RunStatus, WaitKind, WaitState

VERSION = 1
FORMAT = "perdure envelope"
ENVELOPE_MAX_BYTES = 256 * 1024 * 1024
CHILDREN_MAX_DEPTH = 16

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Word = Annotated[str, msgspec.Meta(max_length=1_000)]
Digits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$", max_length=64)]


class Standing(enum.StrEnum):
    """The present possibilities of a run."""

    RESUMABLE = "can be resumed as it is"
    PERSON = "waits for a person"
    DOUBT = "in doubt"
    PARKED = "parked"
    OVER = "over"


class RunVerdict(msgspec.Struct, frozen=True):
    """The standing of a run, and a sentence about it. Never true or false: there are five answers."""

    standing: Standing
    says: str

    def __bool__(self) -> NoReturn:
        raise Invalid(
            f"a verdict is not true or false: {self.standing.value}",
            path="verdict",
            hint="compare verdict.standing with a perdure.Standing",
        )


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of an envelope: unknown fields are refused, so that nothing is passed over in silence."""


class Document(Part, frozen=True, kw_only=True):
    """The part that an event keeps besides its row: in place, or the address of its blob. subjects: the persons or things that
    it is about.
    """

    doc: Any = None
    blob: Digits = ""
    subjects: tuple[Word, ...] = ()


class RunPart(Part, frozen=True, kw_only=True):
    """The run itself. given: its arguments; became: its result, its error, or why it is parked. restored: its store was, since
    it began or was vouched for, so that it may have done more than is told here. subjects: whom all of it is about. pins: the
    versions under which it was driven last; session_pins: those of them that its session pins.
    """

    uid: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    name: Word
    agent: Word
    status: RunStatus
    digest: Word
    creator: Word
    created_at: Number
    token: Number
    program: Word
    key: Word | None = None
    session: Word | None = None
    parent: Word | None = None
    ended_at: Number | None = None
    timeout_at: Number | None = None
    cancelling: bool = False
    pinned: bool = False
    restored: bool = False
    reason: Word | None = None
    subjects: tuple[Word, ...] = ()
    pins: dict[Word, Word] = {}
    pins_change: PinsChange | None = None
    on_change: OnChange | None = None
    session_pins: dict[str, Any] = {}
    given: Document
    became: Document | None = None


class Cursor(Part, frozen=True, kw_only=True):
    """The place of the run in its journal: its head, its last cut, and the entries after that.

    done: how many places have an entry; last: the place and the name of the newest step.
    """

    seq: Number
    hash: Digits
    cut: Number
    cut_seq: Number
    done: Number
    last: str = ""


class CheckpointPart(Part, frozen=True, kw_only=True):
    """The state of the last cut: the root of its tree, from which all its blobs are found. about: what the cut noted. subjects:
    whom anything before it is about, and so perhaps this state.
    """

    root: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    size: Number
    at: Number
    about: Document = Document()
    subjects: tuple[Word, ...] = ()


class StepPart(Part, frozen=True, kw_only=True):
    """A step that was done."""

    seq: Number
    meant: Document


class EffectPart(Part, frozen=True, kw_only=True):
    """An effect as it stands. meant: its arguments and its rule; became: its outcome.

    quiet_at: since when its sender is known to be unable to send, if that is known.
    """

    seq: Number
    state: EffectState
    tool: Word
    kind: ToolKind
    key: Word
    digest: Word
    attempt: Number
    epoch: Number
    actor: Word
    at: Number
    place: Word | None = None
    call: Word | None = None
    undoes: Number | None = None
    holder: Word | None = None
    dispatched_at: Number | None = None
    deadline_at: Number | None = None
    quiet_at: Number | None = None
    error: Word | None = None
    mishaps: Number = 0
    first_dispatched_at: Number | None = None
    meant: Document
    became: Document | None = None


class WaitPart(Part, frozen=True, kw_only=True):
    """A wait as it stands. meant: its question; became: its answer."""

    seq: Number
    kind: WaitKind
    state: WaitState
    name: Annotated[str, msgspec.Meta(max_length=1_000)]
    actor: Word
    at: Number
    place: Word | None = None
    effect: Number | None = None
    digest: Word | None = None
    expires_at: Number | None = None
    met_by: Word | None = None
    met_at: Number | None = None
    meant: Document
    became: Document | None = None


class SignalPart(Part, frozen=True, kw_only=True):
    """A signal that no wait has taken yet."""

    seq: Number
    name: Word
    meant: Document


class PendingEffect(Part, frozen=True, kw_only=True):
    """An effect that is not settled, and a recommendation. For people: continuing does not need it.

    handed: the key that its tool gets.
    undo: the tool that undoes it, once it happened; undo_idempotent: even while that is in doubt.
    until: when to look again, in microseconds.
    settle: the command with which a person settles it.
    """

    id: str
    tool: str
    kind: ToolKind
    state: EffectState
    key: str
    handed: str
    attempt: int
    action: str
    reason: str
    until: int | None = None
    undo: str = ""
    undo_idempotent: bool = False
    undoes: str = ""
    settle: str = ""


class Envelope(Part, frozen=True, kw_only=True):
    """Everything that is needed to continue a run, and its standing. See `run.envelope`, `run.hand_over` and `store.adopt`.

    sealed: it was handed over, so it does not continue where it came from.
    steps, effects, waits: since the last cut, and those that are still open from before it.
    signals: those that no wait has taken.
    pins: the versions that the run last had, and over them those of the newest model step.
    workspace: what the last cut noted about it.
    artifacts: the blobs that it names; a checkpoint's tree is found from its root.
    children: the runs that it waits for.
    """

    store: Digits
    epoch: Number
    made_at: Number
    sealed: bool = False
    run: RunPart
    cursor: Cursor
    verdict: RunVerdict
    pending: tuple[PendingEffect, ...] = ()
    pins: Any = None
    workspace: Any = None
    checkpoint: CheckpointPart | None = None
    artifacts: tuple[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")], ...] = ()
    steps: tuple[StepPart, ...] = ()
    effects: tuple[EffectPart, ...] = ()
    waits: tuple[WaitPart, ...] = ()
    signals: tuple[SignalPart, ...] = ()
    children: tuple[Envelope, ...] = ()

    def to_json(self) -> bytes:
        """Return the envelope as ASCII text, with its digest. `from_json` reads it on any store."""
        body = json.dumps(msgspec.to_builtins(self), separators=(",", ":")).encode()
        digest = hashlib.sha256(body).hexdigest()
        head = f'{{"format":"{FORMAT}","version":{VERSION},"digest":"{digest}","envelope":'
        return head.encode() + body + b"}"

    @classmethod
    def from_json(cls, data: bytes | str) -> Envelope:
        """Read an envelope. Raises Invalid (or TooLarge) for another text or another version, Damaged if it was altered."""
        raw = _opened(data.encode("utf-8", "replace") if isinstance(data, str) else data)
        try:
            return _decode_envelope(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(f"it is no envelope: {error}", path="envelope") from None


class _Wrapper(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    digest: str
    envelope: msgspec.Raw


_decode_wrapper = msgspec.json.Decoder(_Wrapper).decode
_decode_envelope = msgspec.json.Decoder(Envelope).decode


def _opened(data: object) -> bytes:
    """The envelope inside its wrapper, unaltered."""
    if not isinstance(data, bytes):
        raise Invalid(f"expected the bytes of an envelope, got {type(data).__name__}", path="envelope")
    if len(data) > ENVELOPE_MAX_BYTES:
        raise TooLarge(f"{len(data)} bytes, at most {ENVELOPE_MAX_BYTES} are read", path="envelope")
    try:
        wrapper = _decode_wrapper(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"it is no envelope: {error}", path="envelope") from None
    if wrapper.format != FORMAT:
        raise Invalid(f"it is no envelope: its format is {wrapper.format[:60]!r}", path="envelope.format")
    if wrapper.version != VERSION:
        hint = "read it with the Perdure that wrote it, or with a newer one"
        raise Invalid(f"version {wrapper.version}; this is {VERSION}", path="envelope.version", hint=hint)
    raw = bytes(wrapper.envelope)
    if hashlib.sha256(raw).hexdigest() != wrapper.digest:
        raise Damaged("the envelope is not what was written: its digest differs", path="envelope.digest")
    return raw
