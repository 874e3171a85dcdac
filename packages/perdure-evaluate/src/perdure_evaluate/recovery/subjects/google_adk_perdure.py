"""Google ADK with its adapter: the agent of `google-adk` with `PerdureSessionService` and `PerdurePlugin`."""
# ruff: noqa: D102, PLC0415 - the verbs are described by the interface; a peer is imported where it is installed

from __future__ import annotations

import asyncio
from typing import Any

from perdure_evaluate.recovery.subjects.google_adk import REQUEST, GoogleAdk
from perdure_evaluate.recovery.subjects.model_play_perdure import KINDS_OF_TOOLS, Ledgered


class GoogleAdkPerdure(Ledgered, GoogleAdk):
    """The session is one of the store."""

    about = "Google ADK with PerdureSessionService and PerdurePlugin on SQLite: resumable"

    def converse(self, message: str | None) -> None:
        super().converse(message)
        if _unanswered(asyncio.run(self.session(self.service())).events):
            self.wait_for_doubts()

    def next_message(self, events: list[Any], message: str | None) -> dict[str, Any]:
        """Confirmations come first: a person has settled their effects."""
        from google.genai import types  # type: ignore[import-not-found]

        responses = [
            types.FunctionResponse(id=request.id, name=REQUEST, response={"confirmed": True})
            for request in _unanswered(events)
        ]
        if not responses:
            return super().next_message(events, message)
        parts = [types.Part(function_response=response) for response in responses]
        return {"new_message": types.Content(role="user", parts=parts)}

    def plugins(self) -> list[Any]:
        from perdure_adapters.google_adk import PerdurePlugin

        return [PerdurePlugin(self.store, kinds=KINDS_OF_TOOLS)]

    def service(self) -> Any:
        from perdure_adapters.google_adk import PerdureSessionService

        return PerdureSessionService(self.store)


def _unanswered(events: list[Any]) -> list[Any]:
    """The requests for a confirmation that nobody has answered."""
    answered = {response.id for event in events for response in event.get_function_responses()}
    calls = [call for event in events for call in event.get_function_calls()]
    return [call for call in calls if call.name == REQUEST and call.id not in answered]
