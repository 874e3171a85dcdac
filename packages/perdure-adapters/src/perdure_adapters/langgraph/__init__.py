"""LangGraph on Perdure: `PerdureSaver` for checkpoints, `PerdureStore` for memory across threads, `ledger` and
`PerdureMiddleware` for tool calls and answers of models, `messages` to read a session that any framework wrote.

See docs/adapters/langgraph.md. Importing it needs LangGraph; `PerdureMiddleware` needs langchain as well.
"""

from typing import TYPE_CHECKING, Any

from perdure_adapters.framework_versions import need

need("langgraph", (1, 1), (2,), "langgraph")
need("langgraph-checkpoint", (4, 0), (5,), "langgraph")

from perdure_adapters.langgraph.ledger import ToolLedger, ledger  # noqa: E402 - after the framework is known to be there
from perdure_adapters.langgraph.saver import PerdureSaver  # noqa: E402 - as above
from perdure_adapters.langgraph.serde import StrictSerializer, UnknownType  # noqa: E402 - as above
from perdure_adapters.langgraph.store import PerdureStore  # noqa: E402 - as above
from perdure_adapters.langgraph.turns import messages  # noqa: E402 - as above

if TYPE_CHECKING:
    from perdure_adapters.langgraph.middleware import PerdureMiddleware

__all__ = [
    "PerdureMiddleware",
    "PerdureSaver",
    "PerdureStore",
    "StrictSerializer",
    "ToolLedger",
    "UnknownType",
    "ledger",
    "messages",
]


def __getattr__(name: str) -> Any:
    if name != "PerdureMiddleware":
        raise AttributeError(name)
    need("langchain", (1, 0), (2,))  # no extra brings it: a graph does without
    from perdure_adapters.langgraph.middleware import PerdureMiddleware  # noqa: PLC0415 - langchain is loaded only for it

    return PerdureMiddleware
