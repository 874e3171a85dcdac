"""Every command and verb of maintenance as every role of a store with a wall: it is whole, or it is refused (P11).

A blind role sees no rows, so a reader without the check would say that all is well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import perdure
from doors.http.serving_kit import bearer, make_token
from perdure.cli.main import SECTIONS, cli
from perdure.errors import Refused
from perdure.model.ids import new_uid
from perdure.planes.recovery import presence
from perdure.stores import migrate, schema_upgrade, store
from perdure.stores.core import engine_for, open_core
from perdure.stores.migrate import Migration
from perdure.stores.store import NO_TENANT
from perdure.stores.url import parse
from perdure.upkeep.findings import Severity
from perdure.upkeep.health import examine
from perdure_server.http.app import make_app
from perdure_server.http.serving import Serving
from stores.walled_store import SCHEMA, Walled, walled

__all__ = ["walled"]

ROLES = ("app", "owner", "keeper", "root")
WHOLE, REFUSED = "whole", "refused"


class At(NamedTuple):
    """The URL of the store as a role, that of a superuser, and a folder for what is written."""

    url: str
    root: str
    folder: Path


def ran(*words: str) -> dict[str, Any]:
    """What a command says in JSON. Raises Refused where it is."""
    result = CliRunner().invoke(cli, [*words, "--json"])
    shown = result.stdout.strip() or result.stderr.strip()
    *before, last = lines = [json.loads(line) for line in shown.splitlines() if line.startswith(("{", "["))]
    answer: dict[str, Any] = last if isinstance(last, dict) and (result.exit_code or not before) else {"items": lines}
    if answer.get("error") == "Refused":
        raise Refused(answer["message"])
    assert result.exit_code == 0, shown
    return answer


def counted(raw: Any) -> tuple[int, int]:
    """The streams and the events that there are."""
    return raw.execute(
        f"SELECT (SELECT count(*) FROM {SCHEMA}.streams), (SELECT count(*) FROM {SCHEMA}.events)"
    ).fetchone()


def verified(at: At) -> tuple[int, int]:
    counts = ran("verify", "--store", at.url)["counts"]
    return counts["streams"], counts["events"]


def verified_by_handle(at: At) -> tuple[int, int]:
    with perdure.open(at.url, tenant="acme") as opened:
        report = opened.verify()
    return report.counts.streams, report.counts.events


def anchored(at: At) -> tuple[int, int]:
    ran("anchor", "--unsigned", "-o", str(at.folder / "anchor.json"), "--store", at.url)
    heads = json.loads((at.folder / "anchor.json").read_text())["heads"]
    return len(heads), sum(head[1] for head in heads)


def backed_up(at: At) -> tuple[int, int]:
    ran("backup", str(at.folder / "copy.bak"), "--store", at.url)
    return restored(at)


def backed_up_by_handle(at: At) -> tuple[int, int]:
    with perdure.open(at.url, tenant="acme") as opened:
        opened.backup(at.folder / "copy.bak")
    return restored(at)


def restored(at: At) -> tuple[int, int]:
    """The streams and events of a backup, in a schema of its own, made by a superuser."""
    target = f"{at.root.partition('?')[0]}?schema=restored_{new_uid().hex()[:8]}"
    ran("restore", str(at.folder / "copy.bak"), "--store", target)
    counts = ran("verify", "--store", target)["counts"]
    return counts["streams"], counts["events"]


def previewed(at: At) -> tuple[int, int]:
    shown = ran("move", at.url, f"sqlite:///{at.folder}/moved.db", "--dry-run")
    return shown["streams"], shown["events"]


def moved(at: At) -> tuple[int, int]:
    shown = ran("move", at.url, f"sqlite:///{at.folder}/moved.db")
    return shown["streams"], shown["events"]


def examined(at: At) -> tuple[int, int]:
    findings = {each.check: each for each in examine(at.url).findings}
    if "role" in findings and findings["role"].severity is Severity.ERROR:
        assert not {"contents", "heads", "leases", "runs"} & {*findings}, "nothing is said of what it cannot see"
        raise Refused(findings["role"].says)
    words = findings["contents"].says.split()
    return int(words[3].rstrip(",")), int(words[5].rstrip(","))


def migrated(at: At) -> tuple[int, int]:
    """With a step that changes rows: those that it changed, and a column that it can only then make."""
    text = f"UPDATE {SCHEMA}.sessions SET title = 'migrated'"
    step = Migration(migrate.latest(migrate.migrations()) + 1, "a_step_that_changes_rows", text)
    engine = engine_for(parse(at.url))
    try:
        with schema_upgrade.told():
            assert schema_upgrade.bring_up_to_date(engine, [*migrate.migrations(), step])
    finally:
        engine.close()
    return (0, 0)


def quarantined(at: At) -> tuple[int, int]:
    """There is no damage, and whoever sees it all is told so."""
    result = CliRunner().invoke(cli, ["quarantine", "s", "--because", "x", "--store", at.url, "--json"])
    answer = json.loads(result.stderr or result.stdout)
    if answer["error"] == "Refused":
        raise Refused(answer["message"])
    assert answer["error"] == "NotFound"
    return (0, 0)


def checked_against_an_anchor(at: At) -> tuple[int, int]:
    """An anchor that a superuser made."""
    ran("anchor", "--unsigned", "-o", str(at.folder / "roots.json"), "--store", at.root)
    counts = ran("verify", "--anchor", str(at.folder / "roots.json"), "--store", at.url)["counts"]
    return counts["streams"], counts["events"]


def of_a_tenant(*words: str) -> Callable[[At], Any]:
    """A command that looks at one tenant: it says to every role what it says to a superuser."""

    def run(at: At) -> Any:
        answer = ran(*words, "--tenant", "acme", "--store", at.url)
        return {key: value for key, value in answer.items() if key not in ("at", "seconds")}

    return run


def imported(at: At) -> Any:
    """A bundle that has come before, so that every role is told the same."""
    ran("export", "s", "-o", str(at.folder / "in.perdure"), "--tenant", "acme", "--store", at.root)
    shown = ran("import", str(at.folder / "in.perdure"), "--tenant", "acme", "--store", at.url)
    return {**shown, "streams": len(shown["streams"])}


def exported(at: At) -> Any:
    return ran("export", "--all", "-o", str(at.folder / "out.bundle"), "--tenant", "acme", "--store", at.url)["events"]


WHOLE_STORE: dict[str, Callable[[At], tuple[int, int]]] = {
    "verify": verified,
    "verify --anchor": checked_against_an_anchor,
    "store.verify()": verified_by_handle,
    "anchor": anchored,
    "backup, restore": backed_up,
    "store.backup()": backed_up_by_handle,
    "move --dry-run": previewed,
    "move": moved,
    "doctor": examined,
}
JUDGED = {"migrate": migrated, "quarantine": quarantined}
ONE_TENANT: dict[str, Callable[[At], Any]] = {
    "retain": of_a_tenant("retain", "--checkpoints", "1"),
    "collect": of_a_tenant("collect"),
    "index": of_a_tenant("index"),
    "export --all": exported,
    "query": of_a_tenant("query", "SELECT count(*) AS n FROM v_events"),
    "sessions": of_a_tenant("sessions"),
    "tenant show": of_a_tenant("tenant", "show"),
    "actors": of_a_tenant("actors"),
    "doctor --stale": of_a_tenant("doctor", "--stale"),
    "import": imported,
    "views": of_a_tenant("views", "s"),
    "recover": of_a_tenant("recover"),
    "workers": of_a_tenant("workers"),
    "tail": of_a_tenant("tail", "--once", "--from-start"),
    "subjects": of_a_tenant("subjects"),
    "errors": of_a_tenant("errors"),
    "token list": of_a_tenant("token", "list"),
}
OTHERS = {
    "apply": "writes what a person put on the page of one session, by its verbs",
    "merge": "is for files stores, which have no roles",
}
SEES_ALL = ("keeper", "root")


def outcome(function: Callable[[At], Any], at: At, truth: tuple[int, int]) -> str:
    try:
        answer = function(at)
    except Refused as refusal:
        return REFUSED if "row-level security" in str(refusal) else str(refusal)
    return WHOLE if answer >= truth else f"{answer}, not {truth}"  # a move and an anchor record themselves


def opened_as(walled: Walled, role: str, folder: Path) -> At:
    (folder / role).mkdir()
    return At(getattr(walled, role), walled.root, folder / role)


@pytest.mark.parametrize("name", [*WHOLE_STORE, *JUDGED])
def test_a_reader_of_the_whole_store_is_whole_or_refused_as_every_role(walled: Walled, tmp_path, name) -> None:
    function = {**WHOLE_STORE, **JUDGED}[name]
    for role in ROLES:
        with walled.connect(walled.root) as raw:
            truth = counted(raw) if name in WHOLE_STORE else (0, 0)
        expected = WHOLE if role in SEES_ALL else REFUSED
        assert (role, outcome(function, opened_as(walled, role, tmp_path), truth)) == (role, expected)
        if name in ("move", "migrate") and expected is WHOLE:
            break  # it is done


def test_every_command_of_maintenance_is_among_them() -> None:
    """A new one must say whether it reads a whole store."""
    judged = {word for name in (*WHOLE_STORE, *JUDGED, *ONE_TENANT) for word in name.replace(",", "").split()}
    assert {*SECTIONS["Keep"]} - judged - {*OTHERS} == set()


@pytest.mark.parametrize("name", ONE_TENANT)
def test_a_reader_of_one_tenant_says_the_same_to_every_role(walled: Walled, tmp_path, name) -> None:
    answers = {role: ONE_TENANT[name](opened_as(walled, role, tmp_path)) for role in ROLES}
    assert answers["root"], "there is something to say"
    assert {role: answer == answers["root"] for role, answer in answers.items()} == dict.fromkeys(ROLES, True)


@pytest.mark.parametrize("role", ["app", "owner"])
def test_a_target_is_refused_before_its_source_is_sealed(walled: Walled, tmp_path, role) -> None:
    source = f"sqlite:///{tmp_path}/agent.db"
    with perdure.open(source) as opened:
        opened.session("s").say("user", "one")
    with pytest.raises(Refused, match="row-level security"):
        ran("move", source, getattr(walled, role))
    with perdure.open(source) as opened:
        opened.session("s").say("user", "two")


def test_a_server_behind_the_wall_verifies_the_tenant_of_its_token(walled: Walled) -> None:
    token = make_token(walled.app, "acme", "auditor")
    with TestClient(make_app(Serving(walled.app)), raise_server_exceptions=False) as http:
        report = http.get("/v1/verify", headers=bearer(token)).json()
    assert report["counts"]["events"] > 0
    assert report["problems"] == []


def test_a_worker_behind_the_wall_keeps_the_proofs_that_other_tenants_need(walled: Walled) -> None:
    """A lock file is proof of a death; the one who tidies up must see who is still named, in every tenant."""
    with perdure.open(walled.app, tenant="globex") as opened:
        opened.session("s").begin("mail", {}, key="k").dispatch()
        holder = opened._caller.core.holder
        core = open_core(walled.app)
        try:
            assert holder in core.read(presence.needed, tenant=NO_TENANT)
        finally:
            core.close()


def test_a_dump_from_another_cluster_is_noticed_behind_the_wall(walled: Walled) -> None:
    """Transaction ids that this cluster has not given out are in events: a blind look found none."""
    with walled.connect(walled.root) as raw:
        raw.execute(f"ALTER TABLE {SCHEMA}.events DISABLE TRIGGER ALL")
        raw.execute(f"UPDATE {SCHEMA}.events SET xid = '999999999999'::xid8")
        raw.execute(f"ALTER TABLE {SCHEMA}.events ENABLE TRIGGER ALL")
    with pytest.raises(Refused, match="another cluster"):
        perdure.open(walled.app, tenant="acme")


def test_control_without_the_check_a_blind_role_finds_nothing_wrong_with_nothing(
    walled: Walled, tmp_path, monkeypatch
) -> None:
    from perdure.stores import core

    monkeypatch.setattr(core, "check_sees_all", lambda _: None)
    blind = opened_as(walled, "app", tmp_path)
    assert verified(blind) == (0, 0)
    assert backed_up(blind) == (0, 0)


def test_the_check_is_one_function() -> None:
    assert store.check_sees_all is schema_upgrade.check_sees_all
