"""store.artifacts: named, versioned bytes of a session, a user or the whole tenant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ledgerstone import ids
from ledgerstone.api.blob_reading import AsyncBlobReader, read_whole
from ledgerstone.api.blob_writing_async import Data
from ledgerstone.api.blobs import put_blob
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.commands import artifacts as commands
from ledgerstone.commands.artifacts import GetArtifact, NewArtifact, Owner
from ledgerstone.errors import BlobNotFound, Corrupt, InvalidValue
from ledgerstone.intake import artifacts as intake
from ledgerstone.intake import checks
from ledgerstone.intake.artifacts import QUOTA, AnyArtifact, Fields
from ledgerstone.intake.blobs import Ref
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.artifacts import Artifact, ArtifactContent, Quota

ArtifactList: TypeAlias = list[Artifact]
_HINT = "store.artifacts.list(session=..., newest=False) shows all versions of a session's"


class AsyncArtifactReader(AsyncBlobReader):
    """An artifact that is being read; `.artifact` is which one, once it was entered."""

    artifact: Artifact

    def __init__(self, handle: AsyncHandle, query: GetArtifact, first: int = 0) -> None:
        super().__init__(handle, "", first)
        self._query = query

    @property
    def media_type(self) -> str | None:
        """The artifact's own, otherwise what is known of its bytes."""
        return self.artifact.media_type or super().media_type

    async def __aenter__(self) -> AsyncArtifactReader:
        query = self._query
        found = await self._handle.ask(query)
        if found is None or not intake.is_of(found, query):
            name = query.name or query.id or query.uri or ""
            raise BlobNotFound(name, noun="artifact", hint=_HINT)
        self.artifact, self.ref = found, found.ref
        await super().__aenter__()
        return self


