"""The model of the subjects of Strands: it plays the task. Imported where the framework is installed."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import Any

from strands.models import Model  # pyright: ignore[reportMissingImports]

from perdure_evaluate.recovery.subjects.playing import Playing, as_text, kept_in
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
        wanted = self._playing.next_answer(kept_in(parts_of(messages)))
        said = as_text(wanted.args)
        use = {"name": wanted.tool, "toolUseId": f"tooluse_{uuid.uuid4().hex}"}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {"toolUse": use} if wanted.tool else {}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": said}} if wanted.tool else {"text": said}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if wanted.tool else "end_turn"}}


def model_of(playing: Playing) -> PlayingStrandsModel:
    """The model of a subject."""
    return PlayingStrandsModel(playing)
