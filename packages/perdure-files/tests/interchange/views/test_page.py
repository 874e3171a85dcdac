"""A view as a page: the same comes back, whatever it holds; the same view, the same bytes; what is no page is Invalid."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interchange.views.generated import views
from perdure.errors import Error
from perdure_files.store.page_digest import is_untouched
from perdure_files.views import page as pages

ANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@ANY
@given(view=views())
def test_what_is_rendered_is_read_back_and_is_clean(view):
    check_read_back(view)
    check_clean(view)


def check_read_back(view):
    data = pages.render(view)
    assert pages.read(data).same_as(view)
    assert data == pages.render(view)
    assert is_untouched(data)
    assert is_untouched(data.replace(b"\n", b"\r\n"))
    assert pages.read(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")).same_as(view)


@settings(ANY, max_examples=30)
@given(view=views())
def test_a_renderer_that_loses_a_task_is_caught(view):
    """The control of the one above: any view with a task shows it."""
    if view.things["tasks"]:
        assert not pages.read(pages.render(_without_last_task(view))).same_as(view)


def _without_last_task(view):
    return pages.SessionPage(view.head, view.about, view.things | {"tasks": view.things["tasks"][:-1]})


def check_clean(view):
    """No control characters, and no blanks at the ends of lines."""
    text = pages.render(view).decode()
    assert all(each.isprintable() or each in "\n\u200c\u200d" for each in text)
    assert not any(line.endswith(" ") for line in text.split("\n"))


@ANY
@given(data=st.data())
def test_a_damaged_page_is_read_or_refused_and_known_as_edited(data):
    view = data.draw(views())
    check_damaged(pages.render(view), data)


def check_damaged(page, data):
    at = data.draw(st.integers(0, len(page) - 1))
    changed = page[:at] + data.draw(st.binary(max_size=6)) + page[at + data.draw(st.integers(0, 20)) :]
    same = changed.replace(b"\r\n", b"\n").rstrip(b"\n") == page.rstrip(b"\n")
    assert is_untouched(changed) == same or not same
    assert _place(changed).startswith("line ")


def _place(page):
    """Where it cannot be read; a page that can be has no such place."""
    try:
        pages.read(page)
    except Error as error:
        return error.path
    return "line 0"


def test_bytes_that_are_no_page():
    for data in (b"", b"\xff\xfe", b"# hello\n", b"perdure view 1"):
        assert not is_untouched(data)
        with pytest.raises(Error):
            pages.read(data)
