"""The model of the subjects of Strands: it plays the task. Imported where the framework is installed."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import Any

from strands.models import Model  # pyright: ignore[reportMissingImports]

from perdure_evaluate.recovery.subjects.model_play import Playing, as_text, kept_in
from perdure_evaluate.recovery.subjects.strands import parts_of


class PlayingStrandsModel(Model):
    """Answers with the next operation of the task."""

    def __init__(self, playing: Playing) -> None:
        self._playing = playing

    def get_config(self) -> Any:
        """Nothing is configured."""
        return {}

    def update_config(self, **_config: Any) -> None:
        """Nothing is configured."""

    def structured_output(self, *args: Any, **options: Any) -> Any:
        """Nothing is structured here."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_args: Any, **_options: Any) -> AsyncGenerator[Any, None]:
        """The next call, or the end."""
        answer = self._playing.next_answer(kept_in(parts_of(messages)))
        text = as_text(answer.args)
        use = {"name": answer.tool, "toolUseId": f"tooluse_{uuid.uuid4().hex}"}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": use} if answer.tool else {}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": text}} if answer.tool else {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if answer.tool else "end_turn"}}


def model_of(playing: Playing) -> PlayingStrandsModel:
    """The model of a subject."""
    return PlayingStrandsModel(playing)
