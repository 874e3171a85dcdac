"""OpenAI Agents: sessions that last, and runs that are paid for and carried out once.

Runner.run(agent, "…", session=PerdureSession("s1", "sqlite:///agent.db"))
DurableRunner.run(agent, "…", session=PerdureSession("s1", "sqlite:///agent.db"), key="request-7")
"""

from __future__ import annotations

from perdure_adapters.framework_versions import need

need("openai-agents", (0, 20), (0, 30), "openai-agents")

from perdure_adapters.forms.openai_items import ITEMS  # noqa: E402 - after the framework is known to be there
from perdure_adapters.openai_agents.runner import DurableRunner, durable_function_tool  # noqa: E402 - as above
from perdure_adapters.openai_agents.session import PerdureSession  # noqa: E402 - as above

__all__ = ["ITEMS", "DurableRunner", "PerdureSession", "durable_function_tool"]
