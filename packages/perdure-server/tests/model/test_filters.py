"""The filters of listings stand once, in their records: handles, planes, commands and routes take the same ones (P15)."""

from __future__ import annotations

import inspect

import click
import pytest

import perdure
from perdure.cli.filters import filtered_by
from perdure.cli.main import cli
from perdure.errors import Invalid, TooLarge
from perdure.model import filters
from perdure.model.filters import EventFilters, FilterRecord, FilterSort, RunFilters, filter_params, filters_of
from perdure_server.http.app import TABLE

OF_STORE = {
    "sessions": filters.SessionFilters, "runs": RunFilters, "effects": filters.EffectFilters, "events": EventFilters,
    "decisions": filters.DecisionFilters, "tasks": filters.TaskFilters, "memories": filters.MemoryFilters,
    "artifacts": filters.ArtifactFilters, "asks": filters.AskFilters,
}  # fmt: skip
ELSEWHERE = {"events": {"run"}}  # a run is named by the command's argument, as run:ID


def lacking(known: set[str], record: type[FilterRecord]) -> set[str]:
    return {*record.__struct_fields__} - known


@pytest.mark.parametrize("name", OF_STORE)
def test_handles_commands_and_routes_take_every_filter(name):
    record = OF_STORE[name]
    assert lacking({*inspect.signature(getattr(perdure.Store, name)).parameters}, record) == set()
    assert lacking({*inspect.signature(getattr(perdure.AsyncStore, name)).parameters}, record) == set()
    command = cli.get_command(click.Context(cli), name)
    assert lacking({each.name for each in command.params}, record) == ELSEWHERE.get(name, set())
    (route,) = [each for each in TABLE if (each.method, each.path) == ("GET", f"/v1/{name}")]
    assert lacking({*route.query.__struct_fields__}, record) == set()


def test_a_search_takes_every_filter_in_handles_command_and_route():
    record = filters.SearchFilters
    for handle in (perdure.Store, perdure.AsyncStore):
        assert lacking({*inspect.signature(handle.search).parameters}, record) == set()
    command = cli.get_command(click.Context(cli), "search")
    assert lacking({each.name for each in command.params}, record) == set()
    assert "speaker" in {each.name for each in command.params}  # --by: --actor names who asks
    (route,) = [each for each in TABLE if each.name == "search"]
    assert lacking({*route.query.__struct_fields__}, record) == set()


def test_control_a_command_that_leaves_one_out_is_found():
    @click.command()
    @filtered_by(RunFilters, without=("agent",))
    def listing() -> None: ...

    assert lacking({each.name for each in listing.params}, RunFilters) == {"agent"}


@pytest.mark.parametrize("name", OF_STORE)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(name):
    with perdure.open("memory:") as store:
        for field, each in filters_of(OF_STORE[name]).items():
            if each.sort in (FilterSort.WORD, FilterSort.NAME, FilterSort.INSTANT):
                with pytest.raises((Invalid, TooLarge)) as refused:
                    getattr(store, name)(**{field: "\0" * 300})
                assert refused.value.path == field


def test_parameters_of_a_statement_are_checked_words_and_names():
    asked = RunFilters(status="failed", agent="fix", errors=True, since="7d")
    given = {name: value for name, value in filter_params(asked).items() if value is not None}
    assert given == {"status": "failed", "agent": "fix", "errors": 1}


def test_a_filter_that_does_not_exist_is_refused():
    with perdure.open("memory:") as store, pytest.raises(TypeError, match="agnt"):
        store.runs(agnt="fix")
