"""Microsoft Agent Framework: sessions and workflows that last, and tools that are called once.

history = PerdureHistoryProvider("sqlite:///agent.db")
agent = Agent(client, tools=[…], context_providers=[history], middleware=history.middleware(), …)
"""

from __future__ import annotations

from perdure_adapters.framework_versions import need

need("agent-framework-core", (1, 13), (2,), "agent-framework")

from perdure_adapters.agent_framework.checkpoints import PerdureCheckpointStorage  # noqa: E402 - after it is known to be there
from perdure_adapters.agent_framework.history import PerdureHistoryProvider  # noqa: E402 - as above
from perdure_adapters.agent_framework.middleware import PerdureChatMiddleware, PerdureFunctionMiddleware  # noqa: E402 - as above

__all__ = ["PerdureChatMiddleware", "PerdureCheckpointStorage", "PerdureFunctionMiddleware", "PerdureHistoryProvider"]
