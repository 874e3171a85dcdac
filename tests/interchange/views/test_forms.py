"""A view in three forms: the same comes back, whatever it holds; the same view, the same bytes; what is no page is Invalid."""

from __future__ import annotations

import pytest
import yaml as real_yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interchange.views.generated import views
from perdure.errors import Error
from perdure.interchange.views import forms
from perdure.interchange.views.forms import FORMS
from perdure.stores.files.page_digest import is_untouched

ANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


# Views take longer to make than to render: each is shown in every form, and everything is asked of it.


@ANY
@given(view=views())
def test_what_is_rendered_is_read_back_is_clean_and_is_yaml_where_it_is_called_so(view):
    for form in FORMS.values():
        check_read_back(form, view)
        check_clean(form, view)
    check_yaml(view)


def check_read_back(form, view):
    data = forms.render(view, form)
    assert forms.read(data, form).same_as(view)
    assert data == forms.render(view, form)
    assert is_untouched(data)
    assert is_untouched(data.replace(b"\n", b"\r\n"))
    assert forms.read(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"), form).same_as(view)


@settings(ANY, max_examples=30)
@given(view=views())
def test_a_renderer_that_loses_a_task_is_caught(view):
    """The control of the one above: any view with a task shows it."""
    for form in FORMS.values() if view.things["tasks"] else ():
        lost = forms.render(_without_last_task(view), form)
        assert not forms.read(lost, form).same_as(view)


def _without_last_task(view):
    return forms.SessionPage(view.head, view.about, view.things | {"tasks": view.things["tasks"][:-1]})


def check_clean(form, view):
    """No control characters, and no blanks at the ends of lines."""
    text = forms.render(view, form).decode()
    assert all(
        each.isprintable() or each in "\n\u200c\u200d" or (form.ending == "tsv" and each == "\t") for each in text
    )
    assert not any(line.endswith(" ") for line in text.split("\n"))


def check_yaml(view):
    form = FORMS["yaml"]
    tree = real_yaml.safe_load(forms.render(view, form))
    assert tree.get("goal") == view.about.get("goal")
    assert [each["title"] for each in tree["tasks"]] == [each.fields["title"] for each in view.things["tasks"]]
    assert [each["text"] for each in tree["decisions"]] == [each.fields["text"] for each in view.things["decisions"]]


@ANY
@given(data=st.data())
def test_a_damaged_page_is_read_or_refused_and_known_as_edited(data):
    view = data.draw(views())
    for form in FORMS.values():
        check_damaged(forms.render(view, form), form, data)


def check_damaged(page, form, data):
    at = data.draw(st.integers(0, len(page) - 1))
    changed = page[:at] + data.draw(st.binary(max_size=6)) + page[at + data.draw(st.integers(0, 20)) :]
    same = changed.replace(b"\r\n", b"\n").rstrip(b"\n") == page.rstrip(b"\n")
    assert is_untouched(changed) == same or not same
    assert _place(changed, form).startswith("line ")


def _place(page, form):
    """Where it cannot be read; a page that can be has no such place."""
    try:
        forms.read(page, form)
    except Error as error:
        return error.path
    return "line 0"


def test_bytes_that_are_no_page():
    for data in (b"", b"\xff\xfe", b"# hello\n", b"perdure view 1"):
        assert not is_untouched(data)
        with pytest.raises(Error):
            forms.read(data, FORMS["md"])
