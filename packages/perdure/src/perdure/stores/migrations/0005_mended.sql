-- What use and attack found wrong. Each part has a heading of its own.

------------------------------------------------------------------------------------------------------------------- indexes

-- Listings that had to pass over what they did not show.
CREATE INDEX waits_by_time ON waits (tenant, kind, at, stream, seq);
CREATE INDEX artifacts_by_actor ON artifacts (tenant, actor, at, stream, seq);

------------------------------------------------------------------------------------------------------------------- planes

-- When a task or decision last changed, and when it was closed. Null: before this schema.
ALTER TABLE tasks ADD COLUMN changed_at INTEGER;
ALTER TABLE tasks ADD COLUMN closed_at INTEGER;
ALTER TABLE decisions ADD COLUMN changed_at INTEGER;
ALTER TABLE decisions ADD COLUMN closed_at INTEGER;

-- Since when listings leave a session out. Only one that ended is archived, so that open work is never hidden.
ALTER TABLE sessions ADD COLUMN archived_at INTEGER;
CREATE INDEX sessions_listed ON sessions (tenant, created_at, stream) WHERE archived_at IS NULL;

-- Which sessions have a run that waits: they may wait for a person.
CREATE INDEX runs_waiting ON runs (tenant, session, stream) WHERE status = 'waiting' AND session IS NOT NULL;

-- The event that retracted a turn: it stays in the log, and nothing shows it any more. A key is free again then. A fork that
-- retracts a turn which it shares has a row of its own under the same number (docs/decisions/0047-retracted-turns.md).
ALTER TABLE turns ADD COLUMN retracted_seq INTEGER;
DROP INDEX turns_by_key;
CREATE UNIQUE INDEX turns_by_key ON turns (stream, key, COALESCE(retracted_seq, 0)) WHERE key IS NOT NULL;
CREATE INDEX turns_retracted ON turns (stream, seq) WHERE retracted_seq IS NOT NULL;

-- Providers use ids of calls again: a result belongs to the newest turn before it that made its call.
DROP INDEX turns_by_call;
CREATE INDEX turns_by_call ON turns (stream, call, seq, role, key, retracted_seq) WHERE call IS NOT NULL; -- whole rows: SQLite takes it then
ALTER TABLE calls RENAME TO calls_before;
CREATE TABLE calls (
  stream INTEGER NOT NULL REFERENCES streams (id),
  call TEXT NOT NULL,
  seq INTEGER NOT NULL,
  tool TEXT NOT NULL,
  PRIMARY KEY (stream, call, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO calls (stream, call, seq, tool) SELECT stream, call, seq, tool FROM calls_before;
DROP TABLE calls_before;

-- What a subscription wants, which batches are under way, and which were acknowledged last: JSON. A batch that is under way
-- while this is made is delivered again.
ALTER TABLE subscriptions DROP COLUMN acked;
ALTER TABLE subscriptions DROP COLUMN taker;
ALTER TABLE subscriptions DROP COLUMN batch_xid;
ALTER TABLE subscriptions DROP COLUMN batch_pos;
ALTER TABLE subscriptions DROP COLUMN expires_at;
ALTER TABLE subscriptions ADD COLUMN about TEXT NOT NULL DEFAULT '{}';

-- The views of before show what changes below; they are made anew after it.
DROP VIEW v_events;
DROP VIEW v_sessions;
DROP VIEW v_turns;
DROP VIEW v_tasks;
DROP VIEW v_decisions;
DROP VIEW v_entries;
DROP VIEW v_checkpoints;
DROP VIEW v_artifacts;
DROP VIEW v_effects;
DROP VIEW v_runs;
DROP VIEW v_waits;

-- A checkpoint may have a key of the caller's, and name its parent by key; what tasks wrote after one stands beside it
-- (docs/decisions/0049-keyed-checkpoints.md). Keys are compared by their bytes.
ALTER TABLE checkpoints ADD COLUMN key TEXT; -- @sqlite
ALTER TABLE checkpoints ADD COLUMN key TEXT COLLATE "C"; -- @postgres
ALTER TABLE checkpoints ADD COLUMN parent_key TEXT;
CREATE INDEX checkpoints_by_key ON checkpoints (stream, name, key) WHERE key IS NOT NULL;
CREATE TABLE checkpoint_writes (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  name TEXT NOT NULL,
  checkpoint TEXT NOT NULL,
  task TEXT NOT NULL,
  path TEXT NOT NULL,
  places TEXT NOT NULL, -- the indexes of its writes: a JSON list of numbers
  PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoint_writes_by_checkpoint ON checkpoint_writes (stream, name, checkpoint);
INSERT INTO tables (name, class) VALUES ('checkpoint_writes', 'recorded');

------------------------------------------------------------------------------------------------------------------ tenants

-- Every table that holds rows of a tenant says which (docs/decisions/0032-tenants-in-every-table.md). It follows from the stream.
ALTER TABLE turns ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = turns.stream), 0);
ALTER TABLE calls ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE calls SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = calls.stream), 0);
ALTER TABLE covers ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE covers SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = covers.stream), 0);
ALTER TABLE entries ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE entries SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = entries.stream), 0);
ALTER TABLE locks ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE locks SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = locks.stream), 0);
ALTER TABLE checkpoints ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE checkpoints SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = checkpoints.stream), 0);
ALTER TABLE signals ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE signals SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = signals.stream), 0);
ALTER TABLE refs ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE refs SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = refs.stream), 0);
ALTER TABLE blob_refs ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE blob_refs SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = blob_refs.stream), 0);
ALTER TABLE task_needs ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE task_needs SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = task_needs.stream), 0);
ALTER TABLE anchors ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE anchors SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = anchors.stream), 0);
ALTER TABLE attendance ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE attendance SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = attendance.stream), 0);
ALTER TABLE fold_snapshots ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;
UPDATE fold_snapshots SET tenant = coalesce((SELECT s.tenant FROM streams s WHERE s.id = fold_snapshots.stream), 0);
ALTER TABLE turns ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE calls ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE covers ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE entries ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE locks ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE checkpoints ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE signals ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE refs ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE blob_refs ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE task_needs ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE anchors ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE attendance ALTER COLUMN tenant DROP DEFAULT; -- @postgres
ALTER TABLE fold_snapshots ALTER COLUMN tenant DROP DEFAULT; -- @postgres
CREATE INDEX checkpoints_keyed ON checkpoints (tenant, key, stream, seq) WHERE key IS NOT NULL;

