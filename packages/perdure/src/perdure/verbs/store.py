"""Verbs for a store as a whole, whose body at a door is written by hand: what is opened in it, searched in it, and its upkeep.

Each says whose it is, the right that it needs, its routes, and why a door does without it. Their docstrings stand at the handles.
"""

from __future__ import annotations

from perdure.model.filters import AskFilters, EffectFilters, RunFilters
from perdure.verbs.declaring import STORE, Kind, Right, read, verb
from perdure.verbs.planes import arg, own
from perdure.verbs.reasons import APART, BY_TOKEN, FEW, HOST, LOCAL, MACHINE, PERSON, PROGRAM, PROGRAMS, UPKEEP, WITHIN


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.WRITE, routes=("put_session", "get_session",), names={"http": {"name":
    "session"}}, lacks={"cli": WITHIN, "mcp": HOST},
)  # fmt: skip
def session(
    name: arg.Name,
    *,
    title: arg.Title = "",
    labels: arg.Labels = (),
    goal: arg.Goal = None,
    ttl: arg.Ttl = None,
    pins: own.PinsOf = None,
    about: arg.About = (),
) -> object:
    """Get the session of this name, or create it."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.WRITE, routes=("put_scope", "get_scope",), names={"http": {"name":
    "scope"}}, lacks={"cli": WITHIN, "mcp": HOST, "http": {"about": APART}},
)  # fmt: skip
def scope(name: arg.Name, *, about: arg.About = ()) -> object:
    """Get or create a scope: values and memories that outlive a session, such as `user:alice` or `project:acme`."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("get_run",), names={"http": {"name": "run", "agent": "run", "key": "run"}}, lacks={"cli": WITHIN,
    "mcp": FEW},
)  # fmt: skip
def run(name: own.OptionalRun = None, *, agent: own.AgentName = None, key: arg.Key = None) -> object:
    """Return the run with this id, or the one that was started with a `key`."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("get_run",), names={"http": {"short": "run"}}, lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def run_id(short: own.RunId) -> object:
    """Return the whole id of the run whose id begins with these digits, at least four."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("get_effect",), names={"http": {"name": "effect"}}, lacks={"cli": WITHIN, "mcp": FEW},
)  # fmt: skip
def effect(name: arg.Name) -> object:
    """Return an effect by the name that people use: `run:4f1c/12`."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("list_runs",), command="runs", filters=RunFilters, lacks={"mcp": FEW},
)  # fmt: skip
def runs(asked: RunFilters) -> object:
    """Return the runs of this tenant, newest first."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("list_asks",), command="asks", tool="open_loops", filters=AskFilters,
)  # fmt: skip
def asks(asked: AskFilters) -> object:
    """Return the questions to people, and approvals, newest first: the open ones, unless `state` says otherwise (None: all)."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("list_effects",), command="effects, errors", filters=EffectFilters, lacks={"mcp": FEW},
)  # fmt: skip
def effects(asked: EffectFilters) -> object:
    """Return the effects of all sessions and runs of this tenant, newest first."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.OPERATE, routes=("answer_ask",), command="answer", lacks={"mcp": PERSON,
    "http": {"by": BY_TOKEN}},
)  # fmt: skip
def answer(ask: own.AskId, value: arg.Value, *, by: arg.By = None, about: arg.About = ()) -> object:
    """Answer a question or an approval, once."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.WRITE, routes=("signal_run",), command="signal", lacks={"mcp": FEW},
)  # fmt: skip
def signal(
    run: own.RunId, name: arg.Name, payload: arg.Value = None, *, key: arg.Key = None, about: arg.About = ()
) -> object:
    """Send a signal to a run."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.WRITE, routes=("start_run",), command="start", lacks={"mcp": FEW},
)  # fmt: skip
def start(
    agent: own.Local,
    /,
    *args: own.Local,
    key: arg.Key = None,
    session: own.OptionalSession = None,
    about: arg.About = (),
    **kwargs: own.Local,
) -> object:
    """Begin a run and leave it to the workers."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("recall_across",), command="recall", tool="recall", names={"http": {"query": "q"}}, lacks={"mcp":
    {"at": FEW, "tags": FEW, "since": FEW}},
)  # fmt: skip
def recall(
    query: own.Query,
    k: own.Count = 10,
    *,
    kinds: own.KindsWanted = None,
    at: own.Moment = None,
    tags: own.TagsWanted = (),
    about: own.AboutAll = (),
    since: own.Since = None,
    root: own.Local = None,
    commands: own.Local = (),
    urls: own.Local = (),
    models: own.Local = None,
) -> object:
    """Return the memories of all sessions and scopes of this tenant that answer a question best; see `session.recall`."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("search",), command="search", tool="search", names={"http": {"query": "q"}}, lacks={"mcp":
    {"actor": FEW}},
)  # fmt: skip
def search(
    query: own.Query,
    *,
    kinds: own.SearchKinds = None,
    session: own.OptionalSession = None,
    scopes: own.ScopesWanted = None,
    actor: own.OptionalActor = None,
    tags: own.TagsWanted = (),
    about: own.AboutAll = (),
    since: own.Since = None,
    until: own.Until = None,
    limit: arg.Limit = 10,
) -> object:
    """Return everything that was said, decided, done or remembered and shares words with a query, best first."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("read_feed", "follow",), command="tail", lacks={"mcp": FEW},
)  # fmt: skip
def feed(after: arg.After = None, limit: arg.Limit = 100, wait: own.Local = None) -> object:
    """Return every event of the tenant after a cursor (None: from the beginning), oldest first."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("read_feed",), lacks={"cli": MACHINE, "mcp": FEW},
)  # fmt: skip
def feed_end() -> object:
    """Return the cursor at the end of the feed: `feed(after=…)` then gives only newer events."""
    raise NotImplementedError


