"""The edits on a page as recorded changes: the ordinary verbs, in one transaction, or nothing. Callers: the command line.

A page says at which event it was made; what it said then is folded from the log and compared. A change by somebody else since
then is a Conflict that names it. An edit that is there already, because the page was applied before, is passed over: applying
twice changes nothing, after a crash too. One event (`view.applied`) says what was taken from the page. Keeps P5, P9, P15.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import Conflict, Error, Invalid, NotFound
from perdure.log.change import Stream
from perdure.model.limits import REFS_MAX
from perdure.planes.audit import history
from perdure.planes.conversation import emitted, sessions
from perdure.planes.execution import decisions, tasks
from perdure.planes.memory import values
from perdure.stores.core import Core
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx
from perdure_files.store.folder_access import Within
from perdure_files.store.page_digest import content
from perdure_files.views import page
from perdure_files.views.edits import VERBS, Edit, compare, list_of, number_of, value_of
from perdure_files.views.gather import gather, short
from perdure_files.views.page_keeper import keep, layout_of
from perdure_files.views.view import PageHead, SessionPage

APPLIED = "view.applied"
_LINE = re.compile(r"line (\d+)(.*)")
_SHOWN_MAX = 1000


class Applied(msgspec.Struct, frozen=True):
    """The outcome of a page. changes: one sentence each; none when everything was there already."""

    session: str
    event: int
    changes: list[str]


def apply_view(core: Core, tenant: int, actor: str, path: Path, *, dry_run: bool = False) -> Applied:
    """Record what was changed on a page, and bring the page up to date. Atomic; repeating it changes nothing.

    Raises Invalid (with file and line), Conflict (something moved since the page was made), NotFound (no such session);
    nothing is recorded then. dry_run: only say what would be.
    """
    data = content(path, _within(core, path))
    if data is None:
        hint = "check the path; `perdure views SESSION --to FOLDER` writes a page"
        raise NotFound(f"there is no file {path}", path="view", hint=hint)
    page.check_name(path.name)
    try:
        edited = page.read(data)
        stream = core.read(_stream, edited.head, tenant=tenant)
        base = _base(core, tenant, stream, edited.head)
        done = _run(core, tenant, actor, stream, compare(base, edited), base, dry_run=dry_run)
    except Error as error:
        match = _LINE.fullmatch(error.path)
        error.path = f"{path}:{match[1]}{match[2]}" if match else error.path
        raise
    if not dry_run:
        _refresh(core, tenant, stream, path, data)
    return Applied(stream.name, edited.head.seq, done)


# -- what the page was made from -------------------------------------------------------------------------------------


def _stream(reads: Reads, head: PageHead) -> Stream:
    rows = reads.query(LOG.stream_by_uid, uid=bytes.fromhex(head.uid), tenant=reads.tenant)
    streams = [Stream(*row) for row in rows]
    if not streams or streams[0].kind != "session":
        raise NotFound(
            f"this store has no session {head.session!r}", path="view", hint="is this the store of that page?"
        )
    return streams[0]


def _base(core: Core, tenant: int, stream: Stream, head: PageHead) -> SessionPage:
    """The content of the page when it was made. Conflict if the log has no such event (any more)."""
    now = core.read(gather, stream, tenant=tenant)
    if now.head == head:
        return now
    if head.seq > now.head.seq or core.read(_hash_at, stream, head.seq, tenant=tenant) != head.hash:
        message = f"the page is of event {head.seq} of another history of {head.session!r}"
        raise Conflict(
            message, path="view", hint="`perdure views --discard FILE` makes it anew; keep a copy of your edits"
        )
    past = core.read(history.view, stream, head.seq, core, tenant=tenant)
    return msgspec.structs.replace(past.core.read(gather, past.stream, tenant=past.tenant), head=head)


def _hash_at(reads: Reads, stream: Stream, seq: int) -> str:
    return short(history.point(reads, stream, seq).hash) if seq else ""


# -- the transaction -------------------------------------------------------------------------------------------------


def _run(
    core: Core, tenant: int, actor: str, stream: Stream, edits: list[Edit], base: SessionPage, *, dry_run: bool
) -> list[str]:
    if dry_run:
        due = core.read(still_to_do, stream, edits, base.head.seq, tenant=tenant)
        _rehearse(core, tenant, actor, stream, [edit for edit in due if not _is_held(edit)])
        return [_says(edit) for edit in due]
    if not edits:
        return []
    return core.write(record, stream, edits, base.head.seq, actor=actor, tenant=tenant)


def _is_held(edit: Edit) -> bool:
    """Whether it is about a task that somebody had: a store of the past does not know whether the holder is alive."""
    return edit.section == "tasks" and edit.before is not None and edit.before["status"] == "doing"


def _rehearse(core: Core, tenant: int, actor: str, stream: Stream, edits: list[Edit]) -> None:
    """Do them in a copy of the session that nobody keeps: what a verb refuses is refused by a dry run, too."""
    if edits:
        here = core.read(history.now_in, stream, core, tenant=tenant)
        here.core.write(lambda tx: [_do(tx, here.stream, edit) for edit in edits], actor=actor, tenant=here.tenant)


def record(tx: Tx, stream: Stream, edits: list[Edit], seq: int) -> list[str]:
    """The verb: every edit, or nothing. Returns what was done."""
    due = still_to_do(tx, stream, edits, seq)
    if not due:
        return []
    results = [_do(tx, stream, edit) for edit in due]
    data = {
        "event": seq,
        "changes": [_says(edit) for edit in due],
        "added": [[edit.section, edit.after] for edit in due if edit.before is None],
    }
    refs = [ref for ref in results if ref is not None][:REFS_MAX]
    emitted.emit(tx, stream, APPLIED, data, refs=refs)
    return data["changes"]


def still_to_do(reads: Reads, stream: Stream, edits: list[Edit], seq: int) -> list[Edit]:
    """The edits that are not there yet. Conflict for what has moved since the page was made."""
    now = gather(reads, stream)
    added = _added_since(reads, stream, seq)
    due: list[Edit] = []
    for edit in edits:
        if edit.before is None:
            thing = [edit.section, edit.after]
            if thing in added:
                added.remove(thing)
            else:
                due.append(edit)
        elif not _is_there(edit, _now(now, edit)):
            _check_unmoved(edit, _now(now, edit))
            due.append(edit)
    return due


def _added_since(reads: Reads, stream: Stream, seq: int) -> list[list[Any]]:
    """The things that earlier applications of this page have added: it may have been saved, or applied, once more."""
    events = emitted.events(reads, stream, after=seq, kind=APPLIED, limit=_SHOWN_MAX)
    all_data = [event.data for event in events if isinstance(event.data, dict) and event.data.get("event") == seq]
    return [thing for data in all_data if isinstance(data.get("added"), list) for thing in data["added"]]


def _now(view: SessionPage, edit: Edit) -> dict[str, str]:
    if edit.section == "goal":
        return {name: text for name, text in view.about.items() if name == "goal"}
    by = {"values": "name"}.get(edit.section, "id")
    return next((thing.fields for thing in view.things[edit.section] if thing.fields[by] == edit.id), {})


def _is_there(edit: Edit, now: dict[str, str]) -> bool:
    """Whether it is as the page wants it."""
    match edit.section:
        case "goal":
            return now == edit.after
        case "tasks":
            return (now.get("status"), now.get("note")) == (edit.after["status"], edit.after.get("note"))
        case "decisions":
            return (now.get("outcome"), now.get("note")) == (edit.after["outcome"], edit.after.get("note"))
    return now.get("value") == edit.after["value"]


def _check_unmoved(edit: Edit, now: dict[str, str]) -> None:
    before = edit.before or {}
    if now == before:
        return
    names = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    message = f"{edit.what} has changed since the page was made ({', '.join(names)})"
    hint = "copy your edit, perdure views --discard FILE, and edit the new page"
    raise Conflict(message, path=f"line {edit.line}", hint=hint, **({"now": now} if now else {}))


def _do(tx: Tx, stream: Stream, edit: Edit) -> Any:
    """One edit as a verb. Returns what others may refer to. A refusal of the verb is told with the line."""
    try:
        return _VERBS[edit.section](tx, stream, edit)
    except Error as error:
        error.path = f"line {edit.line} {error.path}".rstrip()
        raise


def _do_goal(tx: Tx, stream: Stream, edit: Edit) -> None:
    sessions.set_goal(tx, stream, edit.after.get("goal"))


def _do_task(tx: Tx, stream: Stream, edit: Edit) -> Any:
    if edit.before is not None:
        verb = VERBS[edit.before["status"], edit.after["status"]]
        note = edit.after.get("note")
        return tasks.move(tx, stream, int(edit.id), verb, note=None if note == edit.before.get("note") else note)
    return tasks.add(
        tx,
        stream,
        edit.after["title"],
        needs=list_of(edit, "needs"),
        parent=number_of(edit, "parent"),
        priority=number_of(edit, "priority") or 0,
        labels=_texts(edit, "labels"),
    )


def _do_decision(tx: Tx, stream: Stream, edit: Edit) -> Any:
    after = edit.after
    if edit.before is not None:
        return decisions.close(tx, stream, int(edit.id), after["outcome"], note=after.get("note"))
    tags = _texts(edit, "tags")
    return decisions.decide(tx, stream, after["text"], because=after["because"], then=after.get("then"), tags=tags)


def _texts(edit: Edit, name: str) -> list[str]:
    items = list_of(edit, name)
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) != len(items):
        raise Invalid(f'{name} is a list of texts, as in ["one", "two"]')
    return texts


def _do_value(tx: Tx, stream: Stream, edit: Edit) -> None:
    expect = 0 if edit.before is None else int(edit.before["version"])
    values.put(tx, stream, edit.id or edit.after["name"], value_of(edit), expect=expect)


_VERBS: dict[str, Callable[[Tx, Stream, Edit], Any]] = {
    "goal": _do_goal,
    "tasks": _do_task,
    "decisions": _do_decision,
    "values": _do_value,
}


def _says(edit: Edit) -> str:
    """A change in words, for people."""
    after = edit.after
    if edit.before is None:
        return f"new {edit.what}: {after.get('title') or after.get('text') or after.get('name')}"
    match edit.section:
        case "goal":
            return f"goal: {after.get('goal', '(none)')}"
        case "tasks":
            return f"{edit.what}: {edit.before['status']} → {after['status']}"
        case "decisions":
            return f"{edit.what} closed: {after['outcome']}"
    return f"{edit.what}: {edit.before.get('value')} → {after['value']}"


def _within(core: Core, path: Path) -> Within:
    """A page below the folder of the store is reached as all that lies there; the folder of another is the user's choice."""
    layout = layout_of(core.engine.url)
    inside = layout is not None and path.is_relative_to(layout.folder)
    return layout.within if layout is not None and inside else Within(path.parent)


# -- afterwards ------------------------------------------------------------------------------------------------------


def _refresh(core: Core, tenant: int, stream: Stream, path: Path, data: bytes) -> None:
    """The page as it is now, unless somebody edited it again meanwhile."""
    within = _within(core, path)
    if content(path, within) == data:
        view = core.read(gather, stream, tenant=tenant)
        partial = path.with_name(f".{path.name}.partial")
        within.place(path, page.render(view), partial, durable=False)
    if layout_of(core.engine.url) is not None:
        keep(core, tenant)