-- One heartbeat for all that an open store holds: in the tenants whose rows name it.
ALTER TABLE holders RENAME TO holders_before;
CREATE TABLE holders (
  tenant INTEGER NOT NULL,
  holder TEXT NOT NULL,
  actor TEXT NOT NULL,
  host TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, holder)
) STRICT, WITHOUT ROWID;
INSERT INTO holders (tenant, holder, actor, host, started_at, expires_at)
SELECT x.tenant, h.holder, h.actor, h.host, h.started_at, h.expires_at FROM holders_before h JOIN (
  SELECT tenant, holder FROM runs UNION SELECT tenant, holder FROM effects UNION SELECT tenant, holder FROM tasks
  UNION SELECT tenant, holder FROM workers UNION SELECT tenant, holder FROM attendance UNION SELECT tenant, holder FROM blob_pins
  UNION SELECT tenant, substr(holder, length(holder) - 31) FROM locks
) x ON x.holder = h.holder;
DROP TABLE holders_before;

-- Bodies may be emptied (and nothing else) of a tenant whose row stands here, inside one transaction: tenants do not wait for
-- each other.
DROP TRIGGER events_fixed; -- @sqlite
DROP TABLE pruning;
CREATE TABLE pruning (tenant INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER events_fixed BEFORE UPDATE ON events -- @sqlite
WHEN NOT EXISTS (SELECT 1 FROM pruning p WHERE p.tenant = OLD.tenant) OR NEW.body IS NOT NULL -- @sqlite
  OR (NEW.pos, NEW.tenant, NEW.stream, NEW.seq, NEW.kind, NEW.tbl, NEW.actor, NEW.at, NEW.codec, NEW.tx, NEW.commitment, NEW.hash) -- @sqlite
  IS NOT (OLD.pos, OLD.tenant, OLD.stream, OLD.seq, OLD.kind, OLD.tbl, OLD.actor, OLD.at, OLD.codec, OLD.tx, OLD.commitment, OLD.hash) -- @sqlite
BEGIN SELECT raise(ABORT, 'events are never changed'); END; -- @sqlite
CREATE OR REPLACE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN -- @postgres
  IF TG_OP = 'UPDATE' AND NEW.body IS NULL AND EXISTS (SELECT 1 FROM pruning p WHERE p.tenant = OLD.tenant) -- @postgres
    AND (NEW.pos, NEW.xid, NEW.tenant, NEW.stream, NEW.seq, NEW.kind, NEW.tbl, NEW.actor, NEW.at, NEW.codec, NEW.tx, NEW.commitment, NEW.hash) -- @postgres
      IS NOT DISTINCT FROM (OLD.pos, OLD.xid, OLD.tenant, OLD.stream, OLD.seq, OLD.kind, OLD.tbl, OLD.actor, OLD.at, OLD.codec, OLD.tx, OLD.commitment, OLD.hash) -- @postgres
  THEN RETURN NEW; END IF; -- @postgres
  RAISE EXCEPTION 'events are never changed or deleted'; -- @postgres
END $$; -- @postgres

-- A chain is unique within a tenant: two may import the same bundle. Nobody is told what another one has.
ALTER TABLE streams DROP CONSTRAINT streams_uid_key; -- @postgres
ALTER TABLE streams ADD UNIQUE (uid, tenant); -- @postgres
CREATE TABLE streams_anew ( -- @sqlite
  id INTEGER PRIMARY KEY, -- @sqlite
  uid BLOB NOT NULL CHECK (length(uid) = 16), -- @sqlite
  tenant INTEGER NOT NULL REFERENCES tenants (id), -- @sqlite
  kind TEXT NOT NULL CHECK (kind IN ('session', 'run', 'scope', 'tenant', 'store')), -- @sqlite
  name TEXT NOT NULL, -- @sqlite
  parent INTEGER REFERENCES streams (id), -- @sqlite
  fork_seq INTEGER NOT NULL DEFAULT 0, -- @sqlite
  seq INTEGER NOT NULL CHECK (seq >= 0), -- @sqlite
  hash BLOB NOT NULL CHECK (length(hash) = 32), -- @sqlite
  UNIQUE (uid, tenant), -- @sqlite
  UNIQUE (tenant, kind, name), -- @sqlite
  CHECK ((parent IS NULL) = (fork_seq = 0)) -- @sqlite
) STRICT; -- @sqlite
INSERT INTO streams_anew SELECT id, uid, tenant, kind, name, parent, fork_seq, seq, hash FROM streams; -- @sqlite
DROP TABLE streams; -- @sqlite
ALTER TABLE streams_anew RENAME TO streams; -- @sqlite
CREATE INDEX streams_by_parent ON streams (parent) WHERE parent IS NOT NULL; -- @sqlite
-- Scopes by the bytes of their names, whatever the collation of the database: a scope and those below it are one range.
CREATE INDEX scopes_by_name ON streams (tenant, name COLLATE "C") WHERE kind = 'scope'; -- @postgres

------------------------------------------------------------------------------------------------------------------- actors

-- Who is meant by the random name in the header of an event; in the tenant's own stream (docs/decisions/0033-actors.md).
CREATE TABLE actors (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  actor TEXT NOT NULL,
  name TEXT NOT NULL,
  seq INTEGER NOT NULL, -- the event that says it
  PRIMARY KEY (stream, actor)
) STRICT, WITHOUT ROWID;
CREATE INDEX actors_by_actor ON actors (tenant, actor);
CREATE INDEX actors_by_name ON actors (tenant, name);
INSERT INTO tables (name, class) VALUES ('actors', 'recorded');

------------------------------------------------------------------------------------------- views, for people who bring their own SQL

-- Each column is described in docs/sql.md. In these texts `iso(c)` is a time as text in UTC, `body(e)` the body of an event as JSON,
-- `json(c)` a column as JSON, `named(e)` the actor of an event, `hexed(c)` bytes as text, and `shown(n)` lets PostgreSQL leave out other tenants (stores/dialect.py).

CREATE FUNCTION json_of(body BYTEA) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$ BEGIN -- @postgres
  RETURN replace(convert_from(body, 'UTF8'), '\u0000', '\ufffd')::jsonb; -- @postgres
EXCEPTION WHEN OTHERS THEN RETURN jsonb_build_object('unreadable', SQLERRM); -- @postgres
END $$; -- @postgres

-- A body with its document in place. The document of an event lies uncompressed in its blob, unless an older version wrote it.
CREATE FUNCTION whole_of(of_tenant BIGINT, body BYTEA) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$ -- @postgres
DECLARE found jsonb := json_of(body); stored RECORD; -- @postgres
BEGIN -- @postgres
  IF body IS NULL OR position('"doc_blob"'::bytea IN body) = 0 OR found ->> 'doc_blob' IS NULL THEN RETURN found; END IF; -- @postgres
  SELECT b.codec, b.data INTO stored FROM blobs b WHERE b.tenant = of_tenant AND b.address = decode(found ->> 'doc_blob', 'hex'); -- @postgres
  IF stored.codec = 0 AND stored.data IS NOT NULL THEN RETURN found || jsonb_build_object('doc', json_of(stored.data)); END IF; -- @postgres
  RETURN found || jsonb_build_object('doc', jsonb_build_object('unreadable', 'SQL cannot read its blob: ' || (found ->> 'doc_blob'))); -- @postgres
EXCEPTION WHEN OTHERS THEN RETURN found || jsonb_build_object('doc', jsonb_build_object('unreadable', SQLERRM)); -- @postgres
END $$; -- @postgres

CREATE VIEW v_events AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session,
  e.seq, e.kind, e.tbl, named(e) AS actor, iso(e.at) AS at, e.at AS at_us, hexed(s.uid) AS stream_uid, hexed(e.tx) AS tx,
  hexed(e.hash) AS hash, body(e) AS body, body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob, e.pos
FROM events e JOIN streams s ON s.id = e.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name);

