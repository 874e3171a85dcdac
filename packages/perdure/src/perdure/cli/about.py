"""`perdure help` and `perdure version`: what the options --help and --version show, for people who type the word."""

from __future__ import annotations

import click

from perdure.cli.options import command, json_option
from perdure.cli.output import say_json
from perdure.version import VERSION


@command("help", "perdure help", "perdure help settle")
@click.argument("name", required=False, metavar="[COMMAND]")
@click.pass_context
def help_(ctx: click.Context, *, name: str | None) -> None:
    """Show the list of commands, or the help of COMMAND."""
    assert ctx.parent is not None
    group = ctx.parent.command
    assert isinstance(group, click.Group)
    if name is None:
        click.echo(ctx.parent.get_help())
        return
    found, wanted, _ = group.resolve_command(ctx.parent, [name])
    assert wanted is not None  # an unknown name is refused with the near ones
    with click.Context(wanted, info_name=found, parent=ctx.parent) as of_command:
        click.echo(wanted.get_help(of_command))


@command("version", "perdure version", "perdure version --json")
@json_option
def version(*, as_json: bool) -> None:
    """Show which version of Perdure this is."""
    if as_json:
        say_json({"version": VERSION})
    else:
        click.echo(f"perdure {VERSION}")
