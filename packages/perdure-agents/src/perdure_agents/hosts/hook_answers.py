"""The work of a hook: boot at the beginning, the transcript before it can be lost, edits and commands as events.

Callers: `perdure hook`. An error is said on stderr and breaks nothing in the host. Keeps P1, P15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import NotFound, TooLarge
from perdure.handles.atomic import Atomic
from perdure.planes.conversation import sessions
from perdure.planes.memory import rules
from perdure.runtime.callers import caller_of
from perdure_agents.hosts.catalog import CAP_CHARS, Host, Moment
from perdure_agents.hosts.events import Act, HostEvent, transcript_session
from perdure_agents.hosts.transcripts import ingest, ingest_left, label_transcript
from perdure_agents.hosts.workspace import HostWorkspace
from perdure_agents.importers import formats

if TYPE_CHECKING:
    from perdure.handles.sync.session import Scope, Session
    from perdure.handles.sync.store import Store
    from perdure_agents.importers.report import ImportReport

BUDGET_TOKENS = 2 * CAP_CHARS  # of a part: the cap in characters is what bounds it
AGAIN = ("resume", "compact", "fork")


def respond(store: Store, host: Host, event: HostEvent, here: HostWorkspace, part: int) -> str:
    """The text for the model at an event; "" if there is none."""
    moment = host.moments.get(event.name)
    if moment is None:
        return ""
    if moment is Moment.ACTED:
        return _acted(store, here, event.act) if event.act is not None else ""
    if part == 1:
        _keep(store, host, event, here, moment)
    return _boot(store, host, event, here, part) if moment is Moment.BEGIN else ""


# -- the transcript --------------------------------------------------------------------------------------------------------


def _keep(store: Store, host: Host, event: HostEvent, here: HostWorkspace, moment: Moment) -> None:
    """Ingest the transcript of this session; where one begins, also those of sessions that ended without a word."""
    if not host.format or not formats.is_known(host.format):
        return
    reports: list[ImportReport] = []
    if moment is Moment.BEGIN:
        reports += ingest_left(store, here, host.name)
    if event.transcript is not None:
        own_report = ingest(store, here, host.name, host.format, event.transcript, ended=moment is Moment.END)
        reports += [own_report] if own_report is not None else []
    for name in (name for report in reports for name in report.sessions):
        label_transcript(store, name, _label(here))


def _label(here: HostWorkspace) -> str:
    return f"workspace:{here.session}"


# -- boot ------------------------------------------------------------------------------------------------------------------


def _boot(store: Store, host: Host, event: HostEvent, here: HostWorkspace, part: int) -> str:
    """Part 1 is the working set of the workspace; part 2 the last turns of the conversation that it continues."""
    if part == 1:
        session = store.session(here.session, labels=here.labels)
        try:
            pack = session.boot(BUDGET_TOKENS, max_chars=CAP_CHARS, root=here.root)
        except TooLarge as error:
            return _too_large(session, error)
        return pack.text
    if event.source in AGAIN:
        name = transcript_session(host.name, event)
    else:
        name = next((session.name for session in store.sessions(label=_label(here), limit=1)), "")
    if not name or part > host.parts:
        return ""
    try:
        return store.session(name).boot(BUDGET_TOKENS, max_chars=CAP_CHARS).text if _is_there(store, name) else ""
    except (NotFound, TooLarge):
        return ""


def _too_large(session: Session, error: TooLarge) -> str:
    """Rules that do not fit are never shown in part: the model is sent to where they are whole."""
    return (
        f"The rules of session {session.name!r} do not fit here ({error.message}). Before anything else, call the perdure tool "
        f"`boot`, or run `perdure boot {session.name}`, and read all of its parts."
    )


def _is_there(store: Store, name: str) -> bool:
    """Whether there is such a session; opening it would make it."""
    return caller_of(store).read(sessions.find_session, name) is not None


# -- edits and commands ----------------------------------------------------------------------------------------------------


def _acted(store: Store, here: HostWorkspace, act: Act) -> str:
    """Record an edit or a command as an event; one that breaks a rule also as a correction, which the model is told."""
    session = store.session(here.session, labels=here.labels)
    places: list[Session | Scope] = [session, *(store.scope(label) for label in here.labels)]
    known_rules = [rule for place in places for rule in place.memories(kind="rule", limit=1_000)]
    broken = rules.broken_by(act.what, known_rules)

    def write(tx: Atomic) -> int:
        inside = tx.session(here.session)
        event = inside.emit(f"host.{act.kind}", {"what": act.what, "tool": act.tool, "failed": act.failed})
        for rule in broken:
            text, kind, tags, about = rules.correction_of(rule, act.tool, act.what)
            inside.remember(text, kind=kind, tags=tags, about=about)
        return event.seq

    request = {"kind": act.kind, "what": act.what, "failed": act.failed}
    if act.id:
        session.once(f"hook/{act.id}"[:200], write, asked=request)
    else:
        store.atomic(write)
    return "".join(
        f"This broke the rule {rule.scope}/{rule.seq}: {rule.text}. Undo it if you can, and tell the user.\n"
        for rule in broken
    )