CREATE VIEW v_sessions AS
SELECT n.name AS tenant, v.name AS session, v.title, v.status, v.creator, iso(v.created_at) AS created_at,
  v.created_at AS created_at_us, iso(v.ended_at) AS ended_at, iso(v.expires_at) AS expires_at, iso(v.archived_at) AS archived_at, json(v.labels) AS labels,
  body(g) -> 'doc' AS goal, body(p) -> 'doc' AS pins, s.seq, f.name AS forked_from, s.fork_seq, hexed(s.uid) AS stream_uid
FROM sessions v JOIN streams s ON s.id = v.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
LEFT JOIN events g ON g.stream = v.stream AND g.seq = v.goal_seq
LEFT JOIN events p ON p.stream = v.stream AND p.seq = v.pin_seq
LEFT JOIN streams f ON f.id = s.parent;

CREATE VIEW v_turns AS
SELECT n.name AS tenant, s.name AS session, t.seq, t.role, t.key, t.call, named(e) AS actor, iso(e.at) AS at, e.at AS at_us,
  body(e) AS body, body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM turns t JOIN streams s ON s.id = t.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = t.stream AND e.seq = t.seq
WHERE t.retracted_seq IS NULL;

CREATE VIEW v_calls AS
SELECT n.name AS tenant, s.name AS session, c.seq, c.call, c.tool, named(e) AS actor, iso(e.at) AS at, e.at AS at_us,
  (SELECT min(t.seq) FROM turns t WHERE t.stream = c.stream AND t.call = c.call AND t.retracted_seq IS NULL AND t.seq > c.seq
    AND NOT EXISTS (SELECT 1 FROM calls d WHERE d.stream = c.stream AND d.call = c.call AND d.seq > c.seq AND d.seq < t.seq)) AS answer_seq
FROM calls c JOIN streams s ON s.id = c.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = c.stream AND e.seq = c.seq
JOIN turns m ON m.stream = c.stream AND m.seq = c.seq AND m.retracted_seq IS NULL;

CREATE VIEW v_covers AS
SELECT n.name AS tenant, s.name AS session, c.seq, c.first_seq, c.last_seq, named(e) AS actor, iso(e.at) AS at, e.at AS at_us,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM covers c JOIN streams s ON s.id = c.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = c.stream AND e.seq = c.seq;

