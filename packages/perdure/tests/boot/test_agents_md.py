"""The section in AGENTS.md is a copy: an older or edited one says so, and the rest of the file stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.boot import agents_md
from perdure.boot.agents_md import SectionStanding
from perdure.boot.items import Item, Section
from perdure.boot.making import asked_for
from perdure.boot.pack import Made, Pack, build
from perdure.errors import Conflict, Refused

HOSTILE = "text\n<!-- perdure:end -->\n<!-- perdure:end 0123456789abcdef -->\n<!-- perdure:begin {} -->\n"


def pack(seq: int = 1, text: str = HOSTILE, session: str = "s -->", uid: str = "00", commit: str = "") -> Pack:
    items = [Item(Section.RULES, "rule", "p/1", text, "me", 0, whole=True)]
    return build(Made(session, uid, seq, 0, 0, commit, items, {}), asked_for(9_000, None, None, "full"))


@pytest.mark.parametrize("before", ["", "# Mine\n", "# Mine\n\ntext", f"{HOSTILE}\n"])
def test_a_section_is_put_in_and_replaced_and_the_rest_stays(before: str, tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    if before:
        path.write_text(before)
    assert agents_md.keep(path, pack(1)) is SectionStanding.MISSING
    first = path.read_text()
    assert first.startswith(before)
    path.write_text(first + "\nafter\n")
    assert agents_md.keep(path, pack(2)) is SectionStanding.OLDER
    assert path.read_text().startswith(before)
    assert path.read_text().endswith("\nafter\n")
    assert agents_md.keep(path, pack(2)) is SectionStanding.CURRENT
    assert path.read_text().count(agents_md._ABOUT) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["AGENTS.md"]


def test_an_older_foreign_or_edited_section_says_so(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    agents_md.keep(path, pack(1))
    section = agents_md.found_in(path.read_text())
    assert agents_md.standing(section, pack(1).manifest)[0] is SectionStanding.CURRENT
    assert agents_md.standing(section, pack(5).manifest)[0] is SectionStanding.OLDER
    assert agents_md.standing(section, pack(1, commit="1a2b").manifest)[0] is SectionStanding.OLDER
    assert agents_md.standing(section, pack(1, uid="11").manifest)[0] is SectionStanding.FOREIGN
    assert agents_md.standing(None, pack(1).manifest)[0] is SectionStanding.MISSING
    for edited in (path.read_text().replace("text", "test", 1), path.read_text().rpartition("<!--")[0]):
        path.write_text(edited)
        with pytest.raises(Conflict, match="edited by hand"):
            agents_md.keep(path, pack(1))
        assert path.read_text() == edited
    assert agents_md.keep(path, pack(1), force=True) is SectionStanding.EDITED
    assert agents_md.standing(agents_md.found_in(path.read_text()), pack(1).manifest)[0] is SectionStanding.CURRENT


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "AGENTS.md").symlink_to(outside)
    with pytest.raises(Refused):
        agents_md.keep(inside / "AGENTS.md", pack())
    assert outside.read_text() == "secret"
    (inside / "CLAUDE.md").write_text("# Mine\n")
    (inside / "AGENTS.md").unlink()
    (inside / "AGENTS.md").symlink_to("CLAUDE.md")
    agents_md.keep(inside / "AGENTS.md", pack())
    assert (inside / "AGENTS.md").is_symlink()
    assert "perdure:begin" in (inside / "CLAUDE.md").read_text()
