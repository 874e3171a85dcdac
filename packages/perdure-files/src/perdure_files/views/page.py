"""A whole file: its head, its lines, its seal. Pure: the same view, the same bytes. Callers: `folder`, `page_keeper`, `apply`.

The first line says which session, and as of which event; the last one is the seal (`stores.files.page_digest`).
"""

from __future__ import annotations

import re

from perdure.errors import Invalid, TooLarge
from perdure_files.store.page_digest import COMMENT, ONCE_WRITTEN, sealed
from perdure_files.views import markdown
from perdure_files.views.escapes import quoted, unquoted
from perdure_files.views.view import FORMAT, PageHead, SessionPage, wrong

FILE_MAX_BYTES = 16 * 1024 * 1024
SAYS = f"boxes: {markdown.BOXES_SAID}; edited by hand? `perdure apply FILE` records the changes"
_HEAD = re.compile(
    r'<!-- perdure view (\d+) of ("(?:[^"\\]|\\.)*") uid ([0-9a-f]{32}) at event (\d+) ([0-9a-f]{16}) -->'
)


def check_name(name: str) -> None:
    """Refuse the file of an ending that no page has. Raises Invalid."""
    ending = name.rpartition(".")[2].lower()
    if ending in (*ONCE_WRITTEN, "yml"):
        hint = "edit the page of the session that ends in .md, and apply that one"
        raise Invalid("views in YAML and TSV are no longer read", path=name, hint=hint)
    if ending != "md":
        raise Invalid("a view ends in .md", path=name)


def render(view: SessionPage) -> bytes:
    """The file of a view."""
    head = view.head
    says = f"perdure view {FORMAT} of {quoted(head.session)} uid {head.uid} at event {head.seq} {head.hash}"
    first = COMMENT.format(says.replace("<", "\\u003c").replace(">", "\\u003e"))
    return sealed([first, COMMENT.format(SAYS), "", *markdown.lines_of(view)])


def head_of(text: str) -> PageHead:
    """The head of a page. Raises Invalid."""
    match = _HEAD.fullmatch(text.partition("\n")[0].rstrip())
    if match is None:
        raise wrong(1, "this is no view of a session: its first line does not say so", "leave that line as it was")
    if match[1] != str(FORMAT):
        raise wrong(1, f"a view of format {match[1]}; this version reads {FORMAT}")
    return PageHead(unquoted(match[2], 1), match[3], int(match[4]), match[5])


def read(data: bytes) -> SessionPage:
    """A page as a view. Raises Invalid with the line of what cannot be read, or TooLarge."""
    if len(data) > FILE_MAX_BYTES:
        raise TooLarge(f"{len(data)} bytes, at most {FILE_MAX_BYTES} are read", path="view")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise wrong(data[: error.start].count(b"\n") + 1, "this is not UTF-8") from None
    lines = list(enumerate(text.split("\n"), 1))
    return SessionPage(head_of(text), *markdown.read_lines(lines[1:]))
