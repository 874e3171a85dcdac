"""Stores with 100,000 rows in every table that can grow, put there by the database itself: what plans are looked at on."""

from __future__ import annotations

import re
from typing import Any

ROWS = 100_000
READS = re.compile(r"(?:\s*--[^\n]*\n)*\s*(?:SELECT|WITH)\b")  # its sentence may go on in further lines
FEWER = 4  # of sessions and runs there are so many times fewer
T0 = 1_700_000_000_000_000
SERIES = {
    "sqlite": "(WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < {rows}) SELECT n FROM g) g",
    "postgres": "generate_series(1, {rows}) AS g(n)",
}
BYTES = {"sqlite": "zeroblob({})", "postgres": "decode(repeat('00', {}), 'hex')"}
UID = {
    "sqlite": "CAST(printf('%016d', n + {}) AS BLOB)",
    "postgres": "convert_to(lpad((n + {})::text, 16, '0'), 'UTF8')",
}

# Stream 1 is a session that has everything; streams from 1000 on are the other sessions, from 500000 on the runs.
STREAMS = """
INSERT INTO streams (id, uid, tenant, kind, name, parent, fork_seq, seq, hash)
SELECT {base} + n, {uid}, {tenant}, '{kind}', '{kind}' || n, NULL, 0, 1, {hash} FROM {few}"""
FIRST = """
INSERT INTO events (tenant, stream, seq, kind, tbl, actor, at, codec, tx, commitment, hash, salt, body)
SELECT {tenant}, {base} + n, 1, '{kind}.began', '{kind}s', 'me', {t0} + n, 0, {uid0}, {hash}, {hash}, {salt}, {body} FROM {few}"""
TABLES = {
    "events": """tenant, stream, seq, kind, tbl, actor, at, codec, tx, commitment, hash, salt, body =
        {tenant}, {stream}, n, 'turn.said', 'turns', 'me', {t0} + n, 0, {uid0}, {hash}, {hash}, {salt}, {body}""",
    "turns": """stream, tenant, seq, role, key, call =
        {stream}, {tenant}, n, CASE n % 3 WHEN 0 THEN 'tool' ELSE 'user' END, 'k' || n, CASE n % 3 WHEN 0 THEN 'c' || n END""",
    "calls": "stream, tenant, call, seq, tool = {stream}, {tenant}, 'c' || n, n, 'pay'",
    "covers": "stream, tenant, seq, first_seq, last_seq = {stream}, {tenant}, n + 10, n, n + 1",
    "tasks": """stream, tenant, seq, key, status, priority, title, actor, at, labels, needs, token =
        {stream}, {tenant}, n, 'k' || n, CASE n % 2 WHEN 0 THEN 'done' ELSE 'todo' END, n % 5, 't', 'me', {t0} + n, '[]',
        '[]', 0""",
    "decisions": "stream, tenant, seq, status, actor, at, tags = {stream}, {tenant}, n, 'open', 'me', {t0} + n, '[]'",
    "entries": "stream, tenant, name, version, updated_at, gone, seq = {stream}, {tenant}, 'v' || n, 1, {t0} + n, 0, n",
    "checkpoints": "stream, tenant, seq, name, root, size, at = {stream}, {tenant}, n, 'default', 'x', 1, {t0} + n",
    "artifacts": """stream, tenant, seq, name, media_type, size, address, actor, at =
        {stream}, {tenant}, n, 'a' || n, 'text/plain', 1, 'x' || n, 'me', {t0} + n""",
    "effects": """stream, tenant, seq, state, tool, kind, key, digest, attempt, mishaps, epoch, actor, at, outcome_seq =
        {stream}, {tenant}, n, 'committed', 'pay', 'keyed', 'k' || n, 'd', 1, 0, 1, 'me', {t0} + n, n""",
    "waits": """stream, tenant, seq, kind, state, name, actor, at, met_at =
        {stream}, {tenant}, n, 'signal', 'met', 'go', 'me', {t0} + n, {t0} + n""",
    "signals": "stream, tenant, seq, name, taken_by = {stream}, {tenant}, n, 'go', n",
    "sessions": """stream, tenant, name, title, status, creator, created_at, labels =
        1000 + n, {tenant}, 's' || n, '', 'active', 'me', {t0} + n, '[]'""",
    "runs": """stream, tenant, name, agent, digest, status, creator, created_at, ended_at, token, claimed_seq, deaths, suspect,
        cancelling, cuts, cut_seq, program, pinned, epoch =
        500000 + n, {tenant}, 'r' || n, 'mend', 'd', 'completed', 'me', {t0} + n, {t0} + n, 0, 0, 0, 0, 0, 0, 0, 'p', 0, 1""",
    "memories": """stream, tenant, seq, kind, status, key, tags, about, actor, at =
        {stream}, {tenant}, n, 'fact', 'live', 'k' || n, '[]', '[]', 'me', {t0} + n""",
    "memory_uses": "stream, tenant, memory, uses, used_at = {stream}, {tenant}, n, 1, {t0} + n",
    "subjects": """stream, tenant, seq, subject, whole, of_seq =
        {stream}, {tenant}, n, CASE n % 2 WHEN 0 THEN 'common' ELSE 'user:' || (n / 10) END, 0, n""",
    "checks": "stream, tenant, thing, name, version, doc_seq = {stream}, {tenant}, 'value', 'v' || n, 1, n",
    "actors": "stream, tenant, actor, name, seq = {stream}, {tenant}, 'u_' || n, 'somebody' || n, n",
    "texts": """tenant, in_stream, seq, part, shelf, of_seq, actor, at, user_said, is_short, len, terms, added =
        {tenant}, {stream}, n, 0, 'turn', n, 'me', {t0} + n, 0, 1, 1, '["w' || n % 1000 || '"]', n""",
    "tags": "stream, tenant, thing, tag, id, at = {stream}, {tenant}, 'task', 'common', n, {t0} + n",
}


