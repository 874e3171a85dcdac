"""`PerdurePlugin`: the tools of Google ADK through the ledger. The framework stores the call before it calls, and a resumed
invocation calls again with the same id: the ledger then gives the result that stands, or settles the doubt. Keeps P2, P3, P4.
"""

from __future__ import annotations

from typing import Any

from google.adk.plugins.base_plugin import BasePlugin  # pyright: ignore[reportMissingImports]

from perdure.adapters import outward
from perdure.adapters.google_adk.sessions import name_of
from perdure.adapters.shared_store import SharedStore
from perdure.errors import NotFound
from perdure.model.records.conversation import Call


class PerdurePlugin(BasePlugin):
    """For `Runner(…, plugins=[PerdurePlugin(store)])`, beside `PerdureSessionService` on the same store.

    kinds: what tools do to the outside world, by name; also by `@perdure.tool` on their function. A tool that says nothing is
    unsafe: after a crash inside it the invocation raises InDoubt, until a person says what happened (`perdure settle`).
    """

    def __init__(self, store: Any, *, kinds: outward.Kinds | None = None, name: str = "perdure") -> None:
        super().__init__(name=name)
        self._shared = SharedStore(store)
        self._kinds = dict(kinds or {})

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Carry out the call, and give its result: the framework then does not call the tool itself."""
        declared = outward.declared_as(tool.name, getattr(tool, "func", None), self._kinds)
        if outward.reads_only(declared):
            return None
        about = tool_context.session
        session = await self._shared.aio.session(name_of(about.app_name, about.user_id, about.id))
        call = Call(tool_context.function_call_id, tool.name, tool_args)

        async def invoke() -> Any:
            return await tool.run_async(args=tool_args, tool_context=tool_context)

        try:
            result = await outward.act(session, call, declared, invoke)
        except NotFound as error:
            error.hint = (
                "give the runner PerdureSessionService on the same store: the call must be stored before it is sent"
            )
            raise
        return result if isinstance(result, dict) else {"result": result}

    async def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()
