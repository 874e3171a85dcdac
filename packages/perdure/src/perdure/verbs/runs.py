"""Verbs for runs, and for those who look after a store: what people decide about a run, and what they read."""

from __future__ import annotations

from perdure.model.records.runs import RunRecord, StepRecord, WaitRecord
from perdure.planes.reading.paging import Page
from perdure.verbs.declaring import RUN, SESSION, STORE, Endpoint, Key, Kind, Right, read, verb
from perdure.verbs.planes import (
    actor_records,
    actors,
    arg,
    ending,
    making,
    manifest,
    operator_verbs,
    requests,
    runs,
    steps,
    subject_records,
    subjects,
    timeline,
    timeline_records,
    waits,
)  # fmt: skip
from perdure.verbs.reasons import FEW, PERSON, SCREEN, WITHIN

# -- what people decide ------------------------------------------------------------------------------------------------


@verb(
    lambda: ending.cancel, on=(RUN,), kind=Kind.ENGINE, right=Right.OPERATE, command="cancel", body=("WhyInput", "A reason."),
    at=(Endpoint(RUN, "POST", "/cancel", "cancel_run", "Ask a run to end. Safe to repeat."),),
    names={"cli": {"why": "reason"}}, lacks={"mcp": PERSON},
)  # fmt: skip
def cancel(why: arg.Why = "") -> RunRecord:
    """Ask it to end. Returns itself."""
    raise NotImplementedError


@verb(
    lambda: operator_verbs.resume, on=(RUN,), kind=Kind.ENGINE, right=Right.OPERATE, command="resume",
    body=("ResumeInput", "vouch: after a restore, all that the run did outside is recorded here."),
    at=(Endpoint(RUN, "POST", "/resume", "resume_run", "Re-check a waiting or parked run. Safe to repeat."),),
    lacks={"mcp": PERSON},
)  # fmt: skip
def resume(*, vouch: arg.Vouch = False) -> RunRecord:
    """Re-check a waiting or parked run: after a deploy, or when the thing that it waits for has come."""
    raise NotImplementedError


@verb(
    lambda: operator_verbs.retry, on=(RUN,), kind=Kind.ENGINE, right=Right.OPERATE, command="retry", lacks={"mcp": PERSON},
    at=(Endpoint(RUN, "POST", "/retry", "retry_run", "Try a run again where it failed: what it did is kept."),),
)  # fmt: skip
def retry() -> RunRecord:
    """Try it again where it failed: recorded work is kept, and the last failure is done anew."""
    raise NotImplementedError


@verb(
    lambda: operator_verbs.unpark, on=(RUN,), kind=Kind.ENGINE, right=Right.OPERATE, command="unpark", lacks={"mcp": PERSON},
    at=(Endpoint(RUN, "POST", "/unpark", "unpark_run", "Let a parked run continue."),),
)  # fmt: skip
def unpark() -> RunRecord:
    """Let a parked run continue. An undo that failed is tried again. Conflict if it is not parked."""
    raise NotImplementedError


@verb(
    lambda: runs.pin, on=(RUN,), kind=Kind.ENGINE, right=Right.OPERATE, command="pin", lacks={"mcp": PERSON},
    body=("PinInput", "The digest of the one program that may continue a run; null: any."),
    at=(Endpoint(RUN, "PUT", "/pin", "pin_run", "Let only one program continue a run; null: any. Safe to repeat."),),
)  # fmt: skip
def pin(program: arg.Program) -> RunRecord:
    """Let only workers with this very program take the run; None: any. Conflict if it is completed."""
    raise NotImplementedError


