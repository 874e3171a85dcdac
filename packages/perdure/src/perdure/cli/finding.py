"""Sessions and runs by what people type: the name of a session, `run:` and the id of a run, or what is enough of that id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import Invalid, NotFound, ReadOnly

if TYPE_CHECKING:
    from perdure.handles.sync.run_handle import RunHandle
    from perdure.handles.sync.session import Session
    from perdure.handles.sync.store import Store

RUN = "run:"


def is_run(text: str) -> bool:
    """Whether this names a run, not a session."""
    return text.startswith(RUN)


def run_id(store: Store, text: str) -> str:
    """The whole id of a run: `run:4f1c2a9b77d0`, `4f1c2a9b77d0` or its first digits. Conflict lists those that begin so."""
    return store.run_id(text.removeprefix(RUN))


def find_run(store: Store, text: str) -> RunHandle:
    """The run that is meant."""
    return store.run(run_id(store, text))


def whole_id(store: Store, text: str) -> str:
    """The id of an effect or an ask, `run:4f1c2a9b77d0/12`, whose run may be shortened. Anything else is left to the store."""
    place, _, number = text.rpartition("/")
    try:
        return f"{RUN}{run_id(store, place)}/{number}" if is_run(place) else text
    except (NotFound, Invalid):
        return text


def find_session(store: Store, name: str) -> Session:
    """The session of this name; NotFound instead of making it: the store is open for reading alone."""
    try:
        return store.session(name)
    except ReadOnly:
        raise no_session(name) from None


def existing_session(store: Store, name: str) -> Session:
    """The session of this name; NotFound instead of making it, also in a store that is open for writing."""
    if not store.events(session=name, limit=1):
        raise no_session(name)
    return store.session(name)


def no_session(name: str) -> NotFound:
    """The error that says so."""
    return NotFound(f"there is no session {name!r}", path="session", hint="`perdure sessions` lists them")


def find_either(store: Store, name: str) -> Any:
    """The session or the run of this name; a session goes before a run. NotFound if there is neither."""
    if is_run(name):
        return find_run(store, name)
    try:
        return find_session(store, name)
    except NotFound:
        try:
            return find_run(store, name)
        except NotFound:
            hint = "`perdure sessions` and `perdure runs` list them"
            raise NotFound(f"there is no session or run {name!r}", path="name", hint=hint) from None


def of_stream(store: Store, name: str | None) -> dict[str, Any]:
    """The filter for the events of a session or a run. NotFound if there is none of this name."""
    if name is None:
        return {}
    if is_run(name):
        return {"run": run_id(store, name)}
    return {"session": find_session(store, name).name}
