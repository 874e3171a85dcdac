"""The page for people: Markdown, read line by line and strictly. Pure. Callers: `forms`.

- [ ] **7** Write the test           a thing: its state, its number (a new one has none), its text
  - priority: 2                      a field of it
  - note:                            a text of several lines stands in lines that begin with >
    > First line
"""

from __future__ import annotations

import re

from perdure_files.views.escapes import for_markdown, unescaped
from perdure_files.views.view import ABOUT, SECTIONS, Holds, PageThing, SessionPage, ordered, wrong

BOXES = {" ": "todo", ">": "doing", "!": "blocked", "x": "done", "-": "cancelled", "~": "failed"}
BOXES_SAID = ", ".join(f"[{box}] {status}" for box, status in BOXES.items())
HEADINGS = {"goal": "Goal", "decisions": "Decisions", "tasks": "Tasks", "values": "Values", "events": "Recent events"}
_BOX_OF = {status: box for box, status in BOXES.items()}
_SECTION_OF = {heading: name for name, heading in HEADINGS.items()}
_PLAIN_NAME = re.compile(r"[\w./:@-]+")
_VALUE = re.compile(r'- ("(?:[^"\\]|\\.)*"|\S+)(?: v(\d+))?(?: = (\S.*)| \((\d+) bytes\))')
_TASK = re.compile(r"- \[(.)\](?: \*\*(\d+)\*\*)?(?: (.*))?")
_DECISION = re.compile(r"-(?: \*\*(\d+)\*\* (\w+):)?(?: (.*))?")
_EVENT = re.compile(r"- (\d+) · (\S+) · (.*?) · (\S+?):(?: (.*))?")
_FIELD = re.compile(r"( *)- ([a-z]+):(?: (.*))?")
_QUOTE = re.compile(r" *>(?: (.*))?")


# -- writing ---------------------------------------------------------------------------------------------------------


def lines_of(view: SessionPage) -> list[str]:
    """The page, line by line."""
    about = [_field(name, view.about[name], ABOUT[name], "") for name in ABOUT if name in view.about and name != "goal"]
    goal = view.about.get("goal")
    goal_lines = [] if goal is None else [*_quotes(goal, ""), ""]
    page = [f"# {for_markdown(view.head.session)}", "", *_flat(about), "", f"## {HEADINGS['goal']}", "", *goal_lines]
    for section in SECTIONS:
        things = [line for thing in view.things.get(section, []) for line in _lines(section, thing)]
        page += [f"## {HEADINGS[section]}", "", *things, *([""] if things else [])]
    return page


def _flat(blocks: list[list[str]]) -> list[str]:
    return [line for block in blocks for line in block]


def _lines(section: str, thing: PageThing) -> list[str]:
    first, names = _FIRST[section](thing.fields)
    fields = SECTIONS[section].fields
    rest = [_field(name, text, fields[name], "  ") for name, text in ordered(thing.fields, fields) if name not in names]
    return [*first, *_flat(rest)]


def _field(name: str, text: str, holds: Holds, indent: str) -> list[str]:
    if holds is Holds.TEXT:
        return _text(f"{indent}- {name}:", text, f"{indent}  ")
    return [f"{indent}- {name}: {text}"]


def _text(prefix: str, text: str, indent: str) -> list[str]:
    return [prefix, *_quotes(text, indent)] if "\n" in text or not text else [f"{prefix} {for_markdown(text)}"]


def _quotes(text: str, indent: str) -> list[str]:
    return [f"{indent}> {for_markdown(line)}".rstrip(" ") for line in text.split("\n")]


def _decision_line(fields: dict[str, str]) -> tuple[list[str], set[str]]:
    number = f" **{fields['id']}** {fields['status']}:" if "id" in fields else ""
    return _text(f"-{number}", fields["text"], "  "), {"id", "status", "text"}


def _task_line(fields: dict[str, str]) -> tuple[list[str], set[str]]:
    number = f" **{fields['id']}**" if "id" in fields else ""
    names = {"id", "status", "title"}
    return [f"- [{_BOX_OF[fields['status']]}]{number} {for_markdown(fields['title'])}"], names


def _value_line(fields: dict[str, str]) -> tuple[list[str], set[str]]:
    name = fields["name"]
    called = name if _PLAIN_NAME.fullmatch(name) else f'"{for_markdown(name, chr(34))}"'
    value = fields.get("value")
    content = f"({fields['bytes']} bytes)" if value is None else f"= {value}"
    version = f" v{fields['version']}" if "version" in fields else ""
    return [f"- {called}{version} {content}"], set(SECTIONS["values"].fields)


def _actor(name: str) -> str:
    return for_markdown(name).replace("·", "\\u{b7}")  # the mark between the parts of a line


def _event_line(fields: dict[str, str]) -> tuple[list[str], set[str]]:
    start = f"- {fields['seq']} · {fields['at']} · {_actor(fields['actor'])} · {fields['kind']}:"
    says = fields.get("says")
    return [start if says is None else f"{start} {for_markdown(says)}"], set(SECTIONS["events"].fields)


_FIRST = {"decisions": _decision_line, "tasks": _task_line, "values": _value_line, "events": _event_line}


# -- reading ---------------------------------------------------------------------------------------------------------


