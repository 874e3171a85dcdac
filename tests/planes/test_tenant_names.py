"""The names of tenants are bound by the log: swapping two of them shows (P6, P11)."""

from __future__ import annotations

import pytest

import perdure
from planes.tampering import Intruder

SWAP = "UPDATE tenants SET name = CASE name WHEN 'a' THEN 'x' WHEN 'b' THEN 'a' ELSE name END"
BACK = "UPDATE tenants SET name = 'b' WHERE name = 'x'"


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    for name in ("a", "b"):
        with perdure.open(url, tenant=name) as store:
            store.session("s").say("user", f"of {name}")
    return url


def swap(url: str) -> None:
    for text in (SWAP, BACK):
        Intruder(url).run(text)


def test_two_names_that_were_swapped_show(url):
    with perdure.open(url, tenant="a") as store:
        anchor = store.anchor()
        assert store.verify(anchor=anchor).ok
        assert store.verify().unnamed == []
    swap(url)
    with perdure.open(url, tenant="a") as store:
        assert store.session("s").turns()[0].content == "of b"  # what the swap is good for
        for report in (store.verify(), store.verify(anchor=anchor)):
            assert [each.kind for each in report.problems] == ["tenant-altered"] * 2


def test_the_anchor_covers_what_it_says_about_tenants(url):
    """Whoever swaps the names cannot take back the event that names them."""
    with perdure.open(url, tenant="a") as store:
        anchor = store.anchor()
    swap(url)
    Intruder(url).run("DELETE FROM events WHERE kind LIKE 'store.%'")
    with perdure.open(url, tenant="a") as store:
        assert not store.verify(anchor=anchor).ok


def test_before_the_first_anchor_verify_says_what_it_cannot_know(url):
    with perdure.open(url, tenant="a") as store:
        assert store.verify().unnamed == ["a", "b"]
        assert store.verify().ok
        store.anchor()
    with perdure.open(url, tenant="c") as store:
        store.session("s").say("user", "of c")
        assert store.verify().unnamed == ["c"]


def test_a_second_anchor_says_it_only_if_something_changed(url):
    with perdure.open(url, tenant="a") as store:
        for _ in range(3):
            store.anchor()
        assert [event.kind for event in store.feed()].count("store.tenants_named") == 1


def test_what_was_moved_is_still_bound(url, tmp_path):
    with perdure.open(url, tenant="a") as store:
        store.anchor()
    target = f"sqlite:///{tmp_path}/b.db"
    perdure.move(url, target, actor="ann")
    swap(target)
    with perdure.open(target, tenant="a") as store:
        assert {each.kind for each in store.verify().problems} == {"tenant-altered"}
