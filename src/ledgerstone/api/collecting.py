"""The collector: what nothing refers to any more goes, in an order that no crash can harm.

First everything that is live is looked at, so that damage stops it before anything is removed.
Bytes have an upload row before they are deleted and lose it afterwards; whoever dies in between
leaves that row to the next collector. Several may run at once: each step is decided in a
transaction of its own, and counted by the one whose step it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from ledgerstone.api.attachments import sweep_intents
from ledgerstone.api.blob_reading import place_named
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import offload
from ledgerstone.blobs.database import NAME as DATABASE
from ledgerstone.commands.blobs import (
    CheckRoots,
    CondemnUpload,
    CountBlobs,
    DropBlob,
    ForgetUpload,
    ListUncommitted,
    ListUnreferenced,
    ListUploads,
)
from ledgerstone.commands.memories import SweepMemories
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.errors import NotSupported
from ledgerstone.records.blobs import Blob, Collected, Upload

PAGE = 200
MEMORIES_PAGE = 1000
ALL = 2**31 - 1

Progress = Callable[[str, int, int], object]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How old what may go must be, in which sessions, and whether it really goes."""

    sessions: list[str]
    before_us: int
    intents_before_us: int
    dry_run: bool
    on_progress: Progress | None = None

    def tell(self, phase: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(phase, done, total)


class Reach:
    """Which places can be got at; what lies elsewhere stays, and is counted."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle
        self._known: dict[str, bool] = {}
        self.elsewhere = 0

    async def find(self, name: str) -> bool:
        if name not in self._known:
            try:
                await offload(partial(place_named, self._handle, name))
                self._known[name] = True
            except NotSupported:
                self._known[name] = False
        self.elsewhere += not self._known[name]
        return self._known[name]


async def collect(handle: AsyncHandle, plan: Plan) -> Collected:
    """All of it; Corrupt before anything is removed when a live checkpoint cannot be read."""
    roots = await _mark(handle, plan)
    counts = await handle.ask(CountBlobs(tenant=handle.tenant))
    attachments = await _sweep_intents(handle, plan)
    values, value_bytes = await _sweep_values(handle, plan)
    reach = Reach(handle)
    uploads = await _sweep_uploads(handle, plan, reach)
    deleted, blob_bytes = await _sweep_blobs(handle, plan, reach)
    memories = await _sweep_memories(handle, plan.dry_run)
    plan.tell("memories", memories, memories)
    left = counts.blobs - deleted
    if not plan.dry_run:
        left = (await handle.ask(CountBlobs(tenant=handle.tenant))).blobs
    return Collected(
        roots=roots + counts.roots,
        retained=left,
        deleted=deleted,
        freed_bytes=value_bytes + blob_bytes,
        values=values,
        uploads=uploads,
        attachments=attachments,
        memories=memories,
        elsewhere=reach.elsewhere,
        dry_run=plan.dry_run,
    )


async def _mark(handle: AsyncHandle, plan: Plan) -> int:
    """Count what live checkpoints refer to; Corrupt is the end of the collection."""
    roots, tenant, total = 0, handle.tenant, len(plan.sessions)
    for at in range(0, total, PAGE):
        names = plan.sessions[at : at + PAGE]
        queries = [CheckRoots(tenant=tenant, session=name) for name in names]
        roots += sum(await handle.backend.aread(queries))
        plan.tell("mark", at + len(names), total)
    return roots


async def _sweep_intents(handle: AsyncHandle, plan: Plan) -> int:
    if plan.dry_run:
        cutoff_us = plan.intents_before_us
        found = await handle.ask(ListUncommitted(tenant=handle.tenant, cutoff_us=cutoff_us))
        swept = len(found)
    else:
        swept = await sweep_intents(handle, plan.intents_before_us)
    plan.tell("attachments", swept, swept)
    return swept


async def _sweep_values(handle: AsyncHandle, plan: Plan) -> tuple[int, int]:
    """Values of sessions that nothing names; how many, and their bytes."""
    values = freed = 0
    for done, name in enumerate(plan.sessions, start=1):
        one = await handle.write(
            VacuumSession(
                tenant=handle.tenant, session=name, values_only=True, dry_run=plan.dry_run
            )
        )
        values, freed = values + one.values, freed + one.freed_bytes
        plan.tell("values", done, len(plan.sessions))
    return values, freed


async def _sweep_uploads(handle: AsyncHandle, plan: Plan, reach: Reach) -> int:
    """Bytes that a writer or a collector left when it died."""
    swept, after, tenant = 0, "", handle.tenant
    while True:
        page = await handle.ask(
            ListUploads(tenant=tenant, before_us=plan.before_us, after=after, limit=PAGE)
        )
        if not page:
            plan.tell("uploads", swept, swept)
            return swept
        for upload in page:
            if await reach.find(upload.place):
                swept += await _sweep_upload(handle, plan, upload)
        after = page[-1].key


async def _sweep_upload(handle: AsyncHandle, plan: Plan, upload: Upload) -> bool:
    # Bytes in the database come and go with the row. Elsewhere a slow writer may put more of them
    # after they were deleted, so the row waits for as long again, and they are deleted again.
    last = upload.leaving or upload.place == DATABASE
    if plan.dry_run:
        return last
    condemned = await handle.write(
        CondemnUpload(tenant=handle.tenant, key=upload.key, before_us=plan.before_us)
    )
    if condemned is None:
        return False
    if last:
        return await _remove(handle, condemned)
    await _delete_bytes(handle, condemned)
    return False


async def _sweep_blobs(handle: AsyncHandle, plan: Plan, reach: Reach) -> tuple[int, int]:
    """What nothing refers to; how many, and their bytes."""
    deleted = freed = found = 0
    after = ""
    while True:
        page = await handle.ask(
            ListUnreferenced(
                tenant=handle.tenant,
                before_us=plan.before_us,
                intents_before_us=plan.intents_before_us if plan.dry_run else -1,
                after=after,
                limit=PAGE,
            )
        )
        if not page:
            plan.tell("blobs", deleted, found)
            return deleted, freed
        found += len(page)
        for blob in page:
            if await reach.find(blob.place) and await _sweep_blob(handle, plan, blob):
                deleted, freed = deleted + 1, freed + blob.size_bytes
        after = page[-1].ref


async def _sweep_blob(handle: AsyncHandle, plan: Plan, blob: Blob) -> bool:
    if plan.dry_run:
        return True
    dropped = await handle.write(
        DropBlob(tenant=handle.tenant, ref=blob.ref, before_us=plan.before_us)
    )
    if dropped is None:
        return False
    await _remove(handle, dropped)
    return True


async def _remove(handle: AsyncHandle, upload: Upload) -> bool:
    """The bytes, then their row; False when another collector was faster."""
    await _delete_bytes(handle, upload)
    return await handle.write(ForgetUpload(tenant=handle.tenant, key=upload.key))


async def _delete_bytes(handle: AsyncHandle, upload: Upload) -> None:
    def work() -> None:
        place_named(handle, upload.place).delete(handle.tenant, upload.key)

    await offload(work)


async def _sweep_memories(handle: AsyncHandle, dry_run: bool) -> int:
    if dry_run:
        return await handle.write(SweepMemories(tenant=handle.tenant, limit=ALL, dry_run=True))
    swept, gone = 0, MEMORIES_PAGE
    while gone == MEMORIES_PAGE:
        gone = await handle.write(SweepMemories(tenant=handle.tenant, limit=MEMORIES_PAGE))
        swept += gone
    return swept
