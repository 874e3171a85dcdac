"""Views of any content: whatever a session may hold, and some of what it may not."""

from __future__ import annotations

from hypothesis import strategies as st

from perdure_files.views.escapes import json_line
from perdure_files.views.view import SECTIONS, Holds, PageHead, PageThing, SessionPage

ODD = [
    "",
    " ",
    "\n",
    "a\n\nb",
    "  two\n lines ",
    "- [x] **3** x",
    "## Tasks",
    "> q",
    "<!-- c -->",
    "a: b # c",
    "![x](y)",
    "=1",
]
ODD += [
    "\\u{41}",
    "\\",
    "\\n",
    "t\tt",
    "a\r\nb",
    "ציון",
    "\u202eabc",
    "e\u0301",
    "👩\u200d👩",
    "\u2028",
    "x" * 3000,
    '"q"',
    "|-",
]
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30) | st.sampled_from(ODD)
names = text.map(lambda said: "".join(each if each.isprintable() else "_" for each in said) or "n")
words = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | text, lambda inner: st.lists(inner, max_size=3), max_leaves=4
)
numbers = st.integers(1, 10**9).map(str)
NAMES = {"title", "name", "actor", "by"}
WORDS = {"id": numbers, "version": numbers, "seq": numbers, "bytes": numbers}
STATUS = {
    "decisions": ["open", "closed", "superseded"],
    "tasks": ["todo", "doing", "blocked", "done", "failed", "cancelled"],
}
ALWAYS = {
    "decisions": {"id", "status", "text"},
    "tasks": {"id", "status", "title"},
    "values": {"name", "version"},
    "events": {"seq", "at", "actor", "kind"},
}


@st.composite
def things(draw, section):
    fields = {}
    for name, holds in SECTIONS[section].fields.items():
        if name not in ALWAYS[section] and draw(st.booleans()):
            continue
        if holds is Holds.TEXT:
            fields[name] = draw(names if name in NAMES else text)
            if name == "says":
                fields[name] = " ".join(fields[name].split()) or "x"
        elif holds is Holds.JSON:
            fields[name] = json_line(draw(trees))
        else:
            fields[name] = draw(st.sampled_from(STATUS[section]) if name == "status" else WORDS.get(name, words))
    if section == "values":
        fields.pop("bytes" if "value" in fields else "value", None)
        fields.setdefault("value" if "bytes" not in fields else "bytes", "1")
    return PageThing(fields)


@st.composite
def views(draw):
    about = {"status": draw(words)}
    for name, made in (("title", text), ("goal", text), ("labels", trees.map(json_line))):
        if draw(st.booleans()):
            about[name] = draw(made)
    head = PageHead(draw(names), "0f" * 16, draw(st.integers(1, 10**6)), "ab" * 8)
    return SessionPage(head, about, {name: draw(st.lists(things(name), max_size=3)) for name in SECTIONS})
