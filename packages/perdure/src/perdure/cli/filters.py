"""The filters of a listing as options of its command: one option for each field of its record (`model.filters`)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import click

from perdure.cli.names import run_names, session_names, versions
from perdure.cli.options import Body, pages
from perdure.model.filters import Filter, FilterRecord, FilterSort, ListingFilters, SpanFilters, filters_of

ALIASES = {"state": "--status"}  # as other listings spell it
COMPLETED = {"session": session_names, "parent": run_names, "run": run_names, "version": versions}


class FilterOption(click.Option):
    """An option of which help shows the first spelling alone."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of help."""
        shown = copy.copy(self)
        shown.opts = self.opts[:1]
        return click.Option.get_help_record(shown, ctx)


def filtered_by(record: type[FilterRecord], *, without: tuple[str, ...] = ()) -> Callable[[Body], Body]:
    """The options of a listing, and those of its page. without: filters that the command asks for in its own way."""
    paged = issubclass(record, ListingFilters)
    shared = SpanFilters.__struct_fields__
    own_first = sorted(filters_of(record).items(), key=lambda pair: pair[0] in shared)

    def options(function: Body) -> Body:
        function = pages(function) if paged else function
        for name, each in own_first[::-1]:
            if name not in without:
                function = _option(name, each, record)(function)
        return function

    return options


def _option(name: str, each: Filter, record: type[FilterRecord]) -> Callable[[Body], Body]:
    """One option. A filter that has a default besides None gets --all, too, as `everything`."""
    if each.sort is FilterSort.SEVERAL:
        return _repeated(name, each)
    option = f"--{name.replace('_', '-')}"
    default: Any = getattr(record(), name)
    if each.sort is FilterSort.FLAG:
        return click.option(option, is_flag=True, default=default, help=each.says)
    if each.words is None:
        return click.option(option, metavar=each.metavar, help=each.says, shell_complete=COMPLETED.get(name))
    said = each.says if default is None else f"{each.says} Default: {default}."
    choice = click.Choice([word.value for word in each.words])
    spelt = (option, ALIASES[name]) if name in ALIASES else (option,)
    chosen = click.option(*spelt, cls=FilterOption, type=choice, default=default, help=said)
    everything = click.option("--all", "everything", is_flag=True, help=f"With any {name}.")
    return chosen if default is None else lambda function: chosen(everything(function))


def _repeated(name: str, each: Filter) -> Callable[[Body], Body]:
    """An option that is given once for each value: --kind turn --kind decision."""
    option = f"--{name.removesuffix('s')}"
    if each.words is None:
        return click.option(option, name, multiple=True, metavar=each.metavar, help=each.says)
    chosen = click.Choice([word.value for word in each.words])
    return click.option(option, name, multiple=True, type=chosen, help=each.says)
