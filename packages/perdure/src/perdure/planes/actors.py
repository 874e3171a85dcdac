"""The directory of actors: who is meant by the random names in the headers of events, and how that is forgotten.

An actor is introduced by `stores.tx`, with its first event. Forgetting one takes the row and the body of the event that named
it; headers keep a random name that says nothing any more (docs/decisions/0033). Callers: the handles. Keeps P6.
"""

from __future__ import annotations

from perdure.errors import NotFound
from perdure.log.actors import ACTORS, FORGOTTEN
from perdure.log.change import Change, Op, Stream
from perdure.model.limits import check_name
from perdure.model.records.actors import ActorRecord
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes", "actors.sql")


def listed(reads: Reads) -> list[ActorRecord]:
    """Everybody who has written in this tenant since headers name actors at random, by name."""
    return [ActorRecord(*row) for row in reads.query(Q.actors_all, tenant=reads.tenant)]


def forget(tx: Tx, name: str) -> int:
    """Let the directory forget an actor; returns how many random names stood for it. NotFound when it knows none."""
    places = tx.query(Q.actor_places, tenant=tx.tenant, name=check_name(name, "actor"))
    if not places:
        raise NotFound(
            f"the directory knows no actor {name!r}",
            path="actor",
            hint="`store.actors()` lists the actors that it knows",
        )
    for number, actor, seq in places:
        stream = Stream(*tx.query(LOG.stream_by_id, id=number)[0])
        # The event that goes may have been the only one that said what the tenant is called.
        doc = {"tenant": tx.query(LOG.tenant_name, tenant=stream.tenant)[0][0]}
        tx.record(Change(FORGOTTEN, stream, ACTORS, Op.DELETE, {"actor": actor}, doc=doc))
        tx.record(Change("log.pruned", stream, op=Op.NOTE, doc={"emptied": [seq], "table": ACTORS.name}))
        tx.empty(stream, [seq])
    return len(places)
