"""`perdure completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

from perdure.doors.cli.options import command
from perdure.errors import Refused

INSTALL = {
    "bash": """add to ~/.bashrc:  eval "$(perdure completion bash)\"""",
    "zsh": """add to ~/.zshrc:  eval "$(perdure completion zsh)\"""",
    "fish": "run once:  perdure completion fish > ~/.config/fish/completions/perdure.fish",
}


@command("completion", "perdure completion bash", 'eval "$(perdure completion zsh)"')
@click.argument("shell", type=click.Choice(list(INSTALL)))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands and options, and how to install it."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only here

    from perdure.doors.cli.main import cli  # noqa: PLC0415 - the list of commands imports this module

    found = get_completion_class(shell)
    if found is None:
        raise Refused(f"this click cannot complete for {shell}", path="shell")
    click.echo(f"# {INSTALL[shell]}")
    click.echo(found(cli, {}, "perdure", "_PERDURE_COMPLETE").source())
