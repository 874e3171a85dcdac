"""`perdure` on the command line: the list of commands, and how errors become exit codes.

A command is loaded when it is called, so that `perdure --help` costs next to nothing. Errors are one line on
stderr, or one JSON object with --json, and exit with their own code. Keeps P10, P15.
"""

from __future__ import annotations

import builtins
import errno
import keyword
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from perdure.cli.characters import show_all
from perdure.cli.options import log_options
from perdure.cli.retired import RETIRED_COMMANDS
from perdure.errors import Error, Full, Invalid, NotFound, Refused, Unavailable
from perdure.model import siblings
from perdure.model.display import visible
from perdure.version import VERSION

INTERRUPTED = 130

# Errors of the system: only a number that is not listed here may pass with time.
OF_SYSTEM: dict[int, type[Error]] = {
    errno.ENOENT: NotFound,
    errno.ENOTDIR: Invalid,
    errno.EISDIR: Invalid,
    errno.ENAMETOOLONG: Invalid,
    errno.EACCES: Refused,
    errno.EPERM: Refused,
    errno.EROFS: Refused,
    errno.ENOSPC: Full,
    errno.EDQUOT: Full,
}

# section -> command -> (its module, or the package that declares it as an entry point of `perdure.commands`; what it does)
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {
        "advise": ("perdure.cli.advise", "Recommend a store, with the reasons."),
        "init": ("perdure.cli.init", "Write perdure.toml for a scenario, and make its store."),
    },
    "Look": {
        "sessions": ("perdure.cli.sessions", "List sessions, newest first."),
        "runs": ("perdure.cli.runs", "List runs of agents, newest first."),
        "show": ("perdure.cli.show", "Show one session or run: its purpose, open work and last events."),
        "diff": ("perdure.cli.history", "Show the difference between two points, or a session and its fork."),
        "envelope": ("perdure.cli.envelopes", "Print the state needed to resume a run, and a verdict."),
        "effects": ("perdure.cli.effects", "List calls to external systems, and those in doubt."),
        "asks": ("perdure.cli.asks", "List questions to people."),
        "errors": ("perdure.cli.effects", "List errors, and what was done about them."),
        "tail": ("perdure.cli.feed", "Follow events as they happen."),
        "decisions": ("perdure.cli.tasks", "List decisions across all sessions."),
        "tasks": ("perdure.cli.tasks", "List tasks across all sessions."),
        "boot": (
            "perdure.cli.boot",
            "Print what a fresh context window needs to continue, in a budget.",
        ),
        "search": ("perdure.cli.memory", "Search everything that was said, decided, done and remembered."),
        "recall": ("perdure.cli.memory", "Find the memories that answer a question."),
        "memories": ("perdure.cli.memory", "List memories: knowledge that outlives a run."),
        "artifacts": ("perdure.cli.artifacts", "List artifacts, or save one to a file."),
        "events": ("perdure.cli.feed", "List events across all sessions: the audit trail."),
        "subjects": ("perdure.cli.people", "List the persons and things that records are about."),
        "actors": ("perdure.cli.people", "List the directory of actors, or forget one."),
        "query": ("perdure.cli.query", "Run SQL of your own, which only reads."),
    },
    "Decide": {
        "answer": ("perdure.cli.asks", "Answer a question, or approve an external call."),
        "settle": ("perdure.cli.effects", "Record the outcome of an external call that is in doubt."),
        "gone": ("perdure.cli.effects", "Declare that a machine or a process will never come back."),
        "resume": ("perdure.cli.runs", "Re-check a waiting or parked run."),
        "retry": ("perdure.cli.runs", "Try a run again where it failed."),
        "cancel": ("perdure.cli.runs", "End a run."),
        "unpark": ("perdure.cli.runs", "Let a parked run continue."),
        "pin": ("perdure.cli.runs", "Let only one program continue a run."),
        "fork": (
            "perdure.cli.history",
            "Continue a session from an earlier point, or a run with another result.",
        ),
        "handover": ("perdure.cli.envelopes", "Let a run continue in another store."),
        "adopt": ("perdure.cli.envelopes", "Continue a run of another store here."),
    },
    "Write": {
        "say": ("perdure.cli.writing", "Add a turn to a session."),
        "task": ("perdure.cli.writing", "Add a task to a session."),
        "decide": ("perdure.cli.writing", "Record a decision in a session."),
        "set": ("perdure.cli.writing", "Set a value of a session or a scope."),
        "remember": ("perdure.cli.memory", "Record a memory, or replace one."),
        "forget": ("perdure.cli.memory", "Hide a memory from recall and search."),
        "label": ("perdure.cli.writing", "Add labels to a session, or remove them."),
        "rename": ("perdure.cli.sessions", "Change the title of a session."),
        "close": ("perdure.cli.sessions", "End a session as completed or failed."),
        "archive": ("perdure.cli.sessions", "Leave an ended session out of listings."),
        "delete": ("perdure.cli.sessions", "Remove what a session said (a dry run first)."),
    },
    "Run": {
        "start": ("perdure.cli.starting", "Begin a run, and leave it to the workers."),
        "signal": ("perdure.cli.starting", "Send a signal to a run."),
        "recover": ("perdure.cli.starting", "Continue the work of dead processes, once."),
        "worker": ("perdure.cli.worker", "Drive runs of agents, in supervised processes."),
        "workers": ("perdure.cli.worker", "List workers, their runs, and the runs that wait."),
    },
    "Keep": {
        "verify": (
            "perdure.cli.proof",
            "Prove that nothing was changed, lost or written past the log.",
        ),
        "quarantine": (
            "perdure.cli.proof",
            "Record damage that nothing can mend, so that verify lists it apart.",
        ),
        "anchor": ("perdure.cli.proof", "Sign all chain heads, to keep elsewhere."),
        "migrate": ("perdure.cli.upkeep", "Bring a store to this version's schema."),
        "backup": ("perdure.cli.upkeep", "Copy a store consistently, while others write."),
        "restore": ("perdure.cli.upkeep", "Make a store from a backup, verified first."),
        "export": ("perdure.cli.bundles", "Write sessions and runs into one file, to keep, send or explain."),
        "import": ("perdure.cli.importing", "Import an export, or the files of other programs."),
        "move": ("perdure.cli.moving", "Move a whole store into another database."),
        "retain": ("perdure.cli.retain", "Remove old checkpoints and covered turns, by rule."),
        "views": ("perdure-files", "Show sessions as pages, write the pages, bring them up to date."),
        "apply": ("perdure-files", "Record the edits on the page of a session."),
        "merge": ("perdure-files", "Merge another branch or clone of a files store into this one."),
        "index": ("perdure.cli.memory", "Index everything that was said, and make its vectors."),
        "collect": ("perdure.cli.artifacts", "Remove blobs that nothing needs."),
        "doctor": ("perdure.cli.doctor", "Find what is wrong with a store, and the command that mends it."),
    },
    "Serve": {
        "serve": ("perdure-server", "Serve the store over HTTP."),
        "token": ("perdure-server", "Make, list and revoke tokens for the server."),
        "console": ("perdure-server", "Open the console in a browser, for this store and you alone."),
        "tenant": ("perdure-server", "Show tenants, and set their limits."),
        "telemetry": ("perdure-server", "Export spans to OpenTelemetry, by following the feed."),
    },
    "Coding agents": {
        "mcp": ("perdure-agents", "Serve a store to a coding agent as tools (Model Context Protocol)."),
        "hook": ("perdure-agents", "Answer the hook of a coding agent's host."),
        "install": ("perdure-agents", "Write the configuration of a coding agent's host, or take it back."),
    },
    "Try": {
        "evaluate": (
            "perdure-evaluate",
            "Kill agents at every boundary, on any store, and count what happened.",
        ),
        "conformance": (
            "perdure-evaluate",
            "Test a worker in any language: kill it, stop it, cut it off.",
        ),
        "bench": ("perdure-evaluate", "Measure speed, side by side with the raw database."),
        "completion": ("perdure.cli.completion", "Print the completion script for bash, zsh or fish."),
        "help": ("perdure.cli.about", "Show this list, or the help of a command."),
        "version": ("perdure.cli.about", "Show the version of Perdure."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}
GROUP = "perdure.commands"


class Commands(click.Group):
    """The commands by name; each is imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Load one."""
        home = COMMANDS[cmd_name][0] if cmd_name in COMMANDS else ""
        if not home and cmd_name not in siblings.declared(GROUP):
            return None
        if not home or _is_package(home):
            return siblings.load(GROUP, cmd_name, home, f"perdure {cmd_name}")
        return getattr(import_module(home), f"{cmd_name}_" if _is_taken(cmd_name) else cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find it, or say which name was probably meant."""
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:  # a completion is told nothing
            return super().resolve_command(ctx, args)
        names = {**COMMANDS, **siblings.declared(GROUP)}
        if name in names:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # noqa: PLC0415 - only for a misspelt name

        if name in RETIRED_COMMANDS:
            raise Invalid(f"{name} is no longer a command", path="arguments", hint=RETIRED_COMMANDS[name])
        near = get_close_matches(name, names, n=3)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise click.UsageError(f"No such command {visible(name)!r}.{meant}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """The help, without loading any of them."""
        installed = siblings.declared(GROUP)
        missing: dict[str, list[str]] = {}
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, about) for name, (_, about) in commands.items()], col_max=12)
            for name, (home, _) in commands.items():
                if _is_package(home) and name not in installed:
                    missing.setdefault(home, []).append(name)
        if others := [(name, f"Of {point.package}.") for name, point in installed.items() if name not in COMMANDS]:
            with formatter.section("Of other packages"):
                formatter.write_dl(others, col_max=12)
        if missing:
            with formatter.section("Not installed"):
                formatter.write_dl([(f"pip install {package}", ", ".join(names)) for package, names in missing.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run what was asked for; errors become a line and an exit code."""
        words = [*ctx._protected_args, *ctx.args]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except click.UsageError as error:
            if "--json" not in words:
                raise
            tell_error({"error": "Invalid", "message": error.format_message(), "path": "arguments", "hint": ""})
            ctx.exit(error.exit_code)
        except Error as error:
            fail(error, as_json="--json" in words)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError):
                if error.errno == errno.EPIPE:
                    raise
                fail(_of_system(error), as_json="--json" in words)
            fail(_bug(error), as_json="--json" in words)


def _is_package(home: str) -> bool:
    """Whether a command's home is a package beside the core: a module has no hyphen."""
    return "-" in home


def _is_taken(name: str) -> bool:
    """Whether Python has this name already: the function of such a command ends in an underscore."""
    return keyword.iskeyword(name) or hasattr(builtins, name)


def fail(error: Error, *, as_json: bool) -> NoReturn:
    """Say what went wrong on stderr and exit with the error's own code."""
    if os.environ.get("PERDURE_DEBUG"):
        raise error
    if as_json:
        tell_error(error.as_record())
    else:
        click.echo(f"perdure: {visible(' '.join(str(error).split()))}", err=True)
    _give_up_output()
    sys.exit(error.exit_code)


def _give_up_output() -> None:
    """Output that cannot be written is not tried once more when the process ends: it would end with another code."""
    try:
        sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def tell_error(record: dict[str, Any]) -> None:
    """An error for machines, on stderr: stdout holds results alone."""
    import json  # noqa: PLC0415 - only when something failed

    click.echo(json.dumps(record), err=True)


def _of_system(error: OSError) -> Error:
    found = OF_SYSTEM.get(error.errno or 0, Unavailable)(error.strerror or str(error), path=str(error.filename or ""))
    found.__cause__ = error
    return found


def _bug(error: Exception) -> Error:
    found = Error(f"{type(error).__name__}: {error}", hint="this is a bug; PERDURE_DEBUG=1 shows where")
    found.__cause__ = error
    return found


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Details and examples: perdure COMMAND --help. The store is --store URL, PERDURE_STORE, or that of perdure.toml; "
    "default sqlite:///agent.db.",
)
@click.version_option(VERSION, prog_name="perdure", message="%(prog)s %(version)s")
@log_options
def cli() -> None:
    """Perdure: the durable state of long-running agents, from the command line.

    `perdure advise` recommends a store, `perdure init` makes one.
    """


def _complete() -> NoReturn:
    """Answer a shell that completes. An error completes nothing: it would be printed into the line being typed."""
    import_module("perdure.cli.completion")  # tells click how bash is completed
    try:
        cli(prog_name="perdure")
    except Exception:
        if os.environ.get("PERDURE_DEBUG"):
            raise
    sys.exit(0)


def main() -> None:
    """The entry point."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # our parent closed it: nobody reads what is said there
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the process ends
        show_all(getattr(sys, name))
    if "_PERDURE_COMPLETE" in os.environ:
        _complete()
    try:
        cli(prog_name="perdure")
    except OSError as error:  # of help and the version: they are written before there is a command
        fail(_of_system(error), as_json=False)
    sys.exit(0)
