-- Rules: system turns are few and found by an index of their own. The one over all roles served no statement, and cost
-- every turn that somebody said a page of the log.

DROP INDEX turns_by_role;
CREATE INDEX turns_of_system ON turns (stream, seq) WHERE role = 'system';
