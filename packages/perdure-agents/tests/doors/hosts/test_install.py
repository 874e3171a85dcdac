"""`perdure install`: the second time no difference, undo to the byte, over whatever a host's configuration has already."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Invalid, NotFound, Refused
from perdure_agents.hosts import host_checks, installation, plans
from perdure_agents.hosts.catalog import HOSTS
from perdure_agents.hosts.plans import InstallOptions, expanded

WANTED = InstallOptions(("/usr/bin/perdure",), "sqlite:////srv/agent.db")
# What somebody has already: their own servers, hooks and settings, in their own way of writing.
THEIRS: dict[str, dict[str, str]] = {
    "claude-code": {
        ".mcp.json": '{"mcpServers":{"other":{"command":"x"}}}',
        ".claude/settings.local.json": '{\n\t"permissions": {"allow": ["Bash(ls)"], "deny": []},\n\t"hooks": {"Stop": '
        '[{"hooks": [{"type": "command", "command": "echo é"}]}]}}',
    },
    "codex": {
        ".codex/config.toml": 'model = "x"  # mine\n\n[mcp_servers.other]\ncommand = "y"',
        ".codex/hooks.json": '{"hooks": {}}\n',
    },
    "cursor": {".cursor/hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "say hi"}]}}'},
    "gemini": {".gemini/settings.json": '{\n    "theme": "dark",\n    "mcpServers": {}\n}\n'},
    "opencode": {"opencode.json": '{"instructions": ["RULES.md"], "mcp": {}}'},
    "generic": {"mcp.json": "{}"},
}


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file and folder below a root, with its bytes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def install(host: str, root: Path, home: Path, wanted: InstallOptions = WANTED) -> list[installation.FileChange]:
    changes = installation.planned(HOSTS[host], root, wanted)
    installation.install(HOSTS[host], root, changes, home)
    return changes


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("host", HOSTS)
def test_install_again_and_undo(root: Path, home: Path, host: str, existing: bool) -> None:
    write(root, THEIRS[host] if existing else {"README.md": "x"})
    before = tree(root)
    changes = install(host, root, home)
    assert changes
    assert all(change.diff for change in changes)
    installed = tree(root)
    assert install(host, root, home) == []
    assert tree(root) == installed
    assert not [each for each in installed if each.endswith("-new")]
    installation.undo(HOSTS[host], root, home)
    assert tree(root) == before
    with pytest.raises(NotFound):
        installation.undo(HOSTS[host], root, home)


@pytest.mark.parametrize("host", HOSTS)
def test_what_was_there_stays(root: Path, home: Path, host: str) -> None:
    write(root, THEIRS[host])
    install(host, root, home)
    for name, text in THEIRS[host].items():
        now = (root / name).read_text()
        if name.endswith(".toml"):
            assert now.startswith(text)
            assert tomllib.loads(now)["mcp_servers"]["perdure"]["required"] is True
        else:
            assert contains(json.loads(now), json.loads(text))


def contains(now: Any, before: Any) -> bool:
    """Whether everything that was there is there still."""
    if isinstance(before, dict):
        return all(name in now and contains(now[name], value) for name, value in before.items())
    if isinstance(before, list):
        return all(value in now for value in before)
    return now == before


@pytest.mark.parametrize("host", HOSTS)
def test_another_store_is_written_over_the_first_and_undone_whole(root: Path, home: Path, host: str) -> None:
    write(root, THEIRS[host])
    before = tree(root)
    install(host, root, home)
    assert install(host, root, home, InstallOptions(("perdure",), "sqlite:////other.db"))
    commands = [text for text in tree(root).values() if text and b"perdure" in text]
    assert not [text for text in commands if b"agent.db" in text]
    installation.undo(HOSTS[host], root, home)
    assert tree(root) == before


@pytest.mark.parametrize(
    ("host", "path", "written"),
    [
        ("claude-code", ".mcp.json", "${HOME}"),
        ("gemini", ".gemini/settings.json", "${HOME}"),
        ("cursor", ".cursor/mcp.json", "${userHome}"),
        ("generic", "mcp.json", "/people/ann"),
    ],
)
def test_a_file_that_others_may_get_names_no_folder_of_the_user_where_the_host_expands_it(
    root: Path, home: Path, host: str, path: str, written: str
) -> None:
    command = ("/people/ann/venv/bin/perdure", "--x=/mnt/people/ann/x", "/people/anna/y")
    install(host, root, home, InstallOptions(command, "sqlite:////people/ann/.perdure/agent.db", "/people/ann"))
    server = json.loads((root / path).read_text())["mcpServers"]["perdure"]
    others = ["--x=/mnt/people/ann/x", "/people/anna/y", "mcp", "--store"]
    assert server["command"] == f"{written}/venv/bin/perdure"
    assert server["args"] == [*others, f"sqlite:///{written}/.perdure/agent.db"]
    again = expanded([server["command"], *server["args"]], Path("/people/ann"))
    assert again == [command[0], *others, "sqlite:////people/ann/.perdure/agent.db"]


def test_a_file_that_was_changed_since_keeps_the_change(root: Path, home: Path) -> None:
    write(root, THEIRS["claude-code"])
    install("claude-code", root, home)
    settings = root / ".claude/settings.local.json"
    changed = json.loads(settings.read_text())
    changed["model"] = "mine"
    settings.write_text(json.dumps(changed))
    install("claude-code", root, home)  # a second install in between loses nothing either
    installation.undo(HOSTS["claude-code"], root, home)
    now = json.loads(settings.read_text())
    assert now == {**json.loads(THEIRS["claude-code"][".claude/settings.local.json"]), "model": "mine"}
    assert (root / ".mcp.json").read_text() == THEIRS["claude-code"][".mcp.json"]


def test_an_install_that_was_killed_can_be_undone_to_the_byte(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, THEIRS["claude-code"])
    before = tree(root)
    real = installation._replace
    left: list[None] = []

    def dying(path: Path, *args: Any) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        real(path, *args)

    for written in range(4):  # the record, then three files
        left[:] = [None] * written
        monkeypatch.setattr(installation, "_replace", dying)
        with pytest.raises(KeyboardInterrupt):
            install("claude-code", root, home)
        monkeypatch.setattr(installation, "_replace", real)
        if installation.read_record(HOSTS["claude-code"], root, home) is not None:
            installation.undo(HOSTS["claude-code"], root, home)
        assert tree(root) == before


@pytest.mark.parametrize(
    "text", ["{ // mine\n}", "[1]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"permissions": 3}', "\xff"]
)
def test_what_cannot_be_merged_is_refused_and_left(root: Path, home: Path, text: str) -> None:
    write(root, {".claude/settings.local.json": text})
    before = tree(root)
    with pytest.raises(Invalid):
        install("claude-code", root, home)
    assert tree(root) == before


def test_an_entry_of_that_name_in_a_toml_file_is_refused(root: Path, home: Path) -> None:
    write(root, {".codex/config.toml": '[mcp_servers.perdure]\ncommand = "theirs"\n'})
    with pytest.raises(Invalid, match="stands there already"):
        install("codex", root, home)


def test_a_link_out_of_the_workspace_is_not_written_through(root: Path, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / ".claude").symlink_to(outside)
    with pytest.raises(Refused):
        install("claude-code", root, home)
    assert list(outside.iterdir()) == []


def test_times_are_in_the_unit_of_the_host(root: Path, home: Path) -> None:
    install("claude-code", root, home)
    install("gemini", root, home)
    claude = json.loads((root / ".claude/settings.local.json").read_text())["hooks"]["SessionStart"]
    gemini = json.loads((root / ".gemini/settings.json").read_text())["hooks"]["SessionStart"]
    assert [entry["hooks"][0]["timeout"] for entry in claude] == [20, 20]  # seconds, an entry for each part
    assert [entry["hooks"][0]["timeout"] for entry in gemini] == [20_000, 20_000]
    assert "--part 2" in claude[1]["hooks"][0]["command"]


def test_the_looks_of_the_doctor(root: Path, home: Path) -> None:
    assert host_checks.examine(root, home) == []
    assert host_checks.examine(root, home, "codex")[0].severity == "error"
    install("claude-code", root, home, InstallOptions(("/no/such/perdure",), ""))
    found = {each.check: each for each in host_checks.examine(root, home)}
    assert found["connected"].severity == "error"
    assert found["configured"].severity == "ok"
    assert found["trusted"].severity == "warning"
    assert found["allowed"].severity == "ok"
    (root / ".mcp.json").write_text("{}")
    again = {each.check: each for each in host_checks.examine(root, home)}
    assert again["configured"].severity == "warning"
    assert "names no server" in again["connected"].says


def test_reads_are_tools_of_the_server() -> None:
    pytest.importorskip("mcp")
    from perdure_agents.mcp.server import TOOLS, WRITES

    assert {*plans.READS} <= {*TOOLS} - {*WRITES}


def test_gemini_begins_with_both_parts_whatever_began_it() -> None:
    """This host compares the matcher of these events with the whole word, so that a pattern would never fit."""
    (settings,) = plans.plan(HOSTS["gemini"], plans.InstallOptions(("perdure",), "sqlite:///a.db"))
    entries = json.loads(settings.change(None))["hooks"]["SessionStart"]
    assert [("matcher" in each, "--part 2" in each["hooks"][0]["command"]) for each in entries] == [
        (False, False),
        (False, True),
    ]
