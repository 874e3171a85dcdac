"""`PerdureArtifactService`: files of Google ADK, each version kept.

    scope adk.files/APP/USER             FILE ─▶ how many versions · FILE#N ─▶ the part and what is known of it
    scope adk.files/APP/USER/SESSION     likewise, of one session; names that begin with `user:` stand above

Bytes are kept once for equal content, compressed, and in the artifact place when they are large.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from google.adk.artifacts import artifact_util  # pyright: ignore[reportMissingImports]
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part  # pyright: ignore[reportMissingImports]
from google.adk.errors.input_validation_error import InputValidationError  # pyright: ignore[reportMissingImports]
from google.genai import types  # pyright: ignore[reportMissingImports]

from perdure.errors import Invalid
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery
from perdure.model.limits import check_name
from perdure_adapters.shared_store import SharedStore

REFERENCES_MAX = 10


class PerdureArtifactService(BaseArtifactService):
    """For `Runner(…, artifact_service=PerdureArtifactService("sqlite:///agent.db"))`. store: a URL or an open store.

    Versions count from 0. A save is one commit: two processes that save one file make two versions.
    """

    def __init__(self, store: Any) -> None:
        self._shared = SharedStore(store)

    async def save_artifact(
        self, *, app_name: str, user_id: str, filename: str, artifact: types.Part | dict[str, Any],
        session_id: str | None = None, custom_metadata: dict[str, Any] | None = None,
    ) -> int:  # fmt: skip
        """Keep a new version; gives its number. Raises InputValidationError for a part that is no file, or a bad name."""
        part = ensure_part(artifact)
        scope, owner = _place(app_name, user_id, session_id, filename)
        mime = _mime(part, app_name, user_id, session_id)
        record = part.model_dump(mode="python", exclude_none=True)

        def save(tx: Atomic) -> int:
            values, name = tx.scope(scope), _name(filename)
            version = values.get(name, 0)
            uri = f"perdure://{owner}/artifacts/{quote(filename, safe=':')}/versions/{version}"
            about = ArtifactVersion(
                version=version, canonical_uri=uri, custom_metadata=custom_metadata or {}, mime_type=mime
            )
            values.set(f"{name}#{version}", {"part": record, "about": about.model_dump(mode="json", exclude_none=True)})
            values.set(name, version + 1)
            return version

        try:
            return await self._shared.aio.atomic(save)
        except Invalid as error:
            raise InputValidationError(f"{filename!r} cannot be kept: {error}") from error

    async def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        """A version, or the newest; None if it is not there. References to other artifacts are followed."""
        return await self._load(app_name, user_id, filename, session_id, version, REFERENCES_MAX)

    async def _load(
        self, app: str, user: str, filename: str, session_id: str | None, version: int | None, depth: int
    ) -> types.Part | None:
        entry = await self._entry_of(app, user, filename, session_id, version)
        if entry is None:
            return None
        part = types.Part.model_validate(entry["part"])
        if artifact_util.is_artifact_ref(part):
            at = artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri,
                app_name=app,
                user_id=user,
                session_id=session_id,
                remaining_depth=depth,
            )  # type: ignore[union-attr]
            return await self._load(at.app_name, at.user_id, at.filename, at.session_id, at.version, depth - 1)
        return None if part == types.Part() or artifact_util._is_rewind_tombstone(part) else part

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """The names of the files of a user and, if one is given, of a session."""
        scopes = [_scope(app_name, user_id, None)] + ([_scope(app_name, user_id, session_id)] if session_id else [])
        names: set[str] = set()
        for scope in scopes:
            values = await self._shared.aio.scope(scope)
            names |= {unquote(entry.name) async for entry in aevery(values.entries) if "#" not in entry.name}
        return sorted(names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Let a file go, with all its versions. Idempotent."""
        scope, _ = _place(app_name, user_id, session_id, filename)

        def delete(tx: Atomic) -> None:
            values, name = tx.scope(scope), _name(filename)
            for version in range(values.get(name, 0)):
                values.unset(f"{name}#{version}")
            values.unset(name)

        await self._shared.aio.atomic(delete)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of its versions."""
        scope, _ = _place(app_name, user_id, session_id, filename)
        return list(range(await (await self._shared.aio.scope(scope)).get(_name(filename), 0)))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Its versions with what is known of each."""
        where = {"app_name": app_name, "user_id": user_id, "filename": filename, "session_id": session_id}
        versions = [
            await self.get_artifact_version(**where, version=number) for number in await self.list_versions(**where)
        ]
        return [version for version in versions if version is not None]

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> ArtifactVersion | None:
        """A version, or the newest, and what is known of it; None if it is not there."""
        entry = await self._entry_of(app_name, user_id, filename, session_id, version)
        return None if entry is None else ArtifactVersion.model_validate(entry["about"])

    async def _entry_of(
        self, app: str, user: str, filename: str, session_id: str | None, version: int | None
    ) -> dict[str, Any] | None:
        scope, _ = _place(app, user, session_id, filename)
        values, name = await self._shared.aio.scope(scope), _name(filename)
        number = await values.get(name, 0) - 1 if version is None else version
        return await values.get(f"{name}#{number}") if number >= 0 else None

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


def _scope(app: str, user: str, session_id: str | None) -> str:
    artifact_util.validate_path_segment(app, "app_name")
    artifact_util.validate_path_segment(user, "user_id")
    if session_id is not None:
        artifact_util.validate_path_segment(session_id, "session_id")
    parts = [app, user] if session_id is None else [app, user, session_id]
    return "/".join(("adk.files", *(quote(part, safe=" ") for part in parts)))


def _place(app: str, user: str, session_id: str | None, filename: str) -> tuple[str, str]:
    """The scope of a file, and its owner as an address says it."""
    if filename.startswith("user:"):
        return _scope(app, user, None), f"apps/{app}/users/{user}"
    if session_id is None:
        raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
    return _scope(app, user, session_id), f"apps/{app}/users/{user}/sessions/{session_id}"


def _name(filename: str) -> str:
    """The name of a file in its scope: it is no path here, however it looks."""
    try:
        name = quote(filename, safe=" ")
        check_name(name and f"{name}#0", "filename")
    except (Invalid, UnicodeEncodeError) as error:
        raise InputValidationError(f"no file can have the name {filename!r}: {error}") from error
    return name


def _mime(part: types.Part, app: str, user: str, session_id: str | None) -> str | None:
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return "text/plain"
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if not artifact_util.is_artifact_ref(part):
        return part.file_data.mime_type
    parsed = artifact_util.parse_artifact_uri(part.file_data.file_uri or "")
    if not parsed:
        raise InputValidationError(f"Invalid artifact reference URI: {part.file_data.file_uri}")
    artifact_util.validate_artifact_reference_scope(
        app_name=app, user_id=user, session_id=session_id, parsed_uri=parsed
    )
    return None
