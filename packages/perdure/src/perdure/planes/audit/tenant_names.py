"""The names of tenants, which no header holds: what the log says that each is called (decision 0036). Keeps P6, P11.

Every event of the directory of actors, in the tenant's own stream, says what the tenant is called, from its first actor on. An
anchor names all tenants once more, by the first stream of each. Callers: `planes.audit.verify`.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.log.change import Change, Op
from perdure.model.records.integrity import Problem, ProblemKind
from perdure.planes.reading.body_reading import doc_of, inline_body
from perdure.planes.reading.row_reading import stored_as, stored_fields
from perdure.stores.core import Reader
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.audit", "verify.sql")

TENANTS_NAMED = "store.tenants_named"


def record(tx: Tx) -> None:
    """Record what the tenants are called, each by the first of its streams, unless the log says so already: for an anchor."""
    now = _now(tx)
    if _names_in_log(tx) != now:
        stream = tx.find_stream("store", "store") or tx.new_stream("store", "store")
        tx.record(Change("store.tenants_named", stream, None, Op.NOTE, doc={"tenants": now}))


def check(reader: Reader) -> tuple[list[Problem], list[str]]:
    """The tenants that are not called what the log says, and the names of those that it never named."""
    (owner,) = reader.query(Q.tenant_first)[0]
    in_log, now = _names_in_log(reader.of_tenant(owner or 0)), _now(reader)
    problems: list[Problem] = []
    for uid, name in in_log.items():
        rows = reader.query(Q.tenant_of_stream, uid=bytes.fromhex(uid))
        if rows and (name,) not in rows:
            what = f"the log knows the tenant of this stream as {name!r}, and not as {rows[0][0]!r}"
            problems.append(Problem(ProblemKind.TENANT_ALTERED, "", uid, None, "tenants", what))
    bound: dict[str, str] = {}
    for uid, seq, own_name, name in _directories(reader):
        if own_name != name and bound.get(uid) != own_name:  # once is enough
            what = f"its own stream knows this tenant as {own_name!r}, and not as {name!r}"
            problems.append(Problem(ProblemKind.TENANT_ALTERED, "tenant", uid, seq, "tenants", what))
        bound[uid] = own_name
    return problems, sorted(set(now.values()) - set(in_log.values()) - set(bound.values()))


def _directories(reader: Reader) -> Iterator[tuple[str, int, str, str]]:
    """Every event of a directory that names its tenant: its stream, its number, the name that it says and the one that stands."""
    for uid, seq, name, body in reader.query(Q.tenants_in_directories):
        own_name = stored_fields(inline_body(body).doc, f"seq {seq}").get("tenant")
        if type(own_name) is str:
            yield bytes(uid).hex(), seq, own_name, name


def _now(reads: Reads) -> dict[str, str]:
    """The name of each tenant that has a stream of its own, by the uid of the first one."""
    return {bytes(uid).hex(): name for uid, name in reads.query(Q.tenants_named)}


def _names_in_log(reads: Reads) -> dict[str, str]:
    """The last statement of an anchor about that; nothing if there was none."""
    rows = reads.query(Q.tenants_recorded, kind=TENANTS_NAMED)
    fields = stored_fields(doc_of(reads, rows[0][0], TENANTS_NAMED), TENANTS_NAMED) if rows else {}
    return stored_as(dict[str, str], fields.get("tenants", {}), "list of tenants", TENANTS_NAMED)