@read(
    on=(STORE,), routes=("get_held",), command="doctor", lacks={"mcp": FEW},
)  # fmt: skip
def feed_held_by() -> object:
    """Describe the transaction that holds back the feed on PostgreSQL (process, application, age); None if nothing does."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.WRITE, routes=("put_subscription",), lacks={"cli": MACHINE, "mcp": FEW},
)  # fmt: skip
def subscribe(
    name: arg.Name,
    start: own.Start = "beginning",
    *,
    kinds: own.EventKinds = None,
    stream: own.StreamName = None,
    consumers: own.Consumers = None,
) -> object:
    """Return a reader of the feed that keeps its position under a name."""
    raise NotImplementedError


@read(
    on=(STORE,), right=Right.AUDIT, routes=("verify",), command="verify", lacks={"mcp": PERSON},
)  # fmt: skip
def verify(
    anchor: own.Local = None, public_key: own.Local = None, progress: own.Local = None, *, blobs: own.Blobs = True
) -> object:
    """Check that everything in this store, of every tenant, is as it was written."""
    raise NotImplementedError


@read(
    on=(STORE,), command="query", lacks={"http": UPKEEP, "mcp": FEW},
)  # fmt: skip
def query(sql: own.Sql, params: own.Local = None, *, limit: arg.Limit = 10000, timeout: own.Local = None) -> object:
    """Run SQL of your own: one statement that reads the views (docs/sql.md)."""
    raise NotImplementedError


@read(
    on=(STORE,), command="export", names={"cli": {"sessions": "names"}}, lacks={"http": UPKEEP, "mcp": FEW},
)  # fmt: skip
def readable(sessions: own.SessionsWanted = (), *, runs: own.RunsWanted = ()) -> object:
    """Return everything in these sessions and runs for reading: `.sessions` and `.runs` as records, `.markdown()` as a page."""
    raise NotImplementedError


@read(
    on=(STORE,), command="doctor", lacks={"http": UPKEEP, "mcp": FEW},
)  # fmt: skip
def checked(
    *, root: own.Local = None, commands: own.Local = (), urls: own.Local = (), models: own.Local = None
) -> object:
    """Return everything of this tenant that carries checks, each with the outcomes of its checks now."""
    raise NotImplementedError


@read(
    on=(STORE,), command="recover", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def recoverable(agents: own.Local = ()) -> object:
    """Return the work that `recover` would take now: runs to drive, and (as `waiting`) effects of sessions in doubt."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="adopt", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def adopt(envelope: own.Local, artifacts: own.Local = None, *, lost: own.Lost = False) -> object:
    """Continue a run of another store here, from its envelope and its blobs alone."""
    raise NotImplementedError


