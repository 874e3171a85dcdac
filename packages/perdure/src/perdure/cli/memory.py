"""`perdure remember`, `recall`, `memories`, `forget` and `search`: what is known, and what was said, decided and done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.arguments import arguments_of
from perdure.cli.filters import filtered_by
from perdure.cli.finding import find_session
from perdure.cli.names import session_names
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import note, say_facts, say_json
from perdure.cli.show import record_of, records
from perdure.cli.tables import Column, folded, is_filtered, prose, say_page
from perdure.errors import NotFound, ReadOnly
from perdure.model.filters import MemoryFilters, SearchFilters
from perdure.model.records.memories import ByVectors, MemoryKind
from perdure.planes.reading.paging import Page
from perdure.verbs import memory as verbs

if TYPE_CHECKING:
    from perdure.handles.sync.session import Scope, Session
    from perdure.handles.sync.store import Store

MEMORY_COLUMNS = (
    Column("scope", lambda memory: memory.scope),
    Column("seq", lambda memory: memory.seq),
    Column("kind", lambda memory: memory.kind),
    Column("status", lambda memory: memory.status, spare=True),
    folded("memory", lambda memory: memory.text),
    prose("tags", lambda memory: memory.tags),
    prose("note", lambda memory: memory.note),
    Column("uses", lambda memory: memory.uses),
    Column("at", lambda memory: memory.at),
)
HIT_COLUMNS = (
    Column("scope", lambda hit: hit["memory"].scope),
    Column("seq", lambda hit: hit["memory"].seq),
    Column("kind", lambda hit: hit["memory"].kind),
    folded("memory", lambda hit: hit["memory"].text),
    Column("standing", lambda hit: hit["standing"]),
    prose("why", lambda hit: str(hit["why"])),
)
FOUND_COLUMNS = (
    Column("kind", lambda found: found.kind),
    Column("where", lambda found: found.stream),
    Column("seq", lambda found: found.seq),
    folded("text", lambda found: found.text),
    Column("actor", lambda found: found.actor, spare=True),
    Column("at", lambda found: found.at),
    prose("why", lambda found: str(found.why)),
)

FOLLOW_WAIT = "30s"

_session = click.option("--session", metavar="NAME", help="In this session.", shell_complete=session_names)
_scope = click.option("--scope", metavar="NAME", help="In this scope, such as user:alice or project:acme.")


@command(
    "remember",
    "perdure remember 'Tests run with make test' --scope project:acme --source file:Makefile",
    "perdure remember 'Never push to main' --scope user:alice --kind rule --key no-push",
    "perdure remember 'Tests run with tox' --scope project:acme --supersedes 7 --because 'the Makefile went'",
)
@click.argument("text")
@_session
@_scope
@arguments_of(verbs.remember)
@click.option("--supersedes", type=int, metavar="SEQ", help="The memory that it replaces; needs --because.")
@click.option("--because", metavar="WHY", help="Why it replaces that one.")
@writes
def remember(
    asked: StoreOptions, *, text: str, session: str | None, scope: str | None, supersedes: int | None,
    because: str | None, **given: Any
) -> None:  # fmt: skip
    """Record TEXT as a memory of a session or a scope. A new session or scope is created."""
    if (supersedes is None) != (because is None):
        raise click.UsageError("--supersedes SEQ and --because WHY go together")
    _check_place(session, scope)
    if session is not None:
        _find(asked, session, None)
    with asked.open() as store:
        place = store.session(session) if session is not None else store.scope(str(scope))
        if supersedes is None:
            made = place.remember(text, **given)
        else:
            made = place.memory(supersedes).supersede(text, because=str(because), **given)
        _say_memory(asked, made.record, "remembered")


@command(
    "forget",
    "perdure forget 7 --scope project:acme --because 'it was wrong'",
    "perdure forget 12 --session issue-42 --because 'on request' --json",
)
@click.argument("seq", type=int)
@_session
@_scope
@arguments_of(verbs.forget, without=("because",))
@click.option("--because", metavar="WHY", required=True, help="Why.")
@writes
def forget(
    asked: StoreOptions, *, seq: int, session: str | None, scope: str | None, because: str, **given: Any
) -> None:
    """Hide memory SEQ from recall and search. Its text stays in the log."""
    _check_place(session, scope)
    _find(asked, session, scope)
    with asked.open() as store:
        place = store.session(session) if session is not None else store.scope(str(scope))
        _say_memory(asked, place.memory(seq).forget(because, **given).record, "forgotten")


@command(
    "memories",
    "perdure memories --kind rule",
    "perdure memories --scope user:alice --all --json",
    "perdure memories --unread --since 30d",
)
@_session
@_scope
@filtered_by(MemoryFilters)
@reads
def memories(
    asked: StoreOptions, *, session: str | None, scope: str | None, status: str, everything: bool, **filters: Any
) -> None:
    """List memories, newest first: of a session, a scope, or everywhere."""
    filters["status"] = None if everything else status
    with asked.open() as store:
        place = _place(store, session, scope)
        if place is None:
            found = store.memories(**filters)
        else:
            wrong = [name for name in ("actor", "since", "until") if filters.pop(name) is not None]
            if wrong:
                raise click.UsageError(f"--{wrong[0]} does not go together with --session or --scope")
            found = place.memories(**filters)
        say_page(records(found), MEMORY_COLUMNS, as_json=asked.as_json, what="memories", filtered=is_filtered(filters))


@command(
    "recall",
    "perdure recall 'how do I run the tests?' --session issue-42",
    "perdure recall theme --scope user:alice -k 3 --json",
    "perdure recall tests --at 30d",
)
@click.argument("query")
@_session
@_scope
@click.option(
    "-k", "k", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="At most so many."
)
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in MemoryKind]), help="Only of this kind."
)
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Only those with this tag.")
@click.option("--about", multiple=True, metavar="NAME", help="Only those about this subject.")
@click.option("--at", metavar="WHEN", help="Search as of then: an age (7d) or an instant.")
@click.option("--since", metavar="WHEN", help="Only those written down since.")
@writes
def recall(
    asked: StoreOptions, *, query: str, session: str | None, scope: str | None, kinds: tuple[str, ...], **given: Any
) -> None:
    """Find the memories that answer QUERY best: of a session and the scopes that it reads, of a scope, or of all."""
    _find(asked, session, scope)
    with searchable(asked) as store:
        place = _place(store, session, scope) or store
        hits = place.recall(query, kinds=kinds or None, **given)
        shown = [
            {"memory": record_of(hit.memory), "score": hit.score, "standing": hit.standing, "why": hit.why}
            for hit in hits
        ]
        say_page(Page(shown, damaged=hits.damaged), HIT_COLUMNS, as_json=asked.as_json, what="memories", filtered=True)
        _say_incomplete(hits)


@command(
    "search",
    "perdure search Safari --since 7d",
    "perdure search 'login fails' --kind turn --kind decision --session issue-42",
    "perdure search timeout --kind result --about user:alice",
    "perdure search theme --scope project:acme --tag ui",
    "perdure search v1.2.3 --json",
)
@click.argument("query")
@filtered_by(SearchFilters, without=("actor",))
@click.option("--by", "speaker", metavar="NAME", help="Only what this actor said or did.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="At most so many."
)
@writes
def search(
    asked: StoreOptions, *, query: str, kinds: tuple[str, ...], scopes: tuple[str, ...], speaker: str | None, **given: Any
) -> None:  # fmt: skip
    """Find what was said, decided, done and remembered that shares words with QUERY, best first.

    Options for lists are given once for each value. --session and --scope say where to look: what stands in any of them is
    found. With several --tag or --about, only what has all of them is.
    """
    with searchable(asked) as store:
        found = store.search(query, kinds=kinds or None, scopes=scopes or None, actor=speaker, **given)
        say_page(
            Page(found, damaged=found.damaged), FOUND_COLUMNS, as_json=asked.as_json, what="results", filtered=True
        )
        _say_incomplete(found)


@command("index", "perdure index", "perdure index --follow", "perdure index --json")
@click.option("--follow", is_flag=True, help="Continue as things are said, until it is stopped.")
@writes
def index(asked: StoreOptions, *, follow: bool) -> None:
    """Index everything that was said, and make missing vectors, so that no search has to wait for it.

    It can be stopped at any time; the next one continues. Vectors need the extra `embed`; without it only words are indexed.
    """
    with asked.open() as store:
        cursor = store.feed_end()
        _say_indexed(asked, _indexed(store))
        while follow:
            page = store.feed(cursor, limit=1_000, wait=FOLLOW_WAIT)
            cursor = page.next
            if page:
                _indexed(store)


def _indexed(store: Store) -> Any:
    from perdure.cli.progress import progress  # noqa: PLC0415 - only where something takes long

    with progress("index") as step:
        return store.index(lambda _what, done, total: step(done, total))


def _say_indexed(asked: StoreOptions, indexed: Any) -> None:
    if asked.as_json:
        say_json(indexed)
        return
    say_facts({"texts": indexed.texts, "vectors": indexed.vectors, "embedding": indexed.embedding or "none"})


def searchable(asked: StoreOptions) -> Store:
    """The store, open for writing its index; where nothing can be written, for reading alone."""
    try:
        return asked.open()
    except ReadOnly:
        return StoreOptions(asked.store, asked.tenant, as_json=asked.as_json).open()


def _check_place(session: str | None, scope: str | None) -> None:
    if (session is None) == (scope is None):
        raise click.UsageError("say where: --session NAME or --scope NAME")


def _place(store: Store, session: str | None, scope: str | None) -> Session | Scope | None:
    if session is not None and scope is not None:
        raise click.UsageError("--session and --scope do not go together")
    if session is not None:
        return find_session(store, session)
    return None if scope is None else _find_scope(store, scope)


def _find(asked: StoreOptions, session: str | None, scope: str | None) -> None:
    """See that it is there, with a store that cannot make it."""
    with StoreOptions(asked.store, asked.tenant, as_json=asked.as_json).open() as store:
        _place(store, session, scope)


def _find_scope(store: Store, name: str) -> Scope:
    try:
        return store.scope(name)
    except ReadOnly:
        raise NotFound(
            f"there is no scope {name!r}", path="scope", hint="`perdure memories` shows the scopes that there are"
        ) from None


def _say_memory(asked: StoreOptions, record: Any, what: str) -> None:
    if asked.as_json:
        say_json(record)
        return
    say_facts({"memory": record.text, "kind": record.kind, "scope": record.scope, "seq": record.seq})
    note(what)


_BY_WORDS = {
    ByVectors.OFF: "found by words alone: no embedding is installed (pip install 'perdure[embed]')",
    ByVectors.SOME: "not everything has its vector yet: `perdure index` makes them",
    ByVectors.UNREAD: "found by words alone: the embedding does not know the language of the query",
    ByVectors.FAILED: "found by words alone: the embedding failed",
}


def _say_incomplete(found: Any) -> None:
    if found.vectors in _BY_WORDS:
        note(_BY_WORDS[found.vectors])
    if not found.complete:
        note("the store can only be read: what was said since the last search is not among this")
