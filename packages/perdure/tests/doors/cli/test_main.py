"""The frame: help, unknown commands, errors as lines and exit codes, interrupts, pipes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import click
import pytest

import perdure
from doors.cli.content import clean_environment, started
from installed import commands_here, stores_here
from perdure import errors
from perdure.cli.main import cli

TAKES_NO_STORE = {
    "advise",
    "bench",
    "conformance",
    "evaluate",
    "completion",
    "init",
    "move",
    "help",
    "version",
}  # a move names two, by place


def commands() -> dict[str, click.Command]:
    found = {name: cli.get_command(click.Context(cli), name) for name in commands_here()}
    return {name: command for name, command in found.items() if command is not None}


# -- help --------------------------------------------------------------------------------------------


def test_every_command_of_the_list_exists() -> None:
    assert list(commands()) == commands_here()


@pytest.mark.parametrize("name", commands_here())
def test_help_has_two_examples_that_parse(run, name) -> None:
    result = run(name, "--help")
    examples = [line.strip() for line in result.stdout.partition("Examples:\n")[2].splitlines()]
    assert result.exit_code == 0
    assert len(examples) >= 2
    assert all(f"perdure {name}" in example for example in examples)


@pytest.mark.parametrize("name", commands_here())
def test_options_that_examples_use_exist(name) -> None:
    command = commands()[name]
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    for example in command.examples:  # type: ignore[attr-defined]
        mine = example.partition(f"perdure {name}")[2].partition("|")[0]
        assert {word for word in mine.split() if word.startswith("--")} <= known, example


@pytest.mark.parametrize("name", sorted(set(commands_here()) - TAKES_NO_STORE))
def test_every_command_on_a_store_takes_store_and_json(name) -> None:
    options = {option for param in commands()[name].params for option in param.opts}
    assert {"--store", "--json", "--log-level"} <= options


WHOLE = ("verify", "quarantine", "anchor", "backup", "restore", "migrate", "merge", "install")


@pytest.mark.parametrize("name", sorted(set(commands_here()) - TAKES_NO_STORE))
def test_a_tenant_only_where_it_means_something(run, name) -> None:
    shown = run(name, "--help").stdout
    assert "PERDURE_STORE" in shown
    assert ("--tenant" in shown) == (name not in WHOLE)
    assert ("PERDURE_TENANT" in shown) == (name not in WHOLE)


def test_what_all_commands_take_stands_apart(run) -> None:
    own, common = run("sessions", "--help").stdout.split("\nCommon options:\n")
    assert "--status" in own
    assert not any(option in own for option in ("--store", "--tenant", "--json", "--log-level", "--help"))
    assert all(option in common for option in ("--store", "--tenant", "--json", "--log-level", "--help"))


def test_who_writes_can_come_from_the_environment(run) -> None:
    assert "PERDURE_ACTOR" in run("collect", "--help").stdout


@pytest.mark.parametrize("words", [("verify",), ("backup", "b.bak"), ("doctor",)])
def test_what_is_for_all_tenants_needs_none(run, tmp_path, words) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, tenant="acme") as store:
        store.session("s").say("user", "x")
    assert run(*words, "--store", url).exit_code == 0


def test_the_help_loads_no_store_and_no_rich() -> None:
    program = (
        "import sys, perdure.cli.main as m\n"
        "try: m.cli(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'rich', 'apsw', 'psycopg', 'asyncio'}), "
        "'perdure.stores' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[] False"


def test_version(run) -> None:
    assert run("--version").stdout.startswith("perdure 0.")


def test_help_and_version_are_words_too(run) -> None:
    assert run("help").stdout == run("--help").stdout
    assert run("help", "settle").stdout == run("settle", "--help").stdout
    assert run("version").stdout == run("--version").stdout
    assert json.loads(run("version", "--json").stdout) == {"version": perdure.__version__}
    assert "Did you mean sessions" in run("help", "sesions").stderr


# -- wrong arguments -----------------------------------------------------------------------------------


def test_a_misspelt_command_names_the_near_ones(run) -> None:
    result = run("sesions")
    assert result.exit_code == 2
    assert "Did you mean sessions" in result.stderr


def test_a_wholly_unknown_command_guesses_nothing(run) -> None:
    result = run("zzzz")
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize("name", sorted(set(commands_here()) - {"hook"}))  # a host takes an exit code of 2 for an order
def test_an_unknown_option_is_a_usage_error(run, name) -> None:
    result = run(name, "--no-such-option")
    assert result.exit_code == 2
    assert "Usage: " in result.stderr
    assert result.stdout == ""


def test_a_usage_error_with_json_is_an_object(run) -> None:
    result = run("sessions", "--no-such-option", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["path"] == "arguments"


@pytest.mark.parametrize(
    "words", [("sessions", "--limit", "0"), ("sessions", "--status", "odd"), ("tail", "--limit", "x")]
)
def test_values_are_checked(run, words) -> None:
    assert run(*words).exit_code == 2


# -- stores that are not there --------------------------------------------------------------------------

LOOKING = [
    "sessions",
    "tail",
    "decisions",
    "tasks",
    "artifacts",
    "events",
    "verify",
    "doctor",
    "collect",
    "migrate",
]


@pytest.mark.parametrize("name", LOOKING)
def test_looking_never_makes_a_store(run, tmp_path, name) -> None:
    result = run(name)
    assert result.exit_code == errors.NotFound.exit_code
    assert result.stderr == (
        f"perdure: store: there is no store at {tmp_path}/agent.db (name another with --store URL or PERDURE_STORE; "
        "`perdure init` or your program's perdure.open makes one)\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_host_gets_the_store_of_the_user_and_commands_are_told_where_it_is(run, tmp_path) -> None:
    theirs = tmp_path / "home" / ".perdure" / "agent.db"
    assert run("hook", "generic", "--event", "SessionStart").exit_code == 0
    assert (theirs.exists(), (tmp_path / "agent.db").exists()) == (True, False)
    missing = run("sessions")
    assert missing.exit_code == errors.NotFound.exit_code
    assert f"--store sqlite:///{theirs}" in missing.stderr
    assert run("sessions", "--store", f"sqlite:///{theirs}").exit_code == 0
    (tmp_path / "perdure.toml").write_text('store = "sqlite:///named.db"')  # the control: a folder may name its own
    run("hook", "generic", "--event", "SessionStart")
    assert (tmp_path / "named.db").exists()


@pytest.mark.parametrize("name", [*LOOKING, "backup"])
def test_not_a_store_url(run, name) -> None:
    words = [name, "out.bak"] if name == "backup" else [name]
    result = run(*words, "--store", "mysql://x")
    assert result.exit_code == errors.Invalid.exit_code
    assert "unknown store 'mysql'" in result.stderr


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqllite:///agent.db", "(did you mean sqlite:///agent.db ?)"),
        ("SQLite:///agent.db", "(did you mean sqlite:///agent.db ?)"),
        ("file:///state", "(did you mean files:///state ?)"),
        ("postgre://me:geheim@host/x", "(did you mean postgresql://… ?)"),
        (
            "https://agents.example.com",
            "this is the URL of a server, and this command needs the store itself (run it beside the store",
        ),
    ],
)
def test_a_misspelt_store_is_told_what_was_meant(run, url, says) -> None:
    result = run("sessions", "--store", url)
    assert result.exit_code == errors.Invalid.exit_code
    assert says in result.stderr
    assert "geheim" not in result.stderr
    assert "did you mean" not in run("sessions", "--store", "mysql://x").stderr  # the control


@pytest.mark.parametrize("name", ["sessions", "events", "verify"])
def test_a_file_that_is_no_database(run, tmp_path, name) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database" * 500)
    result = run(name, "--store", f"sqlite:///{tmp_path}/x.db")
    assert result.exit_code == errors.Damaged.exit_code
    assert (tmp_path / "x.db").read_bytes() == b"not a database" * 500


@pytest.mark.parametrize("scheme", stores_here("sqlite", "files"))
def test_the_way_out_of_a_store_that_is_not_yet_there_can_be_taken(run, tmp_path, scheme) -> None:
    """An empty file or folder: the hint is pasted, and then there is a store."""
    place = tmp_path / "empty"
    place.touch() if scheme == "sqlite" else place.mkdir()
    url = f"{scheme}:///{place}"
    refused = run("sessions", "--store", url)
    assert refused.exit_code == errors.NotFound.exit_code
    assert "`perdure init --store URL`" in refused.stderr
    assert run("init", "--store", url).exit_code == 0
    assert run("sessions", "--store", url).exit_code == 0


def test_an_unknown_tenant_is_not_made(run, url) -> None:
    for _ in range(2):
        result = run("sessions", "--store", url, "--tenant", "acme")
        assert result.exit_code == errors.NotFound.exit_code
        assert "no tenant 'acme'" in result.stderr


def test_the_store_comes_from_the_environment(run, url) -> None:
    assert "issue-42" in run("sessions", PERDURE_STORE=url).stdout


# -- errors ------------------------------------------------------------------------------------------------


def test_an_error_is_one_line_on_stderr(run, url) -> None:
    result = run("show", "nope", "--store", url)
    assert result.exit_code == errors.NotFound.exit_code
    assert result.stdout == ""
    said = "there is no session or run 'nope' (`perdure sessions` and `perdure runs` list them)"
    assert result.stderr == f"perdure: name: {said}\n"


def test_an_error_with_json_is_its_record(run, url) -> None:
    result = run("show", "nope", "--store", url, "--json")
    assert json.loads(result.stderr)["error"] == "NotFound"
    assert result.stdout == ""


def test_debug_shows_the_trace(run, url) -> None:
    result = run("show", "nope", "--store", url, PERDURE_DEBUG="1")
    assert isinstance(result.exception, errors.NotFound)


def test_a_bug_is_a_line_too(run, url, monkeypatch) -> None:
    from perdure.cli import sessions

    monkeypatch.setattr(sessions, "say_page", lambda *_, **__: 1 / 0)
    result = run("sessions", "--store", url)
    assert result.exit_code == errors.Error.exit_code
    assert result.stderr.startswith("perdure: ZeroDivisionError: ")


@pytest.mark.parametrize("error", [errors.Conflict, errors.Unavailable, errors.Refused, errors.Damaged, errors.InDoubt])
def test_every_error_exits_with_its_own_code(run, url, monkeypatch, error) -> None:
    from perdure.cli import sessions

    def refuse(*_args, **_options):
        raise error("no\x1b[31m\nwonder", hint="try later")

    monkeypatch.setattr(sessions, "say_page", refuse)
    result = run("sessions", "--store", url)
    assert result.exit_code == error.exit_code
    assert result.stderr == "perdure: no\\x1b[31m wonder (try later)\n"


# -- the real process ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, 3),
        (errno.ENOTDIR, 2),
        (errno.EISDIR, 2),
        (errno.ENAMETOOLONG, 2),
        (errno.EACCES, 7),
        (errno.EPERM, 7),
        (errno.EROFS, 7),
        (errno.ENOSPC, 5),
        (errno.EIO, 5),
    ],
)
def test_what_the_system_refuses_is_later_only_if_it_may_be_well_then(run, url, monkeypatch, number, code) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "some/file")

    monkeypatch.setattr("perdure.open", refuse)
    result = run("sessions", "--store", url)
    assert result.exit_code == code
    assert result.stderr == f"perdure: some/file: {os.strerror(number)}\n"


@pytest.mark.parametrize("words", ["sessions", "events --json", "tail --once --from-start"])
def test_nobody_who_reads_is_no_bug(url, words) -> None:
    """A service may start a command with its output closed."""
    command = f'exec "{sys.executable}" -m perdure {words} --store "{url}" >&-'
    ran = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, env=clean_environment())
    assert (ran.returncode, "bug" in ran.stderr) == (0, False), ran.stderr


@pytest.mark.parametrize("words", ["--help", "--version", "sessions --help", "sessions", "events --json", "verify"])
def test_a_full_device_is_said_in_a_line_and_never_as_a_trace(url, words) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ran = subprocess.run(
            [sys.executable, "-m", "perdure", *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=clean_environment() | {"PERDURE_STORE": url},
        )  # fmt: skip
    said = {"error": "Full", "message": os.strerror(errno.ENOSPC), "path": "", "hint": ""}
    line = json.dumps(said) if "--json" in words else f"perdure: {said['message']}"
    assert (ran.returncode, ran.stderr) == (errors.Full.exit_code, f"{line}\n")


@pytest.mark.parametrize("words", ["--help", "--version", "sessions", "events --json"])
def test_who_reads_only_the_beginning_is_no_error_message(url, words) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-m", "perdure", *words.split()], stdout=writer, stderr=subprocess.PIPE, check=False,
        env=clean_environment() | {"PERDURE_STORE": url},
    )  # fmt: skip
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_interrupted_is_quiet_and_130(url) -> None:
    process = started("tail", "--from-start", "--store", url)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, b"")


def test_a_reader_that_goes_away_is_no_error_message(url) -> None:
    process = started("tail", "--from-start", "--store", url)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    with perdure.open(url) as store:
        store.session("more").say("user", "so that it writes")
    assert process.stderr is not None
    process.wait(timeout=60)
    assert process.stderr.read() == b""
    process.stderr.close()


def test_the_module_runs(url) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "perdure", "sessions", "--store", url, "--json"],
        capture_output=True,
        check=True,
        env=clean_environment(),
    )
    assert json.loads(ran.stdout)["next"] is None
