"""The names of tenants are bound by the log: swapping two of them shows (P6, P11)."""

from __future__ import annotations

import pytest

import perdure
from perdure.planes.audit import tenant_names
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
            assert [each.kind for each in report.problems] == [
                "tenant-altered"
            ] * 4  # by the anchor, and by each itself


def test_the_anchor_covers_what_it_says_about_tenants(url):
    """Whoever swaps the names cannot take back the event that names them."""
    with perdure.open(url, tenant="a") as store:
        anchor = store.anchor()
    swap(url)
    Intruder(url).run("DELETE FROM events WHERE kind LIKE 'store.%'")
    with perdure.open(url, tenant="a") as store:
        assert not store.verify(anchor=anchor).ok


def test_without_any_anchor_two_names_that_were_swapped_show(url):
    """Each tenant's own stream says what it is called, from its first event on (decision 0036)."""
    with perdure.open(url, tenant="a") as store:
        assert store.verify().ok
        assert store.verify().unnamed == []
    swap(url)
    with perdure.open(url, tenant="a") as store:
        assert [each.kind for each in store.verify().problems] == ["tenant-altered"] * 2


def test_control_without_the_directories_a_swap_passes(url, monkeypatch):
    swap(url)
    monkeypatch.setattr(tenant_names, "_directories", lambda _: iter(()))
    with perdure.open(url, tenant="a") as store:
        assert store.verify().ok
        assert store.verify().unnamed == ["a", "b"]


def test_a_tenant_stays_bound_when_its_only_actor_is_forgotten(url):
    with perdure.open(url, tenant="a", actor="me") as store:
        store.forget_actor("me")
        assert store.verify().unnamed == []
    swap(url)
    with perdure.open(url, tenant="a") as store:
        assert [each.kind for each in store.verify().problems] == ["tenant-altered"] * 2


def test_a_tenant_that_an_older_version_made_is_bound_with_its_next_actor(url):
    Intruder(url).run(
        "DELETE FROM events WHERE tbl = 'actors'; DELETE FROM actors; DELETE FROM streams WHERE kind = 'tenant'"
    )
    with perdure.open(url, tenant="a") as store:
        assert store.verify().unnamed == ["a", "b"]
        store.as_("new").session("s").say("user", "x")
        assert store.verify().unnamed == ["b"]


def test_moves_bundles_and_imports_collide_with_no_name(url, tmp_path):
    with perdure.open(url, tenant="a") as store:
        store.export(tmp_path / "a.bundle", ["s"])
    with perdure.open(url, tenant="b") as store:
        store.import_(tmp_path / "a.bundle", names={"s": "of-a"})
        assert store.verify().ok
    target = f"sqlite:///{tmp_path}/b.db"
    perdure.move(url, target, actor="ann")
    with perdure.open(target, tenant="b") as store:
        assert store.verify().ok
        assert store.verify().unnamed == []
    swap(target)
    with perdure.open(target, tenant="a") as store:
        assert {each.kind for each in store.verify().problems} == {"tenant-altered"}


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
