"""The files of `deploy/`: as far as it can be seen here, each is what it says, and the roles are those that `serve` takes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
from click.testing import CliRunner

import perdure
from perdure.cli.main import cli
from perdure.model.ids import new_uid
from perdure.model.instants import SECOND_US, duration_us
from perdure.stores.postgres_wall import Roles, check_wall, look, raise_wall
from stores.walled_store import SCHEMA, url_as

yaml = pytest.importorskip("yaml", reason="needs the extra yaml: `make setup` installs it")

TOP = Path(__file__).parents[2]
DEPLOY = TOP / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = [
    each for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())
]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each pod with its only container."""
    for each in MANIFESTS:
        if "template" in each.get("spec", {}):
            spec = each["spec"]["template"]["spec"]
            yield each["metadata"]["name"], spec, spec["containers"][0]


def started(unit: Path) -> list[str]:
    line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.removeprefix("ExecStart=").replace("%i", "app"))[1:]


def commands() -> dict[str, list[str]]:
    """Every command of Perdure that one of the files starts."""
    image = next(line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line.startswith("CMD "))
    found = {"Dockerfile": yaml.safe_load(image.removeprefix("CMD "))}
    found |= {f"compose {name}": each["command"] for name, each in COMPOSE["services"].items() if name != "db"}
    found |= {f"kubernetes {name}": container["args"] for name, _, container in pods()}
    return found | {unit.name: started(unit) for unit in UNITS}


def parsed(words: list[str]) -> dict[str, Any]:
    """The options of a command as it would get them; refuses what it does not know."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None, words
    with command.make_context(words[0], words[1:], parent=context) as made:
        return made.params


def test_every_server_and_worker_has_a_place_for_its_mark_that_it_may_write_to() -> None:
    """A container had no home, and a server's root is read-only: no mark was ever written, and nobody was told."""
    image = (DEPLOY / "Dockerfile").read_text()
    (place,) = re.findall(r"^ENV XDG_STATE_HOME=(\S+)$", image, re.MULTILINE)
    (user,) = re.findall(r"^USER (\S+)$", image, re.MULTILINE)
    assert re.search(rf"install -d -o {user} -m 700 {place}$", image, re.MULTILINE)
    for name in ("server", "worker"):
        (volume,) = [each for each in COMPOSE["services"][name]["volumes"] if each.endswith(f":{place}")]
        assert volume.partition(":")[0] in COMPOSE["volumes"]
    for name, spec, container in pods():
        if name != "perdure-migrate":
            (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == place]
            assert mount["name"] in [each["name"] for each in spec["volumes"]]
    for unit in UNITS:
        assert {"StateDirectory=perdure", "Environment=XDG_STATE_HOME=%S/perdure"} <= {*unit.read_text().splitlines()}


@pytest.mark.parametrize("name", commands())
def test_every_command_exists_with_its_options(name: str) -> None:
    assert parsed(commands()[name]) is not None


def test_control_an_unknown_option_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(["serve", "--threads", "4"])


def ends() -> dict[str, tuple[list[str], float]]:
    """Every command that ends gracefully, and the seconds after which it is killed."""
    found = {
        f"compose {name}": (each["command"], duration_us(each["stop_grace_period"]) / SECOND_US)
        for name, each in COMPOSE["services"].items()
        if name in ("server", "worker")
    }
    for name, pod, container in pods():
        if "terminationGracePeriodSeconds" in pod:
            pause = 5 if "lifecycle" in container else 0
            found[f"kubernetes {name}"] = (container["args"], pod["terminationGracePeriodSeconds"] - pause)
    for unit in UNITS:
        seconds = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
        assert seconds is not None
        found[unit.name] = (started(unit), float(seconds[1]))
    return found


@pytest.mark.parametrize("name", ends())
def test_nothing_is_killed_before_its_grace_is_over(name: str) -> None:
    words, seconds = ends()[name]
    given = parsed(words)
    grace = given["drain"] if words[0] == "serve" else given["grace"]
    assert seconds >= grace + 5


