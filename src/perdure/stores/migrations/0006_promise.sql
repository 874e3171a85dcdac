-- What a look at stores of a million events found slow.

-- The runs that a run started, and those that failed, in the order in which they are listed.
DROP INDEX runs_by_parent;
CREATE INDEX runs_by_parent ON runs (tenant, parent, created_at, stream) WHERE parent IS NOT NULL;
CREATE INDEX runs_failed ON runs (tenant, ended_at, stream) WHERE status = 'failed';
-- What is stuck is among the tasks that are not over, which are few however many were done.
CREATE INDEX tasks_unfinished ON tasks (tenant, at, stream, seq) WHERE status IN ('todo', 'doing', 'blocked');
-- A worker asks for the runs of its own agents, however many of others wait.
CREATE INDEX runs_of_agents ON runs (tenant, status, agent, wake_at, stream) WHERE status IN ('ready', 'running', 'waiting');