@verb(
    lambda: requests.signal, on=(RUN,), right=Right.WRITE, key=Key.HEADER, command="signal",
    body=("SignalInput", "A signal, which waits until the run takes it."),
    at=(Endpoint(RUN, "POST", "/signals", "signal_run",
                "Send a signal to a run, which waits there until it is taken. The Idempotency-Key is the key of the signal.",
                201),),
    lacks={"mcp": FEW},
)  # fmt: skip
def signal(name: arg.SignalName, payload: arg.Value = None, *, key: arg.Key = None, about: arg.About = ()) -> None:
    """Send it a signal, which stays until a wait takes it. Atomic.

    key: send it once, however often this is called with the key, also after the run has taken it and is over; other input
        under the key raises KeyReused. Without a key, two calls send twice.
    about: subjects of the signal, besides those of the run.

    Raises Conflict when the run is over, or was handed over.
    """
    raise NotImplementedError


# -- what they read ----------------------------------------------------------------------------------------------------


@read(
    lambda: timeline.timeline, on=(RUN,), called="timeline", command="show", lacks={"cli": {"before": SCREEN}, "mcp": FEW},
    at=(Endpoint(RUN, "GET", "/timeline", "list_timeline",
                "The newest events of a run, oldest first: steps, effects, waits, and the outcome of each."),),
)  # fmt: skip
def timeline_of_run(*, last: arg.ShownLast = 100, before: arg.Before = None) -> Page[timeline_records.TimelineRecord]:
    """Return its newest events, oldest first: steps, effects, waits, and the outcome of each.

    before: a sequence number, or `.next` of a page, which is None when there are no more.
    """
    raise NotImplementedError


@read(
    lambda: steps.left, on=(RUN,), called="steps", command="show", lacks={"cli": {"after": SCREEN}, "mcp": FEW},
    at=(Endpoint(RUN, "GET", "/steps", "list_steps",
                "The steps of a run since its last checkpoint, or after an event (0: all)."),),
)  # fmt: skip
def steps_of_run(*, after: arg.SinceSeq = None) -> list[StepRecord]:
    """Return its steps since its last checkpoint, oldest first. after: since that event; 0: all."""
    raise NotImplementedError


@read(
    lambda: waits.waiting, on=(RUN,), called="waits", command="asks", lacks={"mcp": FEW},
    at=(Endpoint(RUN, "GET", "/waits", "list_run_waits", "The open waits of a run; as they stood at a moment if one is given."),),
)  # fmt: skip
def waits_of_run() -> list[WaitRecord]:
    """Return the open waits."""
    raise NotImplementedError


@read(
    lambda: making.manifests, on=(SESSION,), lacks={"cli": WITHIN, "mcp": FEW},
    at=(Endpoint(SESSION, "GET", "/boots", "list_boots", "The manifests of the last boots of a session, the newest first."),),
)  # fmt: skip
def boots() -> list[manifest.PackManifest]:
    """Return the manifests of the last boots of this session, newest first, at most 20. Writes nothing.

    A manifest lists what was shown, by handle, whether it still held, and what was left out.
    `perdure.boot.manifest.difference` compares two.
    """
    raise NotImplementedError


@read(
    lambda: subjects.listed, on=(STORE,), called="subjects", right=Right.AUDIT, command="subjects", lacks={"mcp": FEW},
    at=(Endpoint(STORE, "GET", "/subjects", "list_subjects",
                "The persons and things that records of this tenant are about, by name.", defaults={"limit": 50}),),
)  # fmt: skip
def all_subjects(*, limit: arg.Limit = 100, after: arg.After = None) -> Page[subject_records.SubjectRecord]:
    """Return the persons and things that records of this tenant are about, by name.

    Each has the number of its records and streams, and when the first and the last was. The next page is `after=page.next`;
    None when there are no more.
    """
    raise NotImplementedError


@read(
    lambda: actors.listed, on=(STORE,), called="actors", right=Right.AUDIT, command="actors", lacks={"mcp": FEW},
    at=(Endpoint(STORE, "GET", "/actors", "list_actors",
                "Everybody who has written in this tenant, with the random name that stands for each in the headers of events."
            ),),
)  # fmt: skip
def all_actors() -> list[actor_records.ActorRecord]:
    """Return every actor that has written in this tenant, with the random name that stands for it in the headers of events.

    Events from before schema 5 have the actors' own names in their headers: `verify` counts them.
    """
    raise NotImplementedError