class _Reading:
    """The parts read so far, and where a line of text would go."""

    def __init__(self) -> None:
        self.about: dict[str, str] = {}
        self.things: dict[str, list[PageThing]] = {name: [] for name in SECTIONS}
        self.section = "about"
        self.seen: set[str] = set()
        self.into: dict[str, str] = self.about
        self.open = ""  # the text that lines with > continue
        self.is_first = False

    def put(self, name: str, text: str, line: int) -> None:
        """A field of the thing that was begun last."""
        if name in self.into:
            raise wrong(line, f"{name} stands here twice")
        self.into[name] = text

    def begin(self, name: str) -> None:
        """A text of several lines."""
        self.open, self.is_first = name, True

    def quote(self, text: str, line: int) -> None:
        """One more line of it."""
        if not self.open:
            raise wrong(
                line, "no text is open that this line could continue", "it stands below its name, as in - note:"
            )
        before = "" if self.is_first else f"{self.into[self.open]}\n"
        self.into[self.open] = f"{before}{text}"
        self.is_first = False


def read_lines(lines: list[tuple[int, str]]) -> tuple[dict[str, str], dict[str, list[PageThing]]]:
    """Read a page's statements about the session, and the things on it. Raises Invalid with the line of what cannot be read."""
    reading = _Reading()
    for number, line in lines:
        text = line.rstrip(" ")
        is_comment = text.startswith("<!--") and text.endswith("-->")
        is_title = text.startswith("# ") and reading.section == "about"
        if text and not is_comment and not is_title:
            _read(reading, number, text)
    return reading.about, reading.things


def _read(reading: _Reading, number: int, text: str) -> None:
    if text.startswith("## "):
        return _heading(reading, number, text[3:])
    quote = _QUOTE.fullmatch(text)
    if quote:
        return reading.quote(unescaped(quote[1] or "", number), number)
    reading.open = ""
    inside = text.startswith(" ")
    if reading.section == "about" or inside:
        return _read_field(reading, number, text)
    if reading.section == "goal":
        raise wrong(number, "the goal stands in lines that begin with >")
    fields, opened = _THINGS[reading.section](number, text)
    reading.things[reading.section].append(PageThing(fields, number))
    reading.into = fields
    return reading.begin(opened) if opened else None


def _heading(reading: _Reading, number: int, heading: str) -> None:
    name = _SECTION_OF.get(heading.strip())
    if name is None or name in reading.seen:
        raise wrong(number, "there is no such section, or it is here twice", f"they are {', '.join(_SECTION_OF)}")
    reading.seen.add(name)
    reading.section, reading.open = name, ""
    if name == "goal":
        reading.into = reading.about
        reading.begin("goal")
    else:
        reading.into = {}


def _read_field(reading: _Reading, number: int, text: str) -> None:
    match = _FIELD.fullmatch(text)
    fields = ABOUT if reading.section in ("about", "goal") else SECTIONS[reading.section].fields
    if match is None or reading.section == "goal":
        raise wrong(number, "this line cannot be read", "a field stands as in   - note: text")
    if reading.section != "about" and not reading.things[reading.section]:
        raise wrong(number, "this field belongs to nothing")
    name = match[2]
    if name not in fields or name == "goal":
        raise wrong(number, f"there is no field {name!r} here", f"there are {', '.join(fields)}")
    text = match[3] or ""
    reading.put(name, unescaped(text, number) if fields[name] is Holds.TEXT else text.strip(), number)
    if fields[name] is Holds.TEXT and not text.strip():
        reading.begin(name)


def _read_decision(number: int, text: str) -> tuple[dict[str, str], str]:
    match = _DECISION.fullmatch(text)
    if match is None:
        raise wrong(number, "a decision stands as in - **3** open: text", "a new one as in - text")
    fields = {} if match[1] is None else {"id": match[1], "status": match[2]}
    words = match[3] or ""
    return fields | {"text": unescaped(words, number)}, "" if words.strip() else "text"


def _read_task(number: int, text: str) -> tuple[dict[str, str], str]:
    match = _TASK.fullmatch(text)
    if match is None or match[1] not in BOXES:
        raise wrong(
            number, "a task stands as in - [ ] **7** title", f"the boxes are {BOXES_SAID}; a new one has no number"
        )
    fields = {} if match[2] is None else {"id": match[2]}
    return fields | {"status": BOXES[match[1]], "title": unescaped(match[3] or "", number)}, ""


def _read_value(number: int, text: str) -> tuple[dict[str, str], str]:
    match = _VALUE.fullmatch(text)
    if match is None:
        raise wrong(number, "a value stands as in - name v3 = JSON", "text stands in quotes; a new one has no version")
    name = unescaped(match[1][1:-1], number) if match[1].startswith('"') else match[1]
    fields = {"name": name, "version": match[2], "value": match[3], "bytes": match[4]}
    return {key: value for key, value in fields.items() if value is not None}, ""


def _read_event(number: int, text: str) -> tuple[dict[str, str], str]:
    match = _EVENT.fullmatch(text)
    if match is None:
        raise wrong(number, "this is no event", "events cannot be edited")
    fields = {"seq": match[1], "at": match[2], "actor": unescaped(match[3], number), "kind": match[4]}
    return fields | ({} if match[5] is None else {"says": unescaped(match[5], number)}), ""


_THINGS = {"decisions": _read_decision, "tasks": _read_task, "values": _read_value, "events": _read_event}
