"""LangGraph on Perdure: `PerdureSaver` for checkpoints. See docs/adapters/langgraph.md."""

from perdure.adapters.needed import need

need("langgraph", (1, 1), (2,), "langgraph")
need("langgraph-checkpoint", (4, 0), (5,), "langgraph")

from perdure.adapters.langgraph.saver import PerdureSaver  # noqa: E402 - after the framework is known to be there
from perdure.adapters.langgraph.serde import StrictSerializer, UnknownType  # noqa: E402 - as above

__all__ = ["PerdureSaver", "StrictSerializer", "UnknownType"]