CREATE VIEW v_tasks AS
SELECT n.name AS tenant, s.name AS session, t.seq, t.key, t.title, t.status, t.priority, t.parent, t.actor, iso(t.at) AS at,
  t.at AS at_us, iso(t.changed_at) AS changed_at,
  iso(t.closed_at) AS closed_at, t.claimed_by, iso(t.claim_expires_at) AS claim_expires_at, json(t.labels) AS labels, json(t.needs) AS needs,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob, body(o) -> 'doc' AS note, body(o) ->> 'doc_blob' AS note_blob
FROM tasks t JOIN streams s ON s.id = t.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = t.stream AND e.seq = coalesce(t.doc_seq, t.seq)
LEFT JOIN events o ON o.stream = t.stream AND o.seq = t.note_seq;

CREATE VIEW v_decisions AS
SELECT n.name AS tenant, s.name AS session, d.seq, d.status, d.actor, iso(d.at) AS at, d.at AS at_us,
  iso(d.changed_at) AS changed_at, iso(d.closed_at) AS closed_at, d.supersedes, d.superseded_by,
  json(d.tags) AS tags, body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob,
  body(o) -> 'doc' AS outcome, body(o) ->> 'doc_blob' AS outcome_blob
FROM decisions d JOIN streams s ON s.id = d.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = d.stream AND e.seq = coalesce(d.doc_seq, d.seq)
LEFT JOIN events o ON o.stream = d.stream AND o.seq = d.outcome_seq;

CREATE VIEW v_entries AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session, v.name,
  v.version, named(e) AS actor, iso(v.updated_at) AS updated_at, v.updated_at AS updated_at_us, iso(v.expires_at) AS expires_at, v.seq,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM entries v JOIN streams s ON s.id = v.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = v.stream AND e.seq = v.seq
WHERE v.gone = 0;

-- The holder of a lock is written as actor@holder.
CREATE VIEW v_locks AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session, k.name,
  k.token, k.holder, h.actor, h.host, iso(k.expires_at) AS expires_at
FROM locks k JOIN streams s ON s.id = k.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
LEFT JOIN holders h ON h.tenant = k.tenant AND h.holder = substr(k.holder, length(k.holder) - 31);

CREATE VIEW v_checkpoints AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session,
  c.seq, c.name, c.parent, c.root, c.size, named(e) AS actor, iso(c.at) AS at, c.at AS at_us, c.key, c.parent_key,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM checkpoints c JOIN streams s ON s.id = c.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = c.stream AND e.seq = c.seq;

CREATE VIEW v_checkpoint_writes AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session,
  w.seq, w.name, w.checkpoint, w.task, w.path, json(w.places) AS places, named(e) AS actor, iso(e.at) AS at, e.at AS at_us,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM checkpoint_writes w JOIN streams s ON s.id = w.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = w.stream AND e.seq = w.seq;

CREATE VIEW v_artifacts AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session,
  a.seq, a.name, a.media_type, a.size, a.address, a.actor, iso(a.at) AS at, a.at AS at_us
FROM artifacts a JOIN streams s ON s.id = a.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name);

-- What a what-if fork copied is not what was done: it is marked here, and left out of v_effects.
CREATE VIEW v_all_effects AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session,
  f.seq, f.tool, f.kind, f.state, f.key, body(e) -> 'doc' ->> 'sent_key' AS sent_key, f.place, f.call, f.undoes, f.attempt, f.mishaps,
  f.holder, f.actor, iso(f.at) AS at, f.at AS at_us, iso(f.first_dispatched_at) AS first_dispatched_at,
  iso(f.dispatched_at) AS dispatched_at, iso(f.deadline_at) AS deadline_at, iso(f.quiet_at) AS quiet_at, f.error,
  CASE WHEN m.kind = 'effect.supposed' AND coalesce(f.dispatched_at, 0) <= m.at THEN 1 ELSE 0 END AS what_if,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob, body(o) -> 'doc' AS outcome, body(o) ->> 'doc_blob' AS outcome_blob
FROM effects f JOIN streams s ON s.id = f.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events m ON m.stream = f.stream AND m.seq = f.seq
JOIN events e ON e.stream = f.stream AND e.seq = coalesce(f.doc_seq, f.seq)
LEFT JOIN events o ON o.stream = f.stream AND o.seq = f.outcome_seq;

CREATE VIEW v_effects AS SELECT * FROM v_all_effects WHERE what_if = 0;

CREATE VIEW v_runs AS
SELECT n.name AS tenant, r.name AS run, r.agent, r.key, r.status, r.reason, body(o) -> 'doc' -> 'error' ->> 'code' AS error,
  r.session, r.parent, r.creator, iso(r.created_at) AS created_at, r.created_at AS created_at_us, iso(r.ended_at) AS ended_at,
  iso(r.wake_at) AS wake_at, iso(r.timeout_at) AS timeout_at, r.holder, r.token, r.deaths, r.cancelling, r.program, r.pinned,
  CASE WHEN body(e) -> 'doc' -> 'what_if' IS NULL THEN 0 ELSE 1 END AS what_if, hexed(s.uid) AS stream_uid,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob, body(o) -> 'doc' AS outcome, body(o) ->> 'doc_blob' AS outcome_blob
FROM runs r JOIN streams s ON s.id = r.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
LEFT JOIN events e ON e.stream = r.stream AND e.seq = r.doc_seq
LEFT JOIN events o ON o.stream = r.stream AND o.seq = r.outcome_seq;

