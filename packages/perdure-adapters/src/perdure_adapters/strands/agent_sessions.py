"""`PerdureSessionManager`: sessions of Strands that last, with the ledger for their tools, in one line of an agent."""

from __future__ import annotations

from typing import Any

from strands.hooks import HookRegistry  # pyright: ignore[reportMissingImports]
from strands.session.repository_session_manager import RepositorySessionManager  # pyright: ignore[reportMissingImports]
from strands.types.session import SessionAgent  # pyright: ignore[reportMissingImports]

from perdure_adapters import tool_calls
from perdure_adapters.strands.hooks import PerdureHooks
from perdure_adapters.strands.repository import PerdureSessionRepository


class PerdureSessionManager(RepositorySessionManager):
    """For `Agent(session_manager=PerdureSessionManager("order-7", "sqlite:///agent.db"))`. store: a URL or an open store.

    kinds: what tools do to the outside world, by name; see PerdureHooks. After a crash, make the agent anew with its session and
    call it with no prompt: it goes on where it was. A session that another framework began is continued.
    """

    def __init__(self, session_id: str, store: Any, *, kinds: tool_calls.Kinds | None = None, **options: Any) -> None:
        repository = PerdureSessionRepository(store)
        super().__init__(session_id, repository, **options)
        self._is_new_session = False  # also a new session of the framework may have turns of another one
        self._hooks = PerdureHooks(repository.shared.sync, kinds=kinds)

    def register_hooks(self, registry: HookRegistry, **options: Any) -> None:
        """Register the session's callbacks, and the ledger's."""
        super().register_hooks(registry, **options)
        self._hooks.register_hooks(registry, **options)

    def initialize(self, agent: Any, **options: Any) -> None:
        """Give an agent its conversation, also one that was held in another framework."""
        repository = self.session_repository
        assert isinstance(repository, PerdureSessionRepository)
        unknown = repository.read_agent(self.session_id, agent.agent_id) is None
        if unknown and repository.has_turns(self.session_id, agent.agent_id):
            repository.create_agent(self.session_id, SessionAgent.from_agent(agent))
        super().initialize(agent, **options)

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        assert isinstance(self.session_repository, PerdureSessionRepository)
        self.session_repository.close()
