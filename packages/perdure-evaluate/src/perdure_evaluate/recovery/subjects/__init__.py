"""Stores under test: one file each. `SUBJECTS` are measured, `CONTROLS` are broken on purpose and must be caught.

A subject of one's own is named by its file: `path/to/mine.py`, or `path/to/mine.py:Name` if there are several in it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from perdure.errors import Invalid
from perdure_evaluate.recovery.interface import Subject

_HERE = "perdure_evaluate.recovery.subjects"
SUBJECTS = {
    "json-file": f"{_HERE}.json_file:JsonFile",
    "json-renamed": f"{_HERE}.json_renamed:JsonRenamed",
    "sqlite-blob": f"{_HERE}.sqlite_blob:SqliteBlob",
    "jsonl-log": f"{_HERE}.jsonl_log:JsonlLog",
    "langgraph": f"{_HERE}.langgraph:LangGraph",
    "langgraph-nodes": f"{_HERE}.langgraph_nodes:LangGraphNodes",
    "langgraph-perdure": f"{_HERE}.langgraph_perdure:LangGraphPerdure",
    "openai-agents": f"{_HERE}.openai_agents:OpenAIAgents",
    "openai-perdure": f"{_HERE}.openai_perdure:OpenAIPerdure",
    "pydantic-ai": f"{_HERE}.pydantic_ai:PydanticAI",
    "pydantic-perdure": f"{_HERE}.pydantic_perdure:PydanticPerdure",
    "google-adk": f"{_HERE}.google_adk:GoogleAdk",
    "google-adk-perdure": f"{_HERE}.google_adk_perdure:GoogleAdkPerdure",
    "strands": f"{_HERE}.strands:Strands",
    "strands-perdure": f"{_HERE}.strands_perdure:StrandsPerdure",
    "agent-framework": f"{_HERE}.agent_framework:AgentFramework",
    "agent-framework-perdure": f"{_HERE}.agent_framework_perdure:AgentFrameworkPerdure",
    "dbos": f"{_HERE}.dbos:Dbos",
    "perdure-sqlite": f"{_HERE}.perdure_sqlite:PerdureSqlite",
    "perdure-postgres": f"{_HERE}.perdure_postgres:PerdurePostgres",
    "perdure-files": f"{_HERE}.perdure_files:PerdureFiles",
}
CONTROLS = {
    "control-unrecorded": f"{_HERE}.controls:Unrecorded",
    "control-unshared": f"{_HERE}.controls:Unshared",
    "control-unsynced": f"{_HERE}.controls:Unsynced",
    "control-buffered": f"{_HERE}.controls:Buffered",
    "control-in-place": f"{_HERE}.controls:InPlace",
    "control-unheeded": f"{_HERE}.controls:Unheeded",
    "control-leased": f"{_HERE}.controls:Leased",
    "control-stamped": f"{_HERE}.controls:Stamped",
    "control-unlogged": f"{_HERE}.controls_postgres:Unlogged",
    "control-unflushed": f"{_HERE}.controls_postgres:Unflushed",
    "control-deaf": f"{_HERE}.controls_postgres:Deaf",
    "control-again": f"{_HERE}.controls_postgres:Again",
    "control-unnamed": f"{_HERE}.controls:Unnamed",
    "control-unwatched": f"{_HERE}.controls:Unwatched",
    "control-cached": f"{_HERE}.controls:Cached",
    "control-tracked": f"{_HERE}.controls:Tracked",
    "control-trusting": f"{_HERE}.controls:Trusting",
    "control-normal": f"{_HERE}.controls:Normal",
}


@cache
def load(name: str) -> type[Subject]:
    """The class of a subject, by its name or its file. Raises Invalid for what is none."""
    place = {**SUBJECTS, **CONTROLS}.get(name)
    if place is not None:
        module, _, class_name = place.partition(":")
        return getattr(importlib.import_module(module), class_name)
    path, _, class_name = name.partition(":")
    if not path.endswith(".py"):
        raise Invalid(f"no subject {name[:80]!r}; there are {', '.join(SUBJECTS)}", path="subjects",
                      hint="or name a file: path/to/mine.py")  # fmt: skip
    return _only(_loaded(Path(path)), class_name, path)


def _loaded(path: Path) -> ModuleType:
    if not path.is_file():
        raise Invalid(f"there is no file {str(path)[:200]!r}", path="subjects")
    name = f"perdure_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Invalid(f"{path.name} cannot be imported: {type(error).__name__}: {error}", path="subjects") from error
    return module


def _only(module: ModuleType, class_name: str, path: str) -> type[Subject]:
    """The one subject of a file, or the one of that name."""
    candidates = [
        candidate
        for candidate in vars(module).values()
        if inspect.isclass(candidate) and issubclass(candidate, Subject) and not inspect.isabstract(candidate)
        and candidate.__module__ == module.__name__ and class_name in ("", candidate.__name__)
    ]  # fmt: skip
    if len(candidates) != 1:
        names = ", ".join(candidate.__name__ for candidate in candidates) or "none"
        raise Invalid(f"{path[:200]} has to have one subject{f' {class_name!r}' if class_name else ''}; found: {names}",
                      path="subjects", hint="name it: FILE.py:Name")  # fmt: skip
    return candidates[0]
