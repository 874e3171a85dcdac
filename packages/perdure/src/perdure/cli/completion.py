"""`perdure completion`: the script that makes a shell complete commands and options, and what bash needs beyond click's own."""

from __future__ import annotations

import os

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

from perdure.cli.options import command
from perdure.errors import Refused

INSTALL = {
    "bash": """add to ~/.bashrc:  eval "$(perdure completion bash)\"""",
    "zsh": """add to ~/.zshrc:  eval "$(perdure completion zsh)\"""",
    "fish": "run once:  perdure completion fish > ~/.config/fish/completions/perdure.fish",
}

BASH = r"""
%(complete_func)s() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" before="" completion type value
    local word="${line##*[[:space:]]}"
    if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then
        before="${word%%"${word##*:}"}"
    fi
    COMPREPLY=()
    for completion in $(env COMP_LINE="$line" %(complete_var)s=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            printf -v value %%q "$value"
            COMPREPLY+=("${value#"$before"}")
        fi
    done
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Bash breaks words at colons, and names of runs, effects and asks have one: so the line is read whole, and what stands
    before the last colon, which stays, is left off what is offered.
    """

    source_template = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and that one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        last = "" if line[-1:].isspace() or not words else words.pop()
        return words[1:], last


add_completion_class(Bash)


@command("completion", "perdure completion bash", 'eval "$(perdure completion zsh)"')
@click.argument("shell", type=click.Choice(list(INSTALL)))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands and options, and how to install it."""
    from perdure.cli.main import cli  # noqa: PLC0415 - the list of commands imports this module

    found = get_completion_class(shell)
    if found is None:
        raise Refused(f"the installed click cannot complete for {shell}", path="shell")
    click.echo(f"# {INSTALL[shell]}")
    click.echo(found(cli, {}, "perdure", "_PERDURE_COMPLETE").source())
