-- What a look at stores of a million events found slow.

-- The runs that a run started, and those that failed, in the order in which they are listed.
DROP INDEX runs_by_parent;
CREATE INDEX runs_by_parent ON runs (tenant, parent, created_at, stream) WHERE parent IS NOT NULL;
CREATE INDEX runs_failed ON runs (tenant, ended_at, stream) WHERE status = 'failed';
-- What is stuck is among the tasks that are not over, which are few however many were done.
CREATE INDEX tasks_unfinished ON tasks (tenant, at, stream, seq) WHERE status IN ('todo', 'doing', 'blocked');
-- A worker asks for the runs of its own agents, however many of others wait.
CREATE INDEX runs_of_agents ON runs (tenant, status, agent, wake_at, stream) WHERE status IN ('ready', 'running', 'waiting');

-- The versions under which a run was driven last, by name; the last change of them; and what is done when they differ (docs/decisions/0144-pins-of-runs.md).
ALTER TABLE runs ADD COLUMN pins TEXT;
ALTER TABLE runs ADD COLUMN pins_change TEXT;
ALTER TABLE runs ADD COLUMN on_change TEXT CHECK (on_change IN ('continue', 'park', 'ask'));
DROP VIEW v_runs;
CREATE VIEW v_runs AS
SELECT n.name AS tenant, r.name AS run, r.agent, r.key, r.status, r.reason, body(o) -> 'doc' -> 'error' ->> 'code' AS error,
  r.session, r.parent, r.creator, iso(r.created_at) AS created_at, r.created_at AS created_at_us, iso(r.ended_at) AS ended_at,
  iso(r.wake_at) AS wake_at, iso(r.timeout_at) AS timeout_at, r.holder, r.token, r.deaths, r.cancelling, r.program, r.pinned, r.pins, r.pins_change, r.on_change,
  CASE WHEN body(e) -> 'doc' -> 'what_if' IS NULL THEN 0 ELSE 1 END AS what_if, hexed(s.uid) AS stream_uid,
  body(e) -> 'doc' AS doc, body(e) ->> 'doc_blob' AS doc_blob, body(o) -> 'doc' AS outcome, body(o) ->> 'doc_blob' AS outcome_blob
FROM runs r JOIN streams s ON s.id = r.stream JOIN tenants n ON n.id = s.tenant AND shown(n.name)
LEFT JOIN events e ON e.stream = r.stream AND e.seq = r.doc_seq
LEFT JOIN events o ON o.stream = r.stream AND o.seq = r.outcome_seq;