def test_pods_have_no_rights_that_they_do_not_need() -> None:
    for name, pod, container in pods():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert not pod["automountServiceAccountToken"], name
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }, name  # fmt: skip
        assert container["image"].partition(":")[2] not in ("", "latest"), name
        assert "limits" in container["resources"], name
        keys = [
            each["valueFrom"]["secretKeyRef"]["key"] for each in container["env"] if each["name"] == "PERDURE_STORE"
        ]
        assert keys == ["keeper" if "migrate" in name else "app"], name


def test_selectors_choose_their_pods() -> None:
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in MANIFESTS
        if "template" in each.get("spec", {})
    }
    for each in MANIFESTS:
        chosen = each.get("spec", {}).get("selector", {})
        chosen = chosen.get("matchLabels", chosen)
        if chosen:
            assert any(chosen.items() <= made.items() for made in labels.values()), each["metadata"]["name"]


def test_servers_and_workers_are_no_owners_and_wait_for_the_migration() -> None:
    services = COMPOSE["services"]
    for name in ("server", "worker"):
        assert "perdure_app:" in services[name]["environment"]["PERDURE_STORE"]
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["server"]["ports"] == ["127.0.0.1:8930:8930"]
    for volume in services["db"]["volumes"][1:]:
        assert (DEPLOY / volume.split(":")[0]).is_file()
    wanted = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text())) - {"OTEL_EXPORTER_OTLP_ENDPOINT"}
    assert wanted == set(re.findall(r"^(\w+)=", (DEPLOY / "compose.env.example").read_text(), re.MULTILINE))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_what_systemd_takes(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze on this machine")
    text = unit.read_text().replace("/opt/perdure/bin/perdure", "/bin/true").replace("User=perdure", "User=root")
    made = tmp_path / unit.name.replace("@", "@app")
    made.write_text(text.replace("Group=perdure", "Group=root"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(made)], check=False, capture_output=True, text=True, timeout=120
    )
    said = [
        line for line in done.stderr.splitlines() if unit.stem.partition("@")[0] in line and "Failed to" not in line
    ]
    assert not said, done.stderr


@pytest.fixture
def roles(postgres_store: str) -> Iterator[Roles]:
    """The roles of the script under names of their own: roles belong to the whole server."""
    mark = new_uid().hex()[:10]
    made = Roles(f"own_{mark}", f"app_{mark}", f"keep_{mark}")
    yield made
    with psycopg.connect(postgres_store.partition("?")[0], autocommit=True) as raw:
        for role in made:
            raw.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
            raw.execute(f"DROP OWNED BY {role}")
            raw.execute(f"DROP ROLE {role}")


def script(roles: Roles) -> str:
    text = (DEPLOY / "postgres" / "roles.sql").read_text()
    for name, own in zip(Roles(), roles, strict=True):
        text = text.replace(name, own)
    return text


def test_the_roles_of_the_script_are_those_that_serve_takes(postgres_store: str, roles: Roles) -> None:
    """The script twice, a migration with roles, and then the application works, and a superuser is refused."""
    perdure.open(postgres_store).close()
    with psycopg.connect(postgres_store.partition("?")[0], autocommit=True) as raw:
        for _ in range(2):
            raw.execute(script(roles))
        for role in (roles.app, roles.keeper):
            raw.execute(f"ALTER ROLE {role} PASSWORD 'p'")
        raise_wall(raw, SCHEMA, roles)
    app, keeper = (url_as(postgres_store, role, "p") for role in (roles.app, roles.keeper))
    with psycopg.connect(keeper.partition("?")[0], autocommit=True) as raw:
        raise_wall(raw, SCHEMA, roles)  # after a later migration
    with psycopg.connect(app.partition("?")[0], autocommit=True) as raw:
        check_wall(look(raw, SCHEMA))
        limit, can = raw.execute(
            "SELECT rolconnlimit, rolcreaterole FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        assert (limit, can) == (180, False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            raw.execute("CREATE TABLE public.mine (x int)")
    with perdure.open(app) as store:
        store.session("s").say("user", "x")
    with perdure.open(keeper) as store:
        assert store.verify().ok
    said = CliRunner().invoke(cli, ["doctor", "--store", app])
    assert "row-level security is" not in said.output
    refused = CliRunner().invoke(cli, ["serve", "--store", postgres_store])
    assert refused.exit_code != 0
    assert "superuser" in refused.output
