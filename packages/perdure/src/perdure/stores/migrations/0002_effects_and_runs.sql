-- Effects and runs: the ledger of what was done outside, and agents that go on after a crash.

----------------------------------------------------------------------------------------------------------------- ledger

-- One act on the outside world; states and arrows are drawn in docs/decisions/0006-effect-ledger.md.
CREATE TABLE effects (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'planned', 'dispatched', 'in_doubt', 'committed', 'failed', 'withdrawn', 'undoing', 'undone')),
  tool TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('idempotent', 'keyed', 'probed', 'unsafe')),
  key TEXT NOT NULL,
  digest TEXT NOT NULL, -- of the tool and its arguments
  place TEXT, -- where in its run; null in a session
  call TEXT, -- the call that it answers
  undoes INTEGER, -- the effect that it undoes
  attempt INTEGER NOT NULL CHECK (attempt >= 0), -- dispatches so far
  mishaps INTEGER NOT NULL CHECK (mishaps BETWEEN 0 AND attempt), -- those that ended by no doing of the tool
  epoch INTEGER NOT NULL, -- of the store, at the plan or the last dispatch
  holder TEXT, -- who dispatched it last
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  first_dispatched_at INTEGER,
  dispatched_at INTEGER, -- the last time
  deadline_at INTEGER,
  quiet_at INTEGER, -- since when the caller is known to be unable to send
  error TEXT, -- the code of what went wrong, if anything did
  doc_seq INTEGER, -- arguments and rule, as in tasks
  outcome_seq INTEGER,
  PRIMARY KEY (stream, seq),
  CHECK (state <> 'dispatched' OR (attempt > 0 AND holder IS NOT NULL AND dispatched_at IS NOT NULL)),
  CHECK (state NOT IN ('committed', 'failed', 'in_doubt') OR outcome_seq IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX effects_by_key ON effects (stream, key);
CREATE INDEX effects_by_time ON effects (tenant, at, stream, seq);
CREATE INDEX effects_by_state ON effects (tenant, state, at, stream, seq);
CREATE INDEX effects_by_tool ON effects (tenant, tool, at, stream, seq);
CREATE INDEX effects_with_errors ON effects (tenant, at, stream, seq) WHERE error IS NOT NULL;

------------------------------------------------------------------------------------------------------------------- runs

-- One run of an agent; see docs/decisions/0007-runs-by-replay.md. What it did lies in its journal: events, effects, waits.
CREATE TABLE runs (
  stream INTEGER PRIMARY KEY REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  name TEXT NOT NULL,
  agent TEXT NOT NULL,
  key TEXT,
  digest TEXT NOT NULL, -- of the arguments
  status TEXT NOT NULL CHECK (status IN ('ready', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'parked')),
  session TEXT,
  parent TEXT, -- the run that started it
  creator TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  wake_at INTEGER, -- when a waiting run is to be looked at again
  timeout_at INTEGER, -- when it fails if it is not over
  holder TEXT,
  token INTEGER NOT NULL,
  claimed_seq INTEGER NOT NULL, -- the event of the last claim: what came after it is progress
  deaths INTEGER NOT NULL, -- processes that died with it without progress
  suspect INTEGER NOT NULL CHECK (suspect IN (0, 1)),
  cancelling INTEGER NOT NULL CHECK (cancelling IN (0, 1)),
  cuts INTEGER NOT NULL,
  cut_seq INTEGER NOT NULL, -- the event after which its journal begins: the last checkpoint, or 0
  program TEXT NOT NULL, -- the digest of the code that drove it last
  pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)), -- only this very program may go on
  epoch INTEGER NOT NULL,
  reason TEXT, -- why it is parked, or what it waits for, as a short code
  doc_seq INTEGER, -- its arguments
  outcome_seq INTEGER, -- its result, its error, or why it is parked
  CHECK ((holder IS NOT NULL) = (status = 'running')),
  CHECK ((ended_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled')))
) STRICT;
CREATE UNIQUE INDEX runs_by_key ON runs (tenant, agent, key) WHERE key IS NOT NULL;
CREATE INDEX runs_open ON runs (tenant, status, wake_at, stream) WHERE status IN ('ready', 'running', 'waiting');
CREATE INDEX runs_by_time ON runs (tenant, created_at, stream);
CREATE INDEX runs_by_status ON runs (tenant, status, created_at, stream);
CREATE INDEX runs_by_agent ON runs (tenant, agent, created_at, stream);
CREATE INDEX runs_by_session ON runs (tenant, session, created_at, stream) WHERE session IS NOT NULL;
CREATE INDEX runs_by_parent ON runs (tenant, parent, stream) WHERE parent IS NOT NULL;
CREATE INDEX runs_by_holder ON runs (holder) WHERE holder IS NOT NULL;

-- What a run waits for: a person, a time, a signal, another run. Opened once at its place; met, expired or withdrawn once.
CREATE TABLE waits (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('ask', 'approval', 'sleep', 'signal', 'child')),
  state TEXT NOT NULL CHECK (state IN ('open', 'met', 'expired', 'withdrawn')),
  name TEXT NOT NULL, -- of the signal or the child; empty for the others
  place TEXT, -- where in its run; null for an approval in a session
  effect INTEGER, -- what an approval is for
  digest TEXT, -- of its question; for an approval of the tool and the arguments that it binds to
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  expires_at INTEGER,
  met_by TEXT,
  met_at INTEGER,
  doc_seq INTEGER, -- the question, as in tasks
  outcome_seq INTEGER, -- the answer
  PRIMARY KEY (stream, seq),
  CHECK ((met_at IS NULL) = (state = 'open'))
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_open ON waits (stream, kind, name, seq) WHERE state = 'open';
CREATE INDEX waits_by_kind ON waits (tenant, kind, state, at, stream, seq);
CREATE INDEX waits_by_effect ON waits (stream, effect) WHERE effect IS NOT NULL;

-- Signals that came to a run; each is taken by one wait.
CREATE TABLE signals (
  stream INTEGER NOT NULL REFERENCES streams (id),
  seq INTEGER NOT NULL,
  name TEXT NOT NULL,
  taken_by INTEGER, -- the wait
  doc_seq INTEGER,
  PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX signals_waiting ON signals (stream, name, seq) WHERE taken_by IS NULL;

-- Workers that live: what each says of itself, beside its heartbeat.
CREATE TABLE workers (
  tenant INTEGER NOT NULL,
  holder TEXT NOT NULL,
  about TEXT NOT NULL, -- JSON: its process, its supervisor, its agents and their limits
  PRIMARY KEY (tenant, holder)
) STRICT, WITHOUT ROWID;

INSERT INTO tables (name, class) VALUES
  ('effects', 'recorded'), ('runs', 'recorded'), ('waits', 'recorded'), ('signals', 'recorded'), ('workers', 'ephemeral');

------------------------------------------------------------------------------------------- views, for people who bring their own SQL

CREATE VIEW v_effects AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, f.seq, f.tool, f.kind, f.state, f.key, f.place, f.call, f.undoes,
  f.attempt, f.mishaps, f.holder, f.actor, f.at, f.first_dispatched_at, f.dispatched_at, f.deadline_at, f.quiet_at, f.error,
  CAST(e.body AS TEXT) -> '$.doc' AS doc, CAST(o.body AS TEXT) -> '$.doc' AS outcome -- @sqlite
  convert_from(e.body, 'UTF8')::json -> 'doc' AS doc, convert_from(o.body, 'UTF8')::json -> 'doc' AS outcome -- @postgres
FROM effects f JOIN streams s ON s.id = f.stream JOIN tenants n ON n.id = s.tenant
JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq;

CREATE VIEW v_runs AS
SELECT n.name AS tenant, r.name AS run, r.agent, r.key, r.status, r.session, r.parent, r.creator, r.created_at, r.ended_at, r.wake_at,
  r.holder, r.token, r.deaths, r.reason, r.program,
  CAST(e.body AS TEXT) -> '$.doc' AS doc, CAST(o.body AS TEXT) -> '$.doc' AS outcome -- @sqlite
  convert_from(e.body, 'UTF8')::json -> 'doc' AS doc, convert_from(o.body, 'UTF8')::json -> 'doc' AS outcome -- @postgres
FROM runs r JOIN streams s ON s.id = r.stream JOIN tenants n ON n.id = s.tenant
LEFT JOIN events e ON e.stream = r.stream AND e.seq = r.doc_seq
LEFT JOIN events o ON o.stream = r.stream AND o.seq = r.outcome_seq;

CREATE VIEW v_waits AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, w.seq, w.kind, w.state, w.name, w.place, w.effect, w.actor, w.at,
  w.expires_at, w.met_by, w.met_at,
  CAST(e.body AS TEXT) -> '$.doc' AS doc, CAST(o.body AS TEXT) -> '$.doc' AS outcome -- @sqlite
  convert_from(e.body, 'UTF8')::json -> 'doc' AS doc, convert_from(o.body, 'UTF8')::json -> 'doc' AS outcome -- @postgres
FROM waits w JOIN streams s ON s.id = w.stream JOIN tenants n ON n.id = s.tenant
JOIN events e ON e.stream = w.stream AND e.seq = coalesce(w.doc_seq, w.seq)
LEFT JOIN events o ON o.stream = w.stream AND o.seq = w.outcome_seq;
