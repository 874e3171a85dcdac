"""Incidents: one run explained to somebody who was not there."""

from __future__ import annotations

from perdure.interchange.bundle_out import Chosen
from perdure.planes import runs
from perdure.stores.core import Core
from perdure.stores.store import Reads


def chosen(reads: Reads, run: str) -> Chosen:
    """What belongs to an incident: the run, the runs that it started, and its session."""
    session = runs.run(reads, runs.find(reads, run)).session
    return Chosen(sessions=[session] if session else [], runs=[run])


def page(reads: Reads, *, run: str, core: Core) -> str:
    """The page."""
    return f"# {run}\n"
