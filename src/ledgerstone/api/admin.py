"""store.admin: for operators."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledgerstone.api.attachments import INTENTS_KEPT_S
from ledgerstone.api.blob_reading import verify_blobs
from ledgerstone.api.garbage_collection import AsyncCollector
from ledgerstone.api.garbage_collection import Progress as GcProgress
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.api.loop_async import offload
from ledgerstone.api.sessions import AsyncSessions
from ledgerstone.api.transfer import AsyncCopy, root_of_tenant, silent
from ledgerstone.api.transfer import Progress as CopyProgress
from ledgerstone.clock import US_PER_S
from ledgerstone.commands.leases import RaiseFences
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.errors import CopyConflict, CopyDisturbed, Corrupt, InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.backups import BackedUp
from ledgerstone.records.blobs import Collected
from ledgerstone.records.reports import Defect, Health, StoreStats, Vacuumed, Verified
from ledgerstone.records.transfer import Copied, Root, TenantRoot
from ledgerstone.rules.transfer import root_of

if TYPE_CHECKING:
    from ledgerstone.api.store import AsyncStore

BYTES_KEPT_S = 3600
"""Bytes that nothing refers to are spared this long: somebody may be about to use them."""

NOTES_KEPT_S = 86_400
"""Notes of a node that never came are kept this long."""

FENCE_JUMP = 1 << 20
"""More leases than one session is granted between a backup and its restore."""

Progress = Callable[[int, int], object]


class AsyncAdmin(AsyncResource):
    """Health, finding damage, and tidying up."""

    def __init__(self, handle: AsyncHandle) -> None:
        super().__init__(handle)
        self._sessions = AsyncSessions(handle)

    async def health(self) -> Health:
        """Whether the backend is alive and can be written: leaves no trace, counts nothing.

        Fit for a liveness probe: what it costs does not grow with the store. `stats` counts.
        """
        health = await offload(self._handle.backend.health)
        return health if self._handle.operator else replace(health, warnings=[])

    async def stats(self) -> StoreStats:
        """Rows and sizes of the whole store, counted now: for operators, not for probes.

        Misuse on a tenant's handle.
        """
        self._handle.need_operator("admin.stats()")
        return await offload(self._handle.backend.stats)

    async def tenants(self) -> list[str]:
        """The tenants that have anything. Misuse on a tenant's handle."""
        self._handle.need_operator("admin.tenants()")
        return await offload(self._handle.backend.tenants)

    async def verify(
        self,
        session: SessionRef | None = None,
        *,
        whole: bool = True,
        blobs: bool = False,
        progress: Progress | None = None,
    ) -> Verified:
        """Check chain, parents, leaf, positions, references and value hashes; name each defect.

        Of one session, or of all of the tenant; then also of the file or the like that all tenants
        share, unless `whole` is False. `blobs`: also read all bytes of the tenant's blobs,
        wherever they are; without it only their rows are checked. `progress(done, total)` after
        each session.
        """
        names = await self._names(session)
        report = Verified()
        if session is None:
            everything = VerifyStore(tenant=self._tenant, whole=checks.flag(whole, "whole"))
            report = await self._verify(everything)
        for done, name in enumerate(names, start=1):
            one = await self._verify(VerifySession(tenant=self._tenant, session=name), name)
            report = Verified(
                sessions=report.sessions + one.sessions,
                turns=report.turns + one.turns,
                nodes=report.nodes + one.nodes,
                values=report.values + one.values,
                defects=[*report.defects, *one.defects],
            )
            if progress is not None:
                progress(done, len(names))
        if checks.flag(blobs, "blobs"):
            found = await verify_blobs(self._handle)
            defects = [*report.defects, *found.defects]
            report = replace(report, blobs=found.blobs, defects=defects)
        return report

    async def _verify(self, query: VerifyStore | VerifySession, session: str = "") -> Verified:
        """One part; what cannot even be read is a defect of it, not the end of the report."""
        try:
            return await self._ask(query)
        except Corrupt as error:
            found = Defect(session, "unreadable", f"{error.table} {error.field}", error.reason)
            return Verified(sessions=int(bool(session)), defects=[found])

    async def vacuum(
        self,
        session: SessionRef | None = None,
        *,
        unreachable: bool = False,
        older_than_s: float | None = None,
        dry_run: bool = False,
    ) -> Vacuumed:
        """Erase bodies of tombstoned nodes, old notes without a node, unused values.

        `unreachable`: also nodes that no branch shows. `older_than_s`: only what was hidden (or
        written, when unreachable) so long ago. Of one session, or of all of the tenant.
        """
        before_us = None
        if older_than_s is not None:
            before_us = self._ago_us(checks.seconds(older_than_s, "older_than_s"))
        report = Vacuumed(dry_run=checks.flag(dry_run, "dry_run"))
        for name in await self._names(session):
            one = await self._write(
                VacuumSession(
                    tenant=self._tenant,
                    session=name,
                    unreachable=checks.flag(unreachable, "unreachable"),
                    before_us=before_us,
                    notes_before_us=self._ago_us(NOTES_KEPT_S),
                    dry_run=dry_run,
                )
            )
            report = replace(
                report,
                nodes=report.nodes + one.nodes,
                notes=report.notes + one.notes,
                values=report.values + one.values,
                freed_bytes=report.freed_bytes + one.freed_bytes,
            )
        return report

    async def gc(
        self,
        *,
        dry_run: bool = False,
        older_than_s: float = BYTES_KEPT_S,
        attachments_older_than_s: float = INTENTS_KEPT_S,
        on_progress: GcProgress | None = None,
    ) -> Collected:
        """Remove bytes that nothing refers to, and what uploads and writers that died left.

        In this order: intents of attachments that no turn used, unused values of sessions,
        uploads that never ended, blobs without an artifact or an attachment, expired memories.
        Nothing younger than `older_than_s` goes (with 0 an upload that is going on fails).
        An upload that takes longer fails, and what it wrote goes after twice that time.
        Corrupt, before anything is removed, when a live checkpoint cannot be read.
        `on_progress(phase, done, total)`. Several collectors may run at once.
        """
        if on_progress is not None and not callable(on_progress):
            raise InvalidValue("on_progress", "a function of phase, done and total expected")
        collector = AsyncCollector(
            self._handle,
            await self._names(None),
            before_us=self._ago_us(checks.seconds(older_than_s, "older_than_s")),
            intents_before_us=self._ago_us(
                checks.seconds(attachments_older_than_s, "attachments_older_than_s")
            ),
            dry_run=checks.flag(dry_run, "dry_run"),
            on_progress=on_progress,
        )
        return await collector.collect()

    async def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: CopyProgress | None = None,
    ) -> BackedUp:
        """Copy the whole store, of all tenants and in use, to a new store at `path`, and verify it.

        It holds one moment: all that was acknowledged before the call, perhaps more. Blobs in a
        directory come along. Nothing is under the name before it is whole and verified; `force`
        replaces a store that is there. `progress(phase, done, total)`. InvalidValue, Corrupt,
        StorageFull; NotSupported, with the next step, in memory and on PostgreSQL. Misuse on a
        tenant's handle.
        """
        from ledgerstone.backups import back_up, silent

        self._handle.need_operator("admin.backup()")
        return await offload(
            partial(
                back_up,
                self._handle.backend,
                self._handle.equipment,
                path,
                force=checks.flag(force, "force"),
                progress=progress or silent,
            )
        )

    async def root(self, *, progress: CopyProgress | None = None) -> Root:
        """One hash over everything stored; stores that hold the same have the same, in any backend.

        Of the tenant, or of all tenants when the store has none. The store must be quiet: pages
        are read one after the other. `progress(phase, done, total)`.
        """
        found = [
            await root_of_tenant(self._handle.for_tenant(name), progress or silent)
            for name in await self._owners()
        ]
        return Root(root=root_of(found), tenants=found)

    async def copy_to(self, target: AsyncStore, *, progress: CopyProgress | None = None) -> Copied:
        """Copy everything into another store, of any backend: `source.admin.copy_to(target)`.

        Of the tenant, or of all tenants when the store has none. Hashes, times, links, fences and
        claims stay as they are. Nothing of the target is replaced: CopyConflict when it holds
        other content of the tenant. A copy that was interrupted goes on when it is called again.
        At the end both stores are read again and compared: CopyDisturbed when the source was
        written to meanwhile. Bytes are copied too, into the target's place for them. Until the
        copy has ended, `verify` of the target says so, and opening it warns.
        """
        source, other = self._handle, getattr(target, "_handle", None)
        if not isinstance(other, AsyncHandle):
            raise InvalidValue("target", f"a store expected, got {type(target).__name__}")
        if source.backend is other.backend:
            raise InvalidValue("target", "it is the very store that would be copied")
        names = await self._owners()
        copies = [
            AsyncCopy(source.for_tenant(name), other.for_tenant(name), progress or silent)
            for name in names
        ]
        done = []
        try:
            for copy in copies:
                await copy.begin()
            for copy in copies:
                done.append(await copy.run())
        except CopyConflict:
            for copy in copies:
                await copy.give_up()
            raise
        for name in await self._owners():
            if name not in names:
                raise CopyDisturbed(name, "sessions")
        for copy in copies:
            await copy.end()
        roots = [TenantRoot(tenant=one.tenant, root=one.root) for one in done]
        return Copied(root=root_of(roots), tenants=done)

    async def _owners(self) -> list[str]:
        tenant = self._handle.tenant_or_none
        return [tenant] if tenant is not None else await self.tenants()

    async def after_restore(self, *, jump: int = FENCE_JUMP) -> int:
        """To be called once when a backup was restored, before workers start; how many sessions.

        Every lease ends and every fence rises by more than may have been granted since the
        backup, so no fence that a worker or another system remembers is granted again. One
        transaction, whatever the number of sessions; in files one line per session. On
        PostgreSQL cursors of the feed stay good as well.
        """
        lift = checks.positive(jump, "jump")
        return await self._write(RaiseFences(tenant=self._tenant, jump=lift))

    def _ago_us(self, seconds: float) -> int:
        return self._handle.clock.now_us() - round(seconds * US_PER_S)

    async def _names(self, session: SessionRef | None) -> list[str]:
        if session is not None:
            return [checks.session_id(session)]
        return [one.id async for one in self._sessions.iter(order="id", deleted=True)]
