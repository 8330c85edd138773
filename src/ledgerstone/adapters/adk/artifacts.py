"""ADK's artifact service: named, versioned parts of a session or of a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import (
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
)
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from ledgerstone.adapters.adk.keys import ADK, name_of, owner_id, stored_id
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
from ledgerstone.errors import InvalidValue
from ledgerstone.records.artifacts import Artifact, ArtifactContent, Quota

USER = "user:"
REFERENCES_MAX = 5
"""Maximum length of a chain of references."""
US_PER_S = 1_000_000
TEXT = "text/plain"
BYTES = "application/octet-stream"
SURROGATES = "surrogatepass"
"""Half a character, which some models give, comes back as it was."""
_ABSENT = types.Part(inline_data=types.Blob(mime_type=BYTES, data=b""))
"""What a rewind saves in the place of an artifact that was not there before."""

Where: TypeAlias = tuple[str, str, str, str | None]
"""As ADK says it: app, user, name of the file, session."""


class LedgerArtifactService(BaseArtifactService):
    """Artifacts of ADK in a sync or async store; versions count from 0.

    A name that begins with "user:", or any name without a session, belongs to the user. `quota`
    bounds what a session may keep; without one there is no bound. `unowned` as of the sessions.
    """

    def __init__(
        self, store: AnyStore, *, quota: Quota | None = None, unowned: bool = False
    ) -> None:
        self._store = store
        self._runner = StoreRunner(store)
        self._quota = quota
        self._unowned = unowned

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """The next version: bytes, text, or a reference. InputValidationError for other parts."""
        part = ensure_part(artifact)
        _check_reference(part, app_name, user_id, session_id)
        data, rest = _packed(part)
        made: Artifact = await self._call(
            self._store.artifacts.put,
            (app_name, user_id, filename, session_id),
            data,
            media_type=_media_type(part),
            metadata={ADK: {"part": rest, "custom": custom_metadata or {}}},
            quota=self._quota,
        )
        return made.version - 1

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """The newest or that version, as it was saved; references are followed in their scope."""
        for left in range(REFERENCES_MAX, -1, -1):
            part = await self._part((app_name, user_id, filename, session_id), version)
            if part is None or not artifact_util.is_artifact_ref(part):
                return part
            target = artifact_util.resolve_artifact_reference(
                file_uri=_uri(part),
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
            filename, session_id, version = target.filename, target.session_id, target.version
        return None

    @runs_async
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Every name that can be loaded here, those of the user with "user:"; sorted."""
        found = await of(self._store.artifacts.list(user=owner_id(app_name, user_id)))
        names = [USER + one.name for one in found]
        if session_id is not None:
            id = await self._session(app_name, user_id, session_id)
            names += [one.name for one in await of(self._store.artifacts.list(session=id))]
        return sorted(names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """All versions; the next save begins at 0 again."""
        where = (app_name, user_id, filename, session_id)
        await self._call(self._store.artifacts.delete, where)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of all versions, from 0."""
        where = (app_name, user_id, filename, session_id)
        found: list[Artifact] = await self._call(self._store.artifacts.versions, where)
        return [one.version - 1 for one in found]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """All versions with what is known of them."""
        where = (app_name, user_id, filename, session_id)
        found: list[Artifact] = await self._call(self._store.artifacts.versions, where)
        return [_described(one, *where) for one in found]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """What is known of the newest or that version, or None."""
        where = (app_name, user_id, filename, session_id)
        found: Artifact | None = await self._one(self._store.artifacts.get, where, version)
        return None if found is None else _described(found, *where)

    async def _part(self, where: Where, version: int | None) -> types.Part | None:
        found: ArtifactContent | None = await self._one(self._store.artifacts.read, where, version)
        if found is None:
            return None
        part = _unpacked(found.data, _known(found).get("part", {}), found.media_type)
        return None if part == _ABSENT else part

    async def _one(self, method: Callable[..., Any], where: Where, version: int | None) -> Any:
        """What the store answers for a version as ADK counts it, or None."""
        if version is not None and version < 0:
            return None
        number = None if version is None else version + 1
        return await self._call(method, where, version=number)

    @runs_async
    async def _call(
        self, method: Callable[..., Any], where: Where, *args: Any, **options: Any
    ) -> Any:
        """What the store answers, for the owner and the name that ADK means."""
        app, user, filename, session = where
        if not isinstance(filename, str):
            raise InvalidValue("filename", f"text expected, got {type(filename).__name__}")
        owner = {"user": owner_id(app, user)}
        if not filename.startswith(USER) and session is not None:
            owner = {"session": await self._session(app, user, session)}
        name = filename.removeprefix(USER) if "user" in owner else filename
        return await of(method(name, *args, **owner, **options))

    async def _session(self, app: str, user: str, session: str) -> str:
        name = name_of(session)
        if not name:
            raise InvalidValue("session_id", "must not be empty")
        return await stored_id(self._store, app, user, name, unowned=self._unowned)


def _packed(part: types.Part) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a part, and all else it says, in JSON."""
    rest: dict[str, Any] = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    if part.inline_data is not None:
        rest["inlineData"].pop("data", None)
        return part.inline_data.data or b"", rest
    if part.text is not None:
        rest["text"] = ""
        return part.text.encode("utf-8", SURROGATES), rest
    if part.file_data is not None:
        uri: str = rest["fileData"].pop("fileUri", "")
        return uri.encode("utf-8", SURROGATES), rest
    raise InputValidationError("Not supported artifact type.")


def _unpacked(data: bytes, rest: dict[str, Any], media_type: str | None) -> types.Part:
    """The part again; bytes that another program kept are inline data."""
    if "text" in rest:
        return types.Part.model_validate({**rest, "text": data.decode("utf-8", SURROGATES)})
    if "fileData" in rest:
        return types.Part.model_validate(
            {**rest, "fileData": {**rest["fileData"], "fileUri": data.decode("utf-8", SURROGATES)}}
        )
    part = types.Part.model_validate(rest or {"inlineData": {"mimeType": media_type or BYTES}})
    if part.inline_data is not None:
        part.inline_data.data = data
    return part


def _media_type(part: types.Part) -> str | None:
    """What the bytes are; of a reference that is not known before it is followed."""
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return TEXT
    if artifact_util.is_artifact_ref(part):
        return None
    return part.file_data.mime_type if part.file_data else None


def _check_reference(part: types.Part, app: str, user: str, session: str | None) -> None:
    """A reference may only point at what its owner could load."""
    if not artifact_util.is_artifact_ref(part):
        return
    parsed = artifact_util.parse_artifact_uri(_uri(part))
    if parsed is None:
        raise InputValidationError(f"Invalid artifact reference URI: {_uri(part)}")
    artifact_util.validate_artifact_reference_scope(
        app_name=app, user_id=user, session_id=session, parsed_uri=parsed
    )


def _uri(part: types.Part) -> str:
    return (part.file_data.file_uri if part.file_data else None) or ""


def _known(artifact: Artifact) -> dict[str, Any]:
    metadata = artifact.metadata
    known = metadata.get(ADK) if isinstance(metadata, dict) else None
    return known if isinstance(known, dict) else {}


def _described(
    found: Artifact, app: str, user: str, filename: str, session: str | None
) -> ArtifactVersion:
    number = found.version - 1
    scope = None if found.user is not None else session
    return ArtifactVersion(
        version=number,
        canonical_uri=artifact_util.get_artifact_uri(app, user, filename, number, scope),
        custom_metadata=_known(found).get("custom", {}),
        create_time=found.created_us / US_PER_S,
        mime_type=found.media_type,
    )
