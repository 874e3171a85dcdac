"""The edits of a person on a page, found by comparing it with what the page said when it was made. Pure. Callers: `apply`.

Only what the planes have a verb for is an edit: the goal; the state of a task, with a note; a decision's outcome; a value; and
new tasks, decisions and values, which have no number. Everything else is Invalid, with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from perdure.errors import Error, Invalid
from perdure.model.values import decode
from perdure_files.views.view import SECTIONS, PageThing, SessionPage, wrong

NEW: dict[str, set[str]] = {
    "tasks": {"status", "title", "priority", "parent", "needs", "labels"},
    "decisions": {"status", "text", "because", "then", "tags"},
    "values": {"name", "value"},
    "events": set(),
}
MAY_CHANGE = {
    "tasks": {"status", "note"},
    "decisions": {"status", "outcome", "note"},
    "values": {"value"},
    "events": set(),
}
FIRST_STATUS = {"tasks": "todo", "decisions": "open"}
# how a task comes from one state to another by hand
VERBS = {
    ("blocked", "todo"): "unblock",
    ("failed", "todo"): "reopen",
    ("cancelled", "todo"): "reopen",
    **{(start, end): verb for start in ("todo", "doing", "blocked")
       for end, verb in (("done", "done"), ("failed", "fail"), ("cancelled", "cancel"))},
    **{(start, "blocked"): "block" for start in ("todo", "doing")},
}  # fmt: skip


class Edit(msgspec.Struct, frozen=True):
    """One change. section: "goal", or that of the thing. id: its name, if it is not new. before: as the page had it."""

    section: str
    id: str
    after: dict[str, str]
    before: dict[str, str] | None
    line: int

    @property
    def what(self) -> str:
        """Its subject, for people."""
        one = "goal" if self.section == "goal" else SECTIONS[self.section].one
        return f"{one} {self.id}".strip()


def compare(base: SessionPage, page: SessionPage) -> list[Edit]:
    """The edits on a page. Raises Invalid for whatever cannot be one."""
    if base.head != page.head:
        raise wrong(1, "the first line was changed", "leave it as it was")
    edits = list(_about(base.about, page.about))
    for section in SECTIONS:
        edits += _section(section, base.things.get(section, []), page.things.get(section, []))
    return edits


def _about(base: dict[str, str], page: dict[str, str]) -> Iterator[Edit]:
    for name in (base.keys() | page.keys()) - {"goal"}:
        if base.get(name) != page.get(name):
            raise wrong(1, f"the {name} of a session cannot be changed on a page", "the goal can")
    if base.get("goal") != page.get("goal"):
        before, after = ({"goal": side["goal"]} if "goal" in side else {} for side in (base, page))
        yield Edit("goal", "", after, before, 1)


def _section(section: str, base: list[PageThing], page: list[PageThing]) -> Iterator[Edit]:
    by = SECTIONS[section].id
    before = {thing.fields[by]: thing.fields for thing in base}
    names: set[str] = set()
    for thing in page:
        name = thing.get(by)
        if name is not None and name in names:
            raise wrong(thing.line, f"{SECTIONS[section].one} {name} stands here twice")
        if name in before:
            names.add(name)
            yield from _changed(section, name, before[name], thing)
        else:
            yield _added(section, name, thing)
    for name in before.keys() - names:
        message = f"{SECTIONS[section].one} {name} was taken off the page"
        raise wrong(
            page[-1].line if page else 1, message, "nothing is deleted by hand: put the line back, or cancel a task"
        )


def _changed(section: str, name: str, before: dict[str, str], thing: PageThing) -> Iterator[Edit]:
    names = {field for field in before.keys() | thing.fields.keys() if _differs(section, field, before, thing.fields)}
    if not names:
        return
    _refuse(section, names - MAY_CHANGE[section], thing)
    edit = Edit(section, name, thing.fields, before, thing.line)
    _CHECKS[section](edit)
    yield edit


def _differs(section: str, name: str, before: dict[str, str], after: dict[str, str]) -> bool:
    if before.get(name) == after.get(name) or (section == "events" and name == "says" and name not in before):
        return False
    old, new = before.get(name), after.get(name)
    return name != "value" or old is None or new is None or _canonical(old) != _canonical(new)


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _refuse(section: str, names: set[str], thing: PageThing) -> None:
    if names:
        able = ", ".join(sorted(MAY_CHANGE[section])) or "nothing"
        raise wrong(
            thing.line,
            f"{', '.join(sorted(names))} of a {SECTIONS[section].one} cannot be changed by hand",
            f"{able} can",
        )


def _check_task(edit: Edit) -> None:
    assert edit.before is not None
    start, end = edit.before["status"], edit.after.get("status", "")
    if start == end:
        raise wrong(edit.line, "a note is said when a task is moved", "change its box too")
    if (start, end) not in VERBS:
        raise wrong(edit.line, f"a task that is {start} does not become {end or 'nothing'} by hand")
    if end == "blocked" and not edit.after.get("note"):
        raise wrong(edit.line, "a task is blocked by something", "say by what:   - note: …")


def _check_decision(edit: Edit) -> None:
    assert edit.before is not None
    if edit.before["status"] != "open":
        raise wrong(edit.line, f"a decision that is {edit.before['status']} stays as it is", "make a new one")
    if edit.after.get("status") not in ("open", "closed") or not edit.after.get("outcome", "").strip():
        raise wrong(edit.line, "a decision is closed with what came of it", "  - outcome: …")


def _check_value(edit: Edit) -> None:
    if "value" not in edit.after:
        raise wrong(edit.line, "a value stands as JSON")
    value_of(edit)


def _check_nothing(edit: Edit) -> None:
    raise wrong(edit.line, "this cannot be edited")


_CHECKS = {"tasks": _check_task, "decisions": _check_decision, "values": _check_value, "events": _check_nothing}


def _added(section: str, name: str | None, thing: PageThing) -> Edit:
    one = SECTIONS[section].one
    if name is not None and section != "values":
        raise wrong(thing.line, f"there was no {one} {name} on this page", "a new one has no number")
    odd = thing.fields.keys() - NEW[section]
    if odd or not NEW[section]:
        raise wrong(thing.line, f"a new {one} has no {', '.join(sorted(odd))}")
    first = FIRST_STATUS.get(section)
    if thing.fields.get("status", first) != first:
        raise wrong(thing.line, f"a new {one} is {first}")
    edit = Edit(section, "", {key: text for key, text in thing.fields.items() if key != "status"}, None, thing.line)
    _check_new(edit)
    return edit


def _check_new(edit: Edit) -> None:
    needed = {"tasks": ["title"], "decisions": ["text", "because"], "values": ["name", "value"]}[edit.section]
    missing = [name for name in needed if not edit.after.get(name)]
    if missing:
        raise wrong(edit.line, f"a new {SECTIONS[edit.section].one} needs its {missing[0]}")
    for name in ("priority", "parent"):
        number_of(edit, name)
    for name in ("needs", "labels", "tags"):
        list_of(edit, name)
    if edit.section == "values":
        value_of(edit)


# -- what fields stand for -------------------------------------------------------------------------------------------


def number_of(edit: Edit, name: str) -> int | None:
    """A number, or None if it is not there. Raises Invalid."""
    text = edit.after.get(name)
    if text is None:
        return None
    if not text.removeprefix("-").isdecimal() or len(text) > 11:
        raise wrong(edit.line, f"{name} is a whole number")
    return int(text)


def list_of(edit: Edit, name: str) -> list[object]:
    """A list; empty if it is not there. Raises Invalid."""
    text = edit.after.get(name)
    items = [] if text is None else _decoded(edit, text)
    if not isinstance(items, list):
        raise wrong(edit.line, f'{name} is a list, as in ["one", "two"]')
    return items


def value_of(edit: Edit) -> object:
    """The value that was written down as JSON. Raises Invalid."""
    return _decoded(edit, edit.after["value"])


def _decoded(edit: Edit, text: str) -> object:
    try:
        return decode(text.encode())
    except Error as error:
        message = f"this is no value: {error.message}"
        raise Invalid(message, path=f"line {edit.line}", hint="text stands in double quotes") from None
