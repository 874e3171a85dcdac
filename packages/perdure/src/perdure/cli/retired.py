"""Names that the command line had once: whatever of them is typed from habit is refused with what takes its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perdure.errors import Invalid

RETIRED_COMMANDS = {"demo": "in a clone of the repository: make demo, or python examples/demo --help"}

Body = Callable[..., Any]


def retired_option(name: str, instead: str, **attributes: Any) -> Callable[[Body], Body]:
    """A hidden option that is refused when it is used. instead: the hint; attributes: how click reads the option."""

    def refuse(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value:
            raise Invalid(f"{name} is no longer an option", path="arguments", hint=instead)

    return click.option(name, hidden=True, expose_value=False, callback=refuse, **attributes)


class ChoiceWithRetired(click.Choice[str]):
    """A choice that knows the values which it had once. retired: each with the hint."""

    def __init__(self, choices: list[str], retired: dict[str, str]) -> None:
        super().__init__(choices)
        self.retired = retired

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As click does, but with a hint for what was a choice once."""
        if value in self.retired:
            raise Invalid(
                f"{value} is no longer a choice",
                path=param.name if param and param.name else "",
                hint=self.retired[value],
            )
        return super().convert(value, param, ctx)
