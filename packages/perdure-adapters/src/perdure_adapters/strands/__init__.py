"""Strands: sessions that last, and tools that are called once.

agent = Agent(tools=[…], session_manager=PerdureSessionManager("order-7", "sqlite:///agent.db"))
"""

from __future__ import annotations

from perdure_adapters.framework_versions import need

need("strands-agents", (1, 50), (2,), "strands")

from perdure_adapters.strands.agent_sessions import PerdureSessionManager  # noqa: E402 - after it is known to be there
from perdure_adapters.strands.hooks import PerdureHooks  # noqa: E402 - as above
from perdure_adapters.strands.repository import PerdureSessionRepository  # noqa: E402 - as above
from perdure_adapters.strands.storage import PerdureStorage  # noqa: E402 - as above

__all__ = ["PerdureHooks", "PerdureSessionManager", "PerdureSessionRepository", "PerdureStorage"]