class AsyncArtifacts(AsyncResource):
    """Artifacts by owner and name. Give `session`, or `user`, or neither: then the tenant's.

    A session need not exist; one that is deleted takes no writes: SessionDeleted.
    """

    async def put(
        self,
        name: str,
        data: Data | None = None,
        *,
        blob: Ref | None = None,
        session: SessionRef | None = None,
        user: str | None = None,
        id: str | None = None,
        media_type: str | None = None,
        metadata: object = None,
        tool: str | None = None,
        original_bytes: int | None = None,
        shown_bytes: int | None = None,
        uri: str | None = None,
        quota: Quota | None = QUOTA,
    ) -> Artifact:
        """Keep data (as of `blobs.put`), or a stored `blob`, as the next version of the name.

        The same id or uri of the same owner is replaced instead, and becomes the newest. The
        quota bounds sessions; None is no bound. Errors: QuotaExceeded, BlobNotFound,
        AlreadyExists when another owner has the id or uri, and those of `blobs.put`.
        """
        owner, quota = intake.owner_of(session, user), intake.quota_of(quota)
        fields: Fields = {
            "id": id,
            "media_type": media_type,
            "metadata": metadata,
            "tool": tool,
            "original_bytes": original_bytes,
            "shown_bytes": shown_bytes,
            "uri": uri,
        }
        intake.check_source(data, blob)
        intake.check_fields(name, fields)
        intake.check_fits(owner, quota, data)
        new = await self._stored(name, data, blob, fields)
        return await self._write(
            commands.PutArtifact(tenant=self._tenant, owner=owner, artifact=new, quota=quota)
        )

    async def get(
        self,
        name: str | None = None,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        version: int | None = None,
        id: str | Artifact | None = None,
        uri: str | None = None,
    ) -> Artifact | None:
        """The newest of a name or that version; by id or uri whoever owns it; or None."""
        owner = intake.owner_of(session, user)
        query = intake.search(self._tenant, owner, name, version, id, uri)
        found = await self._ask(query)
        return found if found is not None and intake.is_of(found, query) else None

    async def read(
        self,
        name: str | None = None,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        version: int | None = None,
        id: str | Artifact | None = None,
        uri: str | None = None,
    ) -> ArtifactContent | None:
        """The same with all its bytes; Corrupt when they are not what was put."""
        found = await self.get(name, session=session, user=user, version=version, id=id, uri=uri)
        if found is None:
            return None
        data = await read_whole(self._handle, found.ref)
        if data is None:
            raise Corrupt("artifacts", found.id, "ref", "its bytes are not there")
        return intake.with_bytes(found, data)

    def open(
        self,
        name: str | None = None,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        version: int | None = None,
        id: str | Artifact | None = None,
        uri: str | None = None,
        first: int = 0,
    ) -> AsyncArtifactReader:
        """A reader as of `blobs.open`, with the artifact as `.artifact`; BlobNotFound on entry."""
        owner = intake.owner_of(session, user)
        query = intake.search(self._tenant, owner, name, version, id, uri)
        return AsyncArtifactReader(self._handle, query, checks.whole(first, "first"))

    async def versions(
        self, name: str, *, session: SessionRef | None = None, user: str | None = None
    ) -> ArtifactList:
        """Every version of a name, the first one first."""
        found = await self.list(session=session, user=user, name=name, newest=False)
        return sorted(found, key=lambda artifact: artifact.version)

    async def list(
        self,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        name: str | None = None,
        newest: bool = True,
    ) -> ArtifactList:
        """All of an owner, the oldest first; `newest`: of each name only the newest version."""
        found = self.iter(session=session, user=user, name=name, newest=newest)
        return [artifact async for artifact in found]

    def iter(
        self,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        name: str | None = None,
        newest: bool = True,
    ) -> AsyncPages[Artifact]:
        """The same, read in chunks."""
        owner = intake.owner_of(session, user)
        wanted = None if name is None else ids.check_id(name, "name")
        checks.flag(newest, "newest")
        place = 0

        async def fetch(last: Artifact | None) -> ArtifactList:
            nonlocal place
            query = commands.ListArtifacts(
                tenant=self._tenant,
                owner=owner,
                name=wanted,
                newest=newest,
                after=place,
                limit=CHUNK,
            )
            rows = await self._ask(query)
            place = rows[-1].place if rows else place
            return [row.artifact for row in rows]

        return AsyncPages(fetch)

    async def save(
        self, session: SessionRef, artifacts: Iterable[AnyArtifact], *, quota: Quota | None = QUOTA
    ) -> ArtifactList:
        """Make the set of a session exactly these, in this order, all or nothing.

        Each one: an ArtifactContent, an Artifact, (name, data), or a dictionary with name and
        data or blob, and what `put` takes. With on_full="oldest_out" the first ones that do not
        fit are left out. Errors as of `put`.
        """
        id, quota = checks.session_id(session), intake.quota_of(quota)
        given = intake.take_set(artifacts)
        for one in given:
            intake.check_fits(Owner(id), quota, one.data)
        new = [await self._stored(one.name, one.data, one.blob, one.fields) for one in given]
        return await self._write(
            commands.SaveArtifacts(
                tenant=self._tenant, session=id, artifacts=tuple(new), quota=quota
            )
        )

    async def load(self, session: SessionRef) -> ArtifactList | None:
        """The set of a session in order; None when nothing was ever saved or put there."""
        id = checks.session_id(session)
        return await self._ask(commands.LoadArtifacts(tenant=self._tenant, session=id))

    async def delete(
        self,
        name: str | None = None,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        version: int | None = None,
        id: str | Artifact | None = None,
    ) -> int:
        """Every version of a name, one of them, or the artifact with this id; how many went."""
        owner = intake.owner_of(session, user)
        found = intake.search(self._tenant, owner, name, version, id, None)
        anybody = found.id is not None and owner == Owner()
        return await self._write(
            commands.DeleteArtifacts(
                tenant=self._tenant,
                owner=None if anybody else owner,
                name=found.name,
                version=found.version,
                id=found.id,
            )
        )

    async def clear(self, session: SessionRef | None = None, *, user: str | None = None) -> int:
        """Delete all artifacts of a session or a user; how many went."""
        owner = intake.owner_of(session, user)
        if owner == Owner():
            raise InvalidValue("session", "name the session or the user to clear")
        command = commands.DeleteArtifacts(tenant=self._tenant, owner=owner)
        return await self._write(command)

    async def _stored(
        self, name: str, data: Data | None, blob: Ref | None, fields: Fields
    ) -> NewArtifact:
        """What to keep, once its bytes are in their place."""
        if blob is None:
            assert data is not None, "checked by intake"
            made = await put_blob(self._handle, data, media_type=fields.get("media_type"))
            # The blob may have been put first by somebody who knew its type: not ours to repeat.
            return intake.new_artifact(name, made.ref, fields)
        return intake.new_artifact(name, blob, fields)