CREATE VIEW v_waits AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session,
  w.seq, w.kind, w.state, w.name, w.place, w.effect, w.actor, iso(w.at) AS at, w.at AS at_us, iso(w.expires_at) AS expires_at,
  w.met_by, iso(w.met_at) AS met_at, body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob,
  body(o) -> 'doc' AS outcome, body(o) ->> 'doc_blob' AS outcome_blob
FROM waits w JOIN streams s ON s.id = w.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = w.stream AND e.seq = coalesce(w.doc_seq, w.seq)
LEFT JOIN events o ON o.stream = w.stream AND o.seq = w.outcome_seq;

CREATE VIEW v_signals AS
SELECT n.name AS tenant, s.name AS run, g.seq, g.name, g.taken_by, named(e) AS actor, iso(e.at) AS at, e.at AS at_us,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM signals g JOIN streams s ON s.id = g.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = g.stream AND e.seq = coalesce(g.doc_seq, g.seq);

-- Who has what, and until when its heartbeat counts.
CREATE VIEW v_leases AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, x.thing, x.name, x.token, x.holder, h.actor, h.host,
  iso(h.started_at) AS started_at, iso(x.expires_at) AS expires_at, iso(h.expires_at) AS heartbeat_expires_at
FROM (
  SELECT stream, 'run' AS thing, name, token, holder, CAST(NULL AS INTEGER) AS expires_at FROM runs WHERE holder IS NOT NULL
  UNION ALL
  SELECT stream, 'task', title, token, holder, claim_expires_at FROM tasks WHERE holder IS NOT NULL
  UNION ALL
  SELECT stream, 'lock', name, token, substr(holder, length(holder) - 31), expires_at FROM locks WHERE holder IS NOT NULL
  UNION ALL
  SELECT stream, 'session', NULL, NULL, holder, NULL FROM attendance
) x JOIN streams s ON s.id = x.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
LEFT JOIN holders h ON h.tenant = s.tenant AND h.holder = x.holder;

CREATE VIEW v_workers AS
SELECT n.name AS tenant, w.holder, h.actor, h.host, iso(h.started_at) AS started_at, iso(h.expires_at) AS heartbeat_expires_at,
  json(w.about) AS about
FROM workers w JOIN tenants n ON n.id = w.tenant AND shown(n.name) LEFT JOIN holders h ON h.tenant = w.tenant AND h.holder = w.holder;

CREATE VIEW v_subscriptions AS
SELECT n.name AS tenant, u.name, u.epoch, u.pos, u.token, json(u.about) AS about
FROM subscriptions u JOIN tenants n ON n.id = u.tenant AND shown(n.name);

-------------------------------------------------------------------------------------------------------------------- memory

-- What outlives a run, in the stream of a session or scope; see docs/decisions/0021-memory.md.
CREATE TABLE memories (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('fact', 'preference', 'workflow', 'snippet', 'lesson', 'failed_approach', 'rule', 'correction',
    'vocabulary', 'map', 'document')),
  status TEXT NOT NULL CHECK (status IN ('live', 'superseded', 'forgotten')),
  key TEXT,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  valid_from INTEGER, -- null: always
  valid_to INTEGER, -- null: without end
  confirmed_at INTEGER,
  tags TEXT NOT NULL,
  about TEXT NOT NULL, -- the subjects that it names
  supersedes INTEGER,
  superseded_by INTEGER,
  doc_seq INTEGER, -- its text, as in decisions
  note_seq INTEGER, -- why it was last confirmed, superseded or forgotten
  PRIMARY KEY (stream, seq),
  CHECK ((superseded_by IS NOT NULL) = (status = 'superseded'))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX memories_by_key ON memories (stream, key) WHERE key IS NOT NULL;
CREATE INDEX memories_by_time ON memories (tenant, at, stream, seq);
CREATE INDEX memories_by_kind ON memories (tenant, kind, at, stream, seq);
CREATE INDEX memories_by_status ON memories (tenant, status, at, stream, seq);
CREATE INDEX memories_by_actor ON memories (tenant, actor, at, stream, seq);
CREATE INDEX memories_of_kind ON memories (stream, kind, seq);
CREATE INDEX memories_of_status ON memories (stream, status, seq);

-- How often a memory was recalled; a memory without a row was never read.
CREATE TABLE memory_uses (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  memory INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  used_at INTEGER NOT NULL,
  PRIMARY KEY (stream, memory)
) STRICT, WITHOUT ROWID;

