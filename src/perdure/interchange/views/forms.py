"""A whole file: its head, its form, its seal. Pure: the same view, the same bytes. Callers: `folder`, `keeping`, `apply`.

The first line says which session, and as of which event; the last one is the seal (`stores.files.page_digest`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from perdure.errors import Invalid, TooLarge
from perdure.interchange.views import markdown, tsv, yaml
from perdure.interchange.views.escapes import quoted, unquoted
from perdure.interchange.views.view import FORMAT, PageHead, PageThing, SessionPage, wrong
from perdure.stores.files.page_digest import sealed

FILE_MAX_BYTES = 16 * 1024 * 1024
_HEAD = re.compile(
    r'(?:<!-- |# )perdure view (\d+) of ("(?:[^"\\]|\\.)*") uid ([0-9a-f]{32}) at event (\d+) ([0-9a-f]{16})(?: -->)?'
)

Read = Callable[[list[tuple[int, str]]], tuple[dict[str, str], dict[str, list[PageThing]]]]


class PageForm(NamedTuple):
    """One way to write a page."""

    ending: str
    comment: str
    lines_of: Callable[[SessionPage], list[str]]
    read_lines: Read
    says: str


_EDIT = "edited by hand? `perdure apply FILE` records the changes"
FORMS = {
    "md": PageForm(
        "md", "<!-- {} -->", markdown.lines_of, markdown.read_lines, f"boxes: {markdown.BOXES_SAID}; {_EDIT}"
    ),
    "yaml": PageForm("yaml", "# {}", yaml.lines_of, yaml.read_lines, _EDIT),
    "tsv": PageForm("tsv", "# {}", tsv.lines_of, tsv.read_lines, _EDIT),
}


def form_of(name: str) -> PageForm:
    """The form that a file's ending names. Raises Invalid."""
    ending = name.rpartition(".")[2].lower()
    found = FORMS.get("yaml" if ending == "yml" else ending)
    if found is None:
        raise Invalid("a view ends in .md, .yaml or .tsv", path=name)
    return found


def render(view: SessionPage, form: PageForm) -> bytes:
    """The file of a view."""
    head = view.head
    says = f"perdure view {FORMAT} of {quoted(head.session)} uid {head.uid} at event {head.seq} {head.hash}"
    first = form.comment.format(says.replace("<", "\\u003c").replace(">", "\\u003e"))
    return sealed([first, form.comment.format(form.says), *_spaced(form, view)], form.comment)


def _spaced(form: PageForm, view: SessionPage) -> list[str]:
    return ["", *form.lines_of(view)] if form.ending == "md" else form.lines_of(view)


def head_of(text: str) -> PageHead:
    """The head of a page. Raises Invalid."""
    found = _HEAD.fullmatch(text.partition("\n")[0].rstrip())
    if found is None:
        raise wrong(1, "this is no view of a session: its first line does not say so", "leave that line as it was")
    if found[1] != str(FORMAT):
        raise wrong(1, f"a view of format {found[1]}; this version reads {FORMAT}")
    return PageHead(unquoted(found[2], 1), found[3], int(found[4]), found[5])


def read(data: bytes, form: PageForm) -> SessionPage:
    """A page as a view. Raises Invalid with the line of what cannot be read, or TooLarge."""
    if len(data) > FILE_MAX_BYTES:
        raise TooLarge(f"{len(data)} bytes, at most {FILE_MAX_BYTES} are read", path="view")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise wrong(data[: error.start].count(b"\n") + 1, "this is not UTF-8") from None
    lines = list(enumerate(text.split("\n"), 1))
    return SessionPage(head_of(text), *form.read_lines(lines[1:]))
