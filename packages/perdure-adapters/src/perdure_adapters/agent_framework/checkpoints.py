"""`PerdureCheckpointStorage`: checkpoints of workflows that last. Parts of a state that did not change are stored once.

    session agent_framework/WORKFLOW      checkpoints: key = checkpoint id, parent = the id before it; the state as values

Nothing is pickled: see `encoding`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from agent_framework import WorkflowCheckpoint  # pyright: ignore[reportMissingImports]
from agent_framework.exceptions import WorkflowCheckpointException  # pyright: ignore[reportMissingImports]

from perdure.errors import Damaged, Invalid
from perdure.planes.recovery import keyed
from perdure.planes.recovery.keyed import KeyedCheckpoint
from perdure_adapters.agent_framework.encoding import Encoding
from perdure_adapters.both import Asked, Both, Read, WriteIn, find_session
from perdure_adapters.shared_store import ClosedByBlock

NAME = "agent_framework"


class PerdureCheckpointStorage(ClosedByBlock):
    """For `WorkflowBuilder(…, checkpoint_storage=PerdureCheckpointStorage("sqlite:///agent.db"))`. store: a URL or an open store.

    allow: classes of your own that may stand in messages and states; any other class is refused, with its name and path, before
    anything is stored. Saving is one commit, durable when it returns.
    """

    def __init__(self, store: Any, *, allow: Iterable[type] = ()) -> None:
        self._both = Both(store)
        self._encoding = Encoding(allow)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Keep a checkpoint, and give its id. One of the same id is replaced. Raises WorkflowCheckpointException."""
        fields = checkpoint.to_dict()
        document = {"timestamp": checkpoint.timestamp}
        try:
            state = {name: self._encoding.encode(field, name) for name, field in fields.items()}
            session = await self._both.store.aio.session(_session(checkpoint.workflow_name))
            await session.checkpoint(
                state,
                name=NAME,
                key=checkpoint.checkpoint_id,
                parent=checkpoint.previous_checkpoint_id,
                document=document,
            )
        except Invalid as error:
            raise WorkflowCheckpointException(f"Checkpoint {checkpoint.checkpoint_id}: {error}") from error
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """A checkpoint by its id. WorkflowCheckpointException if there is none, or it names a class that is not allowed."""
        state = await self._both.arun(_load(checkpoint_id))
        if state is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._read(state)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow, the oldest first. Raises WorkflowCheckpointException as `load` does."""
        return [self._read(state) for state in await self._both.arun(_load_all(workflow_name))]

    async def delete(self, checkpoint_id: str) -> bool:
        """Take a checkpoint away; whether there was one. Recorded; `perdure collect` frees its bytes."""
        return await self._both.arun(_delete(checkpoint_id))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The checkpoint of a workflow with the newest timestamp; None if there is none."""
        state = await self._both.arun(_latest(workflow_name))
        return None if state is None else self._read(state)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The ids of the checkpoints of a workflow, the oldest first."""
        return [checkpoint.key for _, checkpoint in await self._both.arun(_all(workflow_name))]

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._both.close()

    def _read(self, state: Any) -> WorkflowCheckpoint:
        try:
            fields = {name: self._encoding.decode(field, name) for name, field in state.items()}
        except (Invalid, Damaged) as error:
            raise WorkflowCheckpointException(f"Checkpoint {state.get('checkpoint_id')}: {error}") from error
        return WorkflowCheckpoint.from_dict(fields)


def _session(workflow_name: str) -> str:
    return f"{NAME}/{workflow_name}"


def _find(checkpoint_id: str) -> Asked[tuple[Any, KeyedCheckpoint] | None]:
    """A checkpoint and its stream, in whichever workflow it is."""
    [checkpoint] = (yield Read(keyed.page_across, (NAME,), {"upto": checkpoint_id, "limit": 1})) or [None]
    if checkpoint is None or checkpoint.key != checkpoint_id:
        return None
    stream = yield from find_session(checkpoint.session)
    return None if stream is None else (stream, checkpoint)


def _load(checkpoint_id: str) -> Asked[Any]:
    place = yield from _find(checkpoint_id)
    return None if place is None else (yield Read(keyed.restore, (place[0], NAME, checkpoint_id)))


def _all(workflow_name: str) -> Asked[list[tuple[Any, KeyedCheckpoint]]]:
    stream = yield from find_session(_session(workflow_name))
    checkpoints: list[KeyedCheckpoint] = []
    page = [] if stream is None else (yield Read(keyed.page, (stream,), {"name": NAME}))
    while page:
        checkpoints += page
        page = yield Read(keyed.page, (stream,), {"name": NAME, "before": page[-1].key})
    return [(stream, checkpoint) for checkpoint in sorted(checkpoints, key=lambda checkpoint: checkpoint.seq)]


def _load_all(workflow_name: str) -> Asked[list[Any]]:
    states = []
    for stream, checkpoint in (yield from _all(workflow_name)):
        states.append((yield Read(keyed.restore, (stream, NAME, checkpoint.key))))
    return [state for state in states if state is not None]  # one may have been deleted meanwhile


def _latest(workflow_name: str) -> Asked[Any]:
    checkpoints = yield from _all(workflow_name)
    if not checkpoints:
        return None
    stream, newest = max(checkpoints, key=lambda stored: datetime.fromisoformat(stored[1].document["timestamp"]))
    return (yield Read(keyed.restore, (stream, NAME, newest.key)))


def _delete(checkpoint_id: str) -> Asked[bool]:
    place = yield from _find(checkpoint_id)
    if place is None:
        return False
    stream, checkpoint = place
    return bool((yield WriteIn(stream, keyed.drop, ([checkpoint.seq],))))