def fill(raw: Any, dialect: str, tenant: int, stream: int, rows: int = ROWS) -> None:
    """Put the rows there, on a connection of the database itself."""
    words = {
        "tenant": tenant, "stream": stream, "t0": T0, "rows": rows, "g": SERIES[dialect].format(rows=rows),
        "few": SERIES[dialect].format(rows=rows // FEWER),
        "hash": BYTES[dialect].format(32), "salt": BYTES[dialect].format(16), "uid0": BYTES[dialect].format(16),
        "body": "CAST('{\"op\": \"note\"}' AS BLOB)" if dialect == "sqlite" else "convert_to('{\"op\": \"note\"}', 'UTF8')",
    }  # fmt: skip
    for base, kind in ((1000, "session"), (500_000, "run")):
        raw.execute(STREAMS.format(base=base, kind=kind, uid=UID[dialect].format(base), **words))
        raw.execute(FIRST.format(base=base, kind=kind, **words))
    raw.execute("DELETE FROM turns")
    raw.execute(f"UPDATE streams SET seq = {rows} WHERE id = {stream}")
    for table, text in TABLES.items():
        columns, values = text.split(" =", 1)
        skip = (
            f" WHERE n > (SELECT coalesce(max(seq), 0) FROM events WHERE stream = {stream})"
            if table == "events"
            else ""
        )
        series = words["few"] if table in ("sessions", "runs") else words["g"]
        raw.execute(f"INSERT INTO {table} ({columns}) SELECT {values.format(**words)} FROM {series}{skip}")
    raw.execute("ANALYZE")


def variants(statement: Any, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of a statement: without its optional lines, and with each of these alone. By its name and what is given."""
    texts = [statement.source, *(text for _, text in statement.overrides.values())]
    named = set(re.findall(r"(?<![:\w]):([a-z_]\w*)", "\n".join(texts))) - {"now"}
    named |= {"about"} if re.search(r"about_(whole|text)\(", statement.source) else set()
    lines = {tuple(found.split()) for found in re.findall(r"--\? ([\w ]+)$", statement.source, re.MULTILINE)}
    nothing = dict.fromkeys(name for line in lines for name in line)
    fixed = {name: given.get(name, 1) for name in named if name not in nothing} | nothing
    made = {
        " ".join((statement.name, *line)): fixed | {name: given.get(name, 1) for name in line} for line in sorted(lines)
    }
    return {statement.name: fixed, **made}
