"""Garbage collection: what nothing refers to any more goes, in an order that no crash can harm.

First everything that is live is looked at, so that damage stops it before anything is removed.
Bytes have an upload row before they are deleted and lose it afterwards; whoever dies in between
leaves that row to the next collector. Several may run at once: each step is decided in a
transaction of its own, and counted by the one whose step it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ledgerstone.api.attachments import sweep_intents
from ledgerstone.api.blob_reading import place_named
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import offload
from ledgerstone.blobs.database import NAME as DATABASE
from ledgerstone.commands import blobs as commands
from ledgerstone.commands.blobs import ListUncommitted
from ledgerstone.commands.memories import SweepMemories
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.errors import NotSupported
from ledgerstone.records.blobs import Blob, Collected, Upload

PAGE = 200
MEMORIES_PAGE = 1000
ALL = 2**31 - 1

Progress = Callable[[str, int, int], object]


class AsyncCollector:
    """One garbage collection of a tenant.

    What is younger than `before_us` stays, and intents of attachments younger than
    `intents_before_us`. A dry run only counts.
    """

    def __init__(
        self,
        handle: AsyncHandle,
        sessions: list[str],
        *,
        before_us: int,
        intents_before_us: int,
        dry_run: bool,
        on_progress: Progress | None,
    ) -> None:
        self._handle = handle
        self._tenant = handle.tenant
        self._sessions = sessions
        self._before_us = before_us
        self._intents_before_us = intents_before_us
        self._dry_run = dry_run
        self._on_progress = on_progress
        self._reachable: dict[str, bool] = {}
        self._elsewhere = 0

    async def collect(self) -> Collected:
        """All of it; Corrupt before anything is removed when a live checkpoint cannot be read."""
        roots = await self._mark()
        counts = await self._handle.ask(commands.CountBlobs(tenant=self._tenant))
        attachments = await self._sweep_intents()
        values, value_bytes = await self._sweep_values()
        uploads = await self._sweep_uploads()
        deleted, blob_bytes = await self._sweep_blobs()
        memories = await self._sweep_memories()
        left = counts.blobs - deleted
        if not self._dry_run:
            left = (await self._handle.ask(commands.CountBlobs(tenant=self._tenant))).blobs
        return Collected(
            roots=roots + counts.roots,
            retained=left,
            deleted=deleted,
            freed_bytes=value_bytes + blob_bytes,
            values=values,
            uploads=uploads,
            attachments=attachments,
            memories=memories,
            elsewhere=self._elsewhere,
            dry_run=self._dry_run,
        )

    def _report(self, phase: str, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(phase, done, total)

    async def _mark(self) -> int:
        """Count what live checkpoints refer to; Corrupt is the end of the collection."""
        roots, total = 0, len(self._sessions)
        for at in range(0, total, PAGE):
            names = self._sessions[at : at + PAGE]
            queries = [commands.CheckRoots(tenant=self._tenant, session=name) for name in names]
            roots += sum(await self._handle.backend.aread(queries))
            self._report("mark", at + len(names), total)
        return roots

    async def _sweep_intents(self) -> int:
        cutoff_us = self._intents_before_us
        if self._dry_run:
            query = ListUncommitted(tenant=self._tenant, cutoff_us=cutoff_us)
            found = await self._handle.ask(query)
            swept = len(found)
        else:
            swept = await sweep_intents(self._handle, cutoff_us)
        self._report("attachments", swept, swept)
        return swept

    async def _sweep_values(self) -> tuple[int, int]:
        """Values of sessions that nothing names; how many, and their bytes."""
        values = freed = 0
        for done, name in enumerate(self._sessions, start=1):
            command = VacuumSession(
                tenant=self._tenant, session=name, values_only=True, dry_run=self._dry_run
            )
            one = await self._handle.write(command)
            values, freed = values + one.values, freed + one.freed_bytes
            self._report("values", done, len(self._sessions))
        return values, freed

    async def _sweep_uploads(self) -> int:
        """Bytes that a writer or a collector left when it died."""
        swept, query = (
            0,
            partial(commands.ListUploads, tenant=self._tenant, before_us=self._before_us),
        )
        after = ""
        while page := await self._handle.ask(query(after=after, limit=PAGE)):
            for upload in page:
                if await self._can_reach(upload.place):
                    swept += await self._sweep_upload(upload)
            after = page[-1].key
        self._report("uploads", swept, swept)
        return swept

    async def _sweep_upload(self, upload: Upload) -> bool:
        # Bytes in the database come and go with the row. Elsewhere a slow writer may put more of
        # them after they were deleted, so the row waits for as long again, and they are deleted
        # again.
        last = upload.leaving or upload.place == DATABASE
        if self._dry_run:
            return last
        condemned = await self._handle.write(
            commands.CondemnUpload(tenant=self._tenant, key=upload.key, before_us=self._before_us)
        )
        if condemned is None:
            return False
        if last:
            return await self._remove(condemned)
        await self._delete_bytes(condemned)
        return False

    async def _sweep_blobs(self) -> tuple[int, int]:
        """What nothing refers to; how many, and their bytes."""
        deleted = freed = found = 0
        query = partial(
            commands.ListUnreferenced,
            tenant=self._tenant,
            before_us=self._before_us,
            intents_before_us=self._intents_before_us if self._dry_run else -1,
            limit=PAGE,
        )
        after = ""
        while page := await self._handle.ask(query(after=after)):
            found += len(page)
            for blob in page:
                if await self._can_reach(blob.place) and await self._sweep_blob(blob):
                    deleted, freed = deleted + 1, freed + blob.size_bytes
            after = page[-1].ref
        self._report("blobs", deleted, found)
        return deleted, freed

    async def _sweep_blob(self, blob: Blob) -> bool:
        if self._dry_run:
            return True
        dropped = await self._handle.write(
            commands.DropBlob(tenant=self._tenant, ref=blob.ref, before_us=self._before_us)
        )
        if dropped is None:
            return False
        await self._remove(dropped)
        return True

    async def _can_reach(self, place: str) -> bool:
        """Whether a place can be got at; what lies elsewhere stays, and is counted."""
        if place not in self._reachable:
            try:
                await offload(partial(place_named, self._handle, place))
                self._reachable[place] = True
            except NotSupported:
                self._reachable[place] = False
        self._elsewhere += not self._reachable[place]
        return self._reachable[place]

    async def _remove(self, upload: Upload) -> bool:
        """The bytes, then their row; False when another collector was faster."""
        await self._delete_bytes(upload)
        return await self._handle.write(commands.ForgetUpload(tenant=self._tenant, key=upload.key))

    async def _delete_bytes(self, upload: Upload) -> None:
        def work() -> None:
            place_named(self._handle, upload.place).delete(self._tenant, upload.key)

        await offload(work)

    async def _sweep_memories(self) -> int:
        if self._dry_run:
            command = SweepMemories(tenant=self._tenant, limit=ALL, dry_run=True)
            swept = await self._handle.write(command)
        else:
            command = SweepMemories(tenant=self._tenant, limit=MEMORIES_PAGE)
            swept, gone = 0, MEMORIES_PAGE
            while gone == MEMORIES_PAGE:
                gone = await self._handle.write(command)
                swept += gone
        self._report("memories", swept, swept)
        return swept
