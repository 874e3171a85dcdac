"""Verbs for decisions and references: of sessions and stores, and of a decision itself."""

from __future__ import annotations

from perdure.model.filters import DecisionFilters, SessionDecisionFilters
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import DECISION, SESSION, STORE, Endpoint, Right, read, verb
from perdure.verbs.planes import arg, decisions
from perdure.verbs.reasons import FEW, PROGRAMS, WITHIN


@verb(
    lambda: decisions.decide, on=(SESSION,), right=Right.WRITE, command="decide", tool="decide",
    body=("DecisionInput", "A decision, with its reason. refs: what it refers to, as [uid, seq]."),
    at=(Endpoint(SESSION, "POST", "/decisions", "decide", "Record a decision before anything is done about it.", 201,
                 defaults={"tags": None}),),
    lacks={"mcp": {"refs": FEW}},
)  # fmt: skip
def decide(
    text: arg.Text,
    *,
    because: arg.Because,
    then: arg.Then = None,
    refs: arg.Refs = (),
    tags: arg.Tags = (),
    checks: arg.Checks = (),
    about: arg.About = (),
) -> DecisionRecord:
    """Record a decision, before anything is done about it. Atomic; two calls make two decisions.

    because: the reason.
    then: the step that is to follow.
    refs: turns, decisions, tasks, artifacts (anything with a `ref`) or Refs. A ref to another session is kept unchecked,
        because that session may be in another store.
    checks: conditions under which the decision holds (`perdure.FileHash` …), looked at when the session is booted and by
        `store.checked`.
    about: its subjects, besides those of its refs.

    Raises Invalid, TooLarge, or NotFound (a ref to something that this session does not have) with the path; nothing is
    written then.
    """
    raise NotImplementedError


@verb(
    lambda: decisions.close, on=(DECISION,), right=Right.WRITE, tool="close", body=("CloseInput", "The outcome of a decision."),
    at=(Endpoint(DECISION, "POST", "/close", "close_decision", "Record the outcome of a decision."),),
    lacks={"cli": PROGRAMS},
)  # fmt: skip
def close(outcome: arg.Outcome, note: arg.Note = None, *, about: arg.About = ()) -> DecisionRecord:
    """Record the outcome; returns itself. Atomic; the same outcome and note again change nothing.

    about: subjects of the outcome, besides those of the decision. Raises Conflict if it was closed with another outcome, or
        superseded.
    """
    raise NotImplementedError


@verb(
    lambda: decisions.supersede, on=(DECISION,), right=Right.WRITE, tool="decide",
    body=("DecisionSupersedeInput", "The decision that replaces another. tags: by default those of the other."),
    at=(Endpoint(DECISION, "POST", "/supersede", "supersede_decision",
                "Replace a decision by a new one, which is answered; each names the other.", 201),),
    lacks={"cli": PROGRAMS, "mcp": {"refs": FEW}},
)  # fmt: skip
def supersede(
    text: arg.Text,
    *,
    because: arg.Because,
    then: arg.Then = None,
    refs: arg.Refs = (),
    tags: arg.TagsOrAsBefore = None,
    checks: arg.Checks = (),
    about: arg.About = (),
) -> tuple[DecisionRecord, DecisionRecord]:
    """Replace it by a new decision, which is returned. Each names the other. Atomic.

    The new decision has the tags of the old one unless `tags` is given, and the subjects of the old one besides `about`.
    Raises Conflict if it was superseded already (`facts` says by which), so a repetition after a crash is refused rather
    than done twice.
    """
    raise NotImplementedError


@read(
    lambda: decisions.decision, on=(SESSION,), lacks={"cli": WITHIN, "mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/decisions/{seq}", "get_decision", "A decision."),),
)  # fmt: skip
def decision(seq: arg.Seq) -> DecisionRecord:
    """Return the decision with this number. Raises NotFound."""
    raise NotImplementedError


@read(
    lambda: decisions.decisions, on=(SESSION,), called="decisions", filters=SessionDecisionFilters, tool="open_loops",
    at=(Endpoint(SESSION, "GET", "/decisions", "list_session_decisions", "The decisions of a session, newest first."),),
    lacks={"cli": WITHIN, "mcp": dict.fromkeys(("open", "tag", "about", "limit", "after"), FEW)},
)  # fmt: skip
def own_decisions(asked: SessionDecisionFilters) -> Page[DecisionRecord]:
    """Return the decisions of this session, newest first. open: True for open ones, False for the others. about: of a
    subject.
    """
    raise NotImplementedError


@read(
    lambda: decisions.decisions_of_store, on=(STORE,), called="decisions", filters=DecisionFilters, command="decisions",
    at=(Endpoint(STORE, "GET", "/decisions", "list_decisions", "The decisions of all sessions, newest first."),),
    lacks={"mcp": FEW},
)  # fmt: skip
def all_decisions(asked: DecisionFilters) -> Page[DecisionRecord]:
    """Return the decisions of all sessions of this tenant, newest first. The next page is `after=page.next`.

    since, until: instants ("2026-01-31", a datetime) or ages ("7d").
    """
    raise NotImplementedError


@read(
    on=(DECISION,), lacks={"cli": PROGRAMS, "mcp": FEW},
    at=(Endpoint(DECISION, "GET", "/referring", "list_referring", "The things that refer to a decision, in all sessions.",
                defaults={"limit": 50}),),
)  # fmt: skip
def referred_by(*, limit: arg.Limit = 100, after: arg.After = None) -> Page[Reference]:
    """Return everything that refers to it, in all sessions of this tenant."""
    raise NotImplementedError