-- The index of what was said, made from the feed when somebody searches. Only `texts` and `indexing` are written by code.
-- A text is one part of what one event says; `of_seq` is the row that the event is about, `terms` a JSON list of its words.
CREATE TABLE texts (
  tenant INTEGER NOT NULL,
  in_stream INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  part INTEGER NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL, -- @postgres
  shelf TEXT NOT NULL, -- @sqlite
  of_seq INTEGER NOT NULL,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  user_said INTEGER NOT NULL CHECK (user_said IN (0, 1)),
  is_short INTEGER NOT NULL CHECK (is_short IN (0, 1)),
  len INTEGER NOT NULL,
  terms TEXT NOT NULL,
  added INTEGER NOT NULL, -- with which batch of the index; those without a vector are found by it
  PRIMARY KEY (in_stream, seq, part, shelf, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX texts_by_batch ON texts (tenant, added);
CREATE INDEX texts_of_memories ON texts (in_stream, of_seq) WHERE shelf >= 'memory.' AND shelf < 'past/';

CREATE TABLE postings (
  tenant INTEGER NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL, -- @postgres
  term TEXT COLLATE "C" NOT NULL, -- @postgres
  shelf TEXT NOT NULL, -- @sqlite
  term TEXT NOT NULL, -- @sqlite
  in_stream INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  part INTEGER NOT NULL,
  tf INTEGER NOT NULL,
  len INTEGER NOT NULL,
  PRIMARY KEY (tenant, shelf, term, in_stream, seq, part) -- @sqlite
  PRIMARY KEY (tenant, shelf, term, in_stream, seq, part) INCLUDE (tf, len) -- @postgres
) STRICT, WITHOUT ROWID;

-- In how many texts of a shelf a word stands.
CREATE TABLE terms (
  tenant INTEGER NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL, -- @postgres
  term TEXT COLLATE "C" NOT NULL, -- @postgres
  shelf TEXT NOT NULL, -- @sqlite
  term TEXT NOT NULL, -- @sqlite
  df INTEGER NOT NULL,
  PRIMARY KEY (tenant, shelf, term)
) STRICT, WITHOUT ROWID;

-- How many texts, words and short texts a shelf has.
CREATE TABLE shelves (
  tenant INTEGER NOT NULL,
  shelf TEXT NOT NULL,
  texts INTEGER NOT NULL,
  words INTEGER NOT NULL,
  shorts INTEGER NOT NULL,
  PRIMARY KEY (tenant, shelf)
) STRICT, WITHOUT ROWID;

-- How far the feed was read into the index, in which epoch, and by which version of our words.
CREATE TABLE indexing (
  tenant INTEGER PRIMARY KEY,
  epoch INTEGER NOT NULL,
  xid INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  version INTEGER NOT NULL,
  added INTEGER NOT NULL -- how many batches were added
) STRICT;

CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN -- @sqlite
  INSERT INTO postings (tenant, shelf, term, in_stream, seq, part, tf, len) -- @sqlite
  SELECT NEW.tenant, NEW.shelf, value, NEW.in_stream, NEW.seq, NEW.part, count(*), NEW.len FROM json_each(NEW.terms) GROUP BY value; -- @sqlite
  INSERT INTO terms (tenant, shelf, term, df) -- @sqlite
  SELECT NEW.tenant, NEW.shelf, value, 1 FROM json_each(NEW.terms) WHERE true GROUP BY value -- @sqlite
  ON CONFLICT (tenant, shelf, term) DO UPDATE SET df = df + 1; -- @sqlite
  INSERT INTO shelves (tenant, shelf, texts, words, shorts) VALUES (NEW.tenant, NEW.shelf, 1, NEW.len, NEW.is_short) -- @sqlite
  ON CONFLICT (tenant, shelf) DO UPDATE SET texts = texts + 1, words = words + excluded.words, shorts = shorts + excluded.shorts; -- @sqlite
END; -- @sqlite
CREATE TRIGGER texts_gone AFTER DELETE ON texts BEGIN -- @sqlite
  DELETE FROM postings WHERE tenant = OLD.tenant AND shelf = OLD.shelf AND term IN (SELECT value FROM json_each(OLD.terms)) -- @sqlite
    AND in_stream = OLD.in_stream AND seq = OLD.seq AND part = OLD.part; -- @sqlite
  UPDATE terms SET df = df - 1 WHERE tenant = OLD.tenant AND shelf = OLD.shelf AND term IN (SELECT value FROM json_each(OLD.terms)); -- @sqlite
  DELETE FROM terms WHERE tenant = OLD.tenant AND shelf = OLD.shelf AND term IN (SELECT value FROM json_each(OLD.terms)) AND df < 1; -- @sqlite
  UPDATE shelves SET texts = texts - 1, words = words - OLD.len, shorts = shorts - OLD.is_short -- @sqlite
  WHERE tenant = OLD.tenant AND shelf = OLD.shelf; -- @sqlite
  UPDATE embeddings SET gone = gone + 1 WHERE tenant = OLD.tenant AND embedding IN (SELECT v.embedding FROM vectors v -- @sqlite
    WHERE v.in_stream = OLD.in_stream AND v.seq = OLD.seq AND v.part = OLD.part AND v.shelf = OLD.shelf AND v.tenant = OLD.tenant); -- @sqlite
  DELETE FROM vectors WHERE in_stream = OLD.in_stream AND seq = OLD.seq AND part = OLD.part AND shelf = OLD.shelf -- @sqlite
    AND tenant = OLD.tenant; -- @sqlite
END; -- @sqlite

CREATE FUNCTION texts_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN -- @postgres
  INSERT INTO postings (tenant, shelf, term, in_stream, seq, part, tf, len) -- @postgres
  SELECT x.tenant, x.shelf, w.term, x.in_stream, x.seq, x.part, count(*), x.len -- @postgres
  FROM added x, json_array_elements_text(x.terms::json) AS w (term) -- @postgres
  GROUP BY x.tenant, x.shelf, w.term, x.in_stream, x.seq, x.part, x.len; -- @postgres
  INSERT INTO terms AS t (tenant, shelf, term, df) -- @postgres
  SELECT x.tenant, x.shelf, w.term, count(*) FROM added x, -- @postgres
    LATERAL (SELECT DISTINCT value AS term FROM json_array_elements_text(x.terms::json)) AS w -- @postgres
  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 ON CONFLICT (tenant, shelf, term) DO UPDATE SET df = t.df + excluded.df; -- @postgres
  INSERT INTO shelves AS s (tenant, shelf, texts, words, shorts) -- @postgres
  SELECT tenant, shelf, count(*), sum(len), sum(is_short) FROM added GROUP BY 1, 2 ORDER BY 1, 2 -- @postgres
  ON CONFLICT (tenant, shelf) DO UPDATE -- @postgres
  SET texts = s.texts + excluded.texts, words = s.words + excluded.words, shorts = s.shorts + excluded.shorts; -- @postgres
  RETURN NULL; -- @postgres
END $$; -- @postgres
CREATE TRIGGER texts_added AFTER INSERT ON texts REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION texts_added(); -- @postgres
CREATE FUNCTION texts_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN -- @postgres
  DELETE FROM postings p USING gone x, json_array_elements_text(x.terms::json) AS w (term) -- @postgres
  WHERE p.tenant = x.tenant AND p.shelf = x.shelf AND p.term = w.term -- @postgres
    AND p.in_stream = x.in_stream AND p.seq = x.seq AND p.part = x.part; -- @postgres
  WITH less AS (SELECT x.tenant, x.shelf, w.term, count(*) AS n FROM gone x, -- @postgres
    LATERAL (SELECT DISTINCT value AS term FROM json_array_elements_text(x.terms::json)) AS w GROUP BY 1, 2, 3) -- @postgres
  UPDATE terms t SET df = t.df - l.n FROM less l WHERE t.tenant = l.tenant AND t.shelf = l.shelf AND t.term = l.term; -- @postgres
  DELETE FROM terms t USING gone x, json_array_elements_text(x.terms::json) AS w (term) -- @postgres
  WHERE t.tenant = x.tenant AND t.shelf = x.shelf AND t.term = w.term AND t.df < 1; -- @postgres
  UPDATE shelves s SET texts = s.texts - l.texts, words = s.words - l.words, shorts = s.shorts - l.shorts -- @postgres
  FROM (SELECT tenant, shelf, count(*) AS texts, sum(len) AS words, sum(is_short) AS shorts FROM gone GROUP BY 1, 2) l -- @postgres
  WHERE s.tenant = l.tenant AND s.shelf = l.shelf; -- @postgres
  WITH less AS (DELETE FROM vectors v USING gone x WHERE v.in_stream = x.in_stream AND v.seq = x.seq AND v.part = x.part -- @postgres
    AND v.shelf = x.shelf AND v.tenant = x.tenant RETURNING v.tenant, v.embedding) -- @postgres
  UPDATE embeddings e SET gone = e.gone + l.n -- @postgres
  FROM (SELECT tenant, embedding, count(*) AS n FROM less GROUP BY 1, 2) l -- @postgres
  WHERE e.tenant = l.tenant AND e.embedding = l.embedding; -- @postgres
  RETURN NULL; -- @postgres
END $$; -- @postgres
CREATE TRIGGER texts_gone AFTER DELETE ON texts REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION texts_gone(); -- @postgres

INSERT INTO tables (name, class) VALUES
  ('memories', 'recorded'), ('memory_uses', 'ephemeral'), ('texts', 'ephemeral'), ('postings', 'ephemeral'), ('terms', 'ephemeral'),
  ('shelves', 'ephemeral'), ('indexing', 'ephemeral');

CREATE VIEW v_memories AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session, m.seq, m.kind,
  m.status, m.key, m.actor, iso(m.at) AS at, m.at AS at_us, iso(m.valid_from) AS valid_from, iso(m.valid_to) AS valid_to,
  iso(m.confirmed_at) AS confirmed_at, m.supersedes, m.superseded_by, json(m.tags) AS tags, json(m.about) AS about,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob, body(o) -> 'doc' AS note
FROM memories m JOIN streams s ON s.id = m.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = m.stream AND e.seq = coalesce(m.doc_seq, m.seq)
LEFT JOIN events o ON o.stream = m.stream AND o.seq = m.note_seq;

------------------------------------------------------------------------------------------------------------- checks and boot

-- Checks of values, decisions and tasks; see docs/decisions/0041-checks-of-everything.md. name: a number, or a value's name.
CREATE TABLE checks (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  thing TEXT NOT NULL CHECK (thing IN ('value', 'decision', 'task')),
  name TEXT NOT NULL,
  version INTEGER NOT NULL, -- of a value; 0 for all else
  doc_seq INTEGER NOT NULL,
  PRIMARY KEY (stream, name, thing)
) STRICT, WITHOUT ROWID;
CREATE INDEX checks_by_time ON checks (stream, doc_seq);
CREATE INDEX checks_by_tenant ON checks (tenant, stream, doc_seq);

-- Manifests of the last boots of a session.
CREATE TABLE boots (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  number INTEGER NOT NULL,
  made_at INTEGER NOT NULL,
  manifest TEXT NOT NULL,
  PRIMARY KEY (stream, number)
) STRICT, WITHOUT ROWID;

INSERT INTO tables (name, class) VALUES ('checks', 'recorded'), ('boots', 'ephemeral');

CREATE VIEW v_checks AS
SELECT n.name AS tenant, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session, c.thing, c.name,
  c.version, named(e) AS actor, iso(e.at) AS at, e.at AS at_us, body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob
FROM checks c JOIN streams s ON s.id = c.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = c.stream AND e.seq = c.doc_seq;

------------------------------------------------------------------------------------------------------------------- vectors

-- The functions that made vectors of texts; see docs/decisions/0039-vectors.md. `done`: every text up to this batch of the index
-- has its vectors. `batches` and `gone` count the batches of vectors, and those that went: readers keep bits in memory by them.
CREATE TABLE embeddings (
  tenant INTEGER NOT NULL,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  dims INTEGER NOT NULL,
  embedding INTEGER NOT NULL,
  done INTEGER NOT NULL,
  batches INTEGER NOT NULL,
  gone INTEGER NOT NULL,
  PRIMARY KEY (tenant, name, sha256, dims)
) STRICT, WITHOUT ROWID;

-- The vector of a text: one byte a dimension, and its signs as bits; both empty for a text that has none. It goes with its text.
CREATE TABLE vectors (
  tenant INTEGER NOT NULL,
  embedding INTEGER NOT NULL,
  in_stream INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  part INTEGER NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL, -- @postgres
  shelf TEXT NOT NULL, -- @sqlite
  batch INTEGER NOT NULL,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  bits BLOB NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (in_stream, seq, part, shelf, embedding, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX vectors_by_batch ON vectors (tenant, embedding, batch, at, actor, bits); -- @sqlite
CREATE INDEX vectors_by_batch ON vectors (tenant, embedding, batch); -- @postgres

INSERT INTO tables (name, class) VALUES ('embeddings', 'ephemeral'), ('vectors', 'ephemeral');

----------------------------------------------------------------------------------------------------------------- subjects

-- Whom records are about, as JSON, sorted; null: nobody (docs/decisions/0035-subjects.md). It follows from the subjects of events.
ALTER TABLE sessions ADD COLUMN about TEXT;
ALTER TABLE runs ADD COLUMN about TEXT;
ALTER TABLE tasks ADD COLUMN about TEXT;
ALTER TABLE decisions ADD COLUMN about TEXT;
ALTER TABLE entries ADD COLUMN about TEXT;
ALTER TABLE effects ADD COLUMN about TEXT;
ALTER TABLE waits ADD COLUMN about TEXT;
ALTER TABLE signals ADD COLUMN about TEXT;
ALTER TABLE calls ADD COLUMN about TEXT;

-- The events that are about a subject. whole: so is everything in the stream. of_seq: the record that the event belongs to. Derived.
CREATE TABLE subjects (
  stream INTEGER NOT NULL REFERENCES streams (id),
  tenant INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  subject TEXT COLLATE "C" NOT NULL, -- @postgres
  subject TEXT NOT NULL, -- @sqlite
  whole INTEGER NOT NULL CHECK (whole IN (0, 1)),
  of_seq INTEGER NOT NULL,
  PRIMARY KEY (stream, seq, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX subjects_by_subject ON subjects (tenant, subject, stream, seq, of_seq);
CREATE INDEX subjects_of_streams ON subjects (tenant, subject, stream) WHERE whole = 1;
CREATE INDEX subjects_whole ON subjects (stream, subject) WHERE whole = 1;
-- What a listing by a subject looks up: values by the event of their version, and checkpoints, which are about everybody before them.
CREATE INDEX entries_about ON entries (stream, seq) WHERE about IS NOT NULL;
CREATE INDEX events_of_checkpoints ON events (stream, seq) WHERE tbl = 'checkpoints';
-- The drives of a run: the follower of the feed asks for them, however many steps lie between.
CREATE INDEX events_of_runs ON events (stream, seq) WHERE tbl = 'runs';
INSERT INTO tables (name, class) VALUES ('subjects', 'derived');

-- The bodies of before that name subjects: turns, emitted events and artifacts. None of their tables has the column.
INSERT INTO subjects (stream, tenant, seq, subject, whole, of_seq) -- @sqlite
SELECT DISTINCT e.stream, e.tenant, e.seq, j.value, 0, e.seq FROM events e, json_each(CAST(e.body AS TEXT), '$.subjects') j -- @sqlite
WHERE instr(e.body, CAST('"subjects":[' AS BLOB)) > 0 AND j.type = 'text'; -- @sqlite
INSERT INTO subjects (stream, tenant, seq, subject, whole, of_seq) -- @postgres
SELECT DISTINCT e.stream, e.tenant, e.seq, j.value, 0, e.seq FROM ( -- @postgres
  SELECT stream, tenant, seq, json_of(body) -> 'subjects' AS named FROM events WHERE position('"subjects":['::bytea IN body) > 0 -- @postgres
) e, jsonb_array_elements_text(CASE jsonb_typeof(e.named) WHEN 'array' THEN e.named ELSE '[]' END) AS j (value); -- @postgres
UPDATE calls SET about = (SELECT '[' || group_concat(x.named, ', ') || ']' FROM (SELECT json_quote(b.subject) AS named FROM subjects b -- @sqlite
  WHERE b.stream = calls.stream AND b.seq = calls.seq ORDER BY b.subject) x) -- @sqlite
WHERE EXISTS (SELECT 1 FROM subjects b WHERE b.stream = calls.stream AND b.seq = calls.seq); -- @sqlite
UPDATE calls c SET about = (SELECT '[' || string_agg(to_json(b.subject)::text, ', ' ORDER BY b.subject) || ']' FROM subjects b -- @postgres
  WHERE b.stream = c.stream AND b.seq = c.seq) -- @postgres
WHERE EXISTS (SELECT 1 FROM subjects b WHERE b.stream = c.stream AND b.seq = c.seq); -- @postgres

CREATE VIEW v_subjects AS
SELECT n.name AS tenant, b.subject, s.kind AS stream_kind, s.name AS stream, CASE s.kind WHEN 'session' THEN s.name END AS session, b.seq,
  b.whole, b.of_seq, e.kind, e.tbl, named(e) AS actor, iso(e.at) AS at, e.at AS at_us
FROM subjects b JOIN streams s ON s.id = b.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
JOIN events e ON e.stream = b.stream AND e.seq = b.seq;
