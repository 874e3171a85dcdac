"""Pydantic AI: agent runs that survive their process, and conversations that last.

agent = Agent("openai:gpt-5", name="support", capabilities=[PerdureDurability()])

@perdure.agent
async def support(run, question):
    with within(run):
        return (await agent.run(question)).output

store = PerdureConversationStore("sqlite:///agent.db")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure_adapters.framework_versions import need

need("pydantic-ai-slim", (2, 40), (3,), "pydantic-ai")

from perdure_adapters.pydantic_ai.durability import PerdureDurability, within  # noqa: E402 - the framework is there

if TYPE_CHECKING:
    from perdure_adapters.pydantic_ai.conversations import PerdureConversationStore

__all__ = ["PerdureConversationStore", "PerdureDurability", "within"]


def __getattr__(name: str) -> object:
    """`PerdureConversationStore` is looked for when it is asked for: its base class is younger than the durability seam."""
    if name != "PerdureConversationStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need("pydantic-ai-slim", (2, 66), (3,), "pydantic-ai")
    from perdure_adapters.pydantic_ai.conversations import PerdureConversationStore  # noqa: PLC0415 - as above

    return PerdureConversationStore