@read(
    on=(STORE,), command="handover", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def artifacts_of(envelope: own.Local) -> object:
    """Return all blobs that an envelope of this store needs, by address."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="anchor", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def anchor(private_key: own.Local = None) -> object:
    """Return a statement of where every chain ends now, signed if an Ed25519 private key (PEM) is given."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.STREAM, command="backup", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def backup(path: own.Local, progress: own.Local = None) -> object:
    """Back up the store into a new file, and its large blobs into `<path>.blobs/`, while others write."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="collect", names={"cli": {"dry_run": "execute"}}, lacks={"http": UPKEEP, "mcp":
    PERSON},
)  # fmt: skip
def collect(grace: own.Local = "1h", *, dry_run: own.DryRun = True, progress: own.Local = None) -> object:
    """Remove the blobs of this tenant that nothing refers to, and files in the place of artifacts without a blob."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="gone", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def declare_gone(who: own.Holder, *, apply: own.Apply = False, force: own.Force = False) -> object:
    """Declare that a machine, or a holder by its id, is gone for good: its open effects are in doubt, and it sends no more."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="delete", names={"cli": {"dry_run": "execute"}}, lacks={"http": UPKEEP, "mcp":
    PERSON},
)  # fmt: skip
def delete(session: arg.Name, *, dry_run: own.DryRun = True) -> object:
    """Remove what a session said, by retention's rules for it alone, and archive it."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="worker", lacks={"http": PROGRAM, "mcp": PERSON, "cli": {"key": LOCAL,
    "session": LOCAL, "about": PROGRAMS}},
)  # fmt: skip
def drive(
    agent: own.Local,
    /,
    *args: own.Local,
    key: arg.Key = None,
    session: own.OptionalSession = None,
    wait: own.Local = None,
    about: arg.About = (),
    **kwargs: own.Local,
) -> object:
    """Begin a run, or continue the one under this key, in this process."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.STREAM, command="export", names={"cli": {"sessions": "names"}}, lacks={"http": UPKEEP, "mcp":
    PERSON},
)  # fmt: skip
def export(
    path: own.Local,
    sessions: own.SessionsWanted = (),
    *,
    scopes: own.ScopesWanted = (),
    runs: own.RunsWanted = (),
    everything: own.Everything = False,
    progress: own.Local = None,
) -> object:
    """Write a bundle of these sessions, scopes or runs (or of everything of this tenant) into a new file."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.STREAM, command="export", names={"cli": {"run": "incident"}}, lacks={"http": UPKEEP, "mcp":
    PERSON},
)  # fmt: skip
def export_incident(path: own.Local, run: own.RunId) -> object:
    """Write a bundle of one run, the runs that it started and its session, with a page that explains the run to people."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.STREAM, command="export", names={"cli": {"format": "shape", "sessions": "names"}},
    lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def export_learning(
    path: own.Local,
    format: own.LearningFormat,  # noqa: A002
    sessions: own.SessionsWanted = (),
    *,
    everything: own.Everything = False,
    outcome: own.OptionalOutcome = None,
) -> object:
    """Write these sessions (or all of this tenant) as rows to learn from: `openai`, `trl`, `preferences` or `atif`."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="actors", names={"cli": {"name": "forget"}}, lacks={"http": UPKEEP, "mcp":
    PERSON},
)  # fmt: skip
def forget_actor(name: arg.Name) -> object:
    """Remove an actor from the directory: headers keep a random name that no longer says anything."""
    raise NotImplementedError


@verb(
    on=(STORE,), called="import_", kind=Kind.STREAM, command="import", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def import_(
    path: own.Local,
    *,
    names: own.Local = None,
    keys_apart: own.KeysApart = False,
    dry_run: own.DryRun = False,
    progress: own.Local = None,
) -> object:
    """Import the streams of a bundle into this tenant of this store."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="index", lacks={"http": UPKEEP, "mcp": FEW},
)  # fmt: skip
def index(tell: own.Local = None) -> object:
    """Bring the index up to date, and the vectors if the store has an embedding, however long it takes."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="quarantine", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def quarantine(stream: own.StreamName, because: arg.Because, *, apply: own.Apply = False) -> object:
    """Record the damage that `verify` finds in a stream (its name or uid) as known."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="recover", lacks={"http": UPKEEP, "mcp": PERSON},
)  # fmt: skip
def recover(agents: own.Local = (), *, tools: own.Local = ()) -> object:
    """Continue the work of dead processes here: drive their runs, and settle the effects of sessions as far as rules can."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, command="retain", names={"cli": {"dry_run": "execute"}}, lacks={"http": UPKEEP, "mcp":
    PERSON},
)  # fmt: skip
def retain(
    *rules: own.Local, dry_run: own.DryRun = True, grace: own.Local = "1h", progress: own.Local = None
) -> object:
    """Remove old state of this tenant by rule: checkpoints, covered turns, old values and events."""
    raise NotImplementedError


@verb(
    on=(STORE,), kind=Kind.ENGINE, right=Right.WORK, routes=("heartbeat",), command="worker", lacks={"mcp": LOCAL},
)  # fmt: skip
def beat() -> object:
    """Send a sign of life now."""
    raise NotImplementedError
