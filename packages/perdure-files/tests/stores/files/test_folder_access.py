"""Folders below the folder of a store: entered one by one, through no link, and never outside of it (P10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_files.store.folder_access import ForeignEntry, Within


def test_a_folder_is_made_with_all_above_it_and_entered(tmp_path: Path) -> None:
    within = Within(tmp_path)
    within.make(tmp_path / "a" / "b")
    within.fill(tmp_path / "a" / "b" / "c", b"text")
    assert within.read(tmp_path / "a" / "b" / "c") == b"text"
    assert within.names(tmp_path) == ["a"]


@pytest.mark.parametrize("above", [False, True], ids=["the last", "one above"])
def test_a_link_is_named_where_it_stands(tmp_path: Path, above: bool) -> None:
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    link = tmp_path / "root" / "a"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignEntry, match=f"{link} is a link"):
        Within(tmp_path / "root").make(link / "b" if above else link)


@pytest.mark.parametrize("path", ["other/a", "rootless", ""])
def test_a_path_that_is_not_below_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(ValueError, match="is not below"):
        Within(tmp_path / "root").make(tmp_path / path)
    assert [each.name for each in tmp_path.iterdir()] == ["root"]
