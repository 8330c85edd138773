# Generated from api/admin.py by tools/make_sync.py: edit that, then run `make sync`.
"""store.admin: for operators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledgerstone.api.loop_blocking import offload
from ledgerstone.api_sync.attachments import INTENTS_KEPT_S
from ledgerstone.api_sync.blob_reading import verify_blobs
from ledgerstone.api_sync.collecting import Plan, collect
from ledgerstone.api_sync.collecting import Progress as GcProgress
from ledgerstone.api_sync.handle import Handle
from ledgerstone.api_sync.sessions import Sessions
from ledgerstone.api_sync.transfer import Progress as CopyProgress
from ledgerstone.api_sync.transfer import copy_tenant, root_of_tenant, silent
from ledgerstone.clock import US_PER_S
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.restored import RaiseFence, RaiseFloor
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.errors import Corrupt, InvalidValue, SessionNotFound
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.blobs import Collected
from ledgerstone.records.reports import Defect, Health, Vacuumed, Verified
from ledgerstone.records.transfer import Copied, Root, TenantRoot
from ledgerstone.rules.transfer import root_of

if TYPE_CHECKING:
    from ledgerstone.api_sync.store import Store

BYTES_KEPT_S = 3600
"""Bytes that nothing refers to are spared this long: somebody may be about to use them."""

NOTES_KEPT_S = 86_400
"""Notes of a node that never came are kept this long."""

FENCE_JUMP = 1 << 20
"""More leases than one session is granted between a backup and its restore."""

Progress = Callable[[int, int], object]


class Admin:
    """Health, proof and tidying up."""

    def __init__(self, handle: Handle, sessions: Sessions) -> None:
        self._handle = handle
        self._sessions = sessions

    def health(self) -> Health:
        """How the backend is doing; leaves no trace."""
        return offload(self._handle.backend.health)

    def tenants(self) -> list[str]:
        """The tenants that have anything; the one call a root handle may make."""
        return offload(self._handle.backend.tenants)

    def verify(
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
        names = self._names(session)
        report = (
            Verified() if session is not None else self._verify_store(checks.flag(whole, "whole"))
        )
        for done, name in enumerate(names, start=1):
            one = self._verify_one(name)
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
            found = verify_blobs(self._handle)
            defects = [*report.defects, *found.defects]
            report = replace(report, blobs=found.blobs, defects=defects)
        return report

    def _verify_store(self, whole: bool) -> Verified:
        """What belongs to no session; a file that can not be read is a defect of its own."""
        try:
            return self._handle.ask(VerifyStore(tenant=self._handle.tenant, whole=whole))
        except Corrupt as error:
            found = Defect("", "unreadable", f"{error.table} {error.field}", error.reason)
            return Verified(defects=[found])

    def _verify_one(self, name: str) -> Verified:
        """One session; what can not even be read is a defect of it, not the end of the report."""
        try:
            return self._handle.ask(VerifySession(tenant=self._handle.tenant, session=name))
        except Corrupt as error:
            found = Defect(name, "unreadable", f"{error.table} {error.field}", error.reason)
            return Verified(sessions=1, defects=[found])

    def vacuum(
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
        for name in self._names(session):
            one = self._handle.write(
                VacuumSession(
                    tenant=self._handle.tenant,
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

    def gc(
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
        Corrupt, before anything is removed, when a live checkpoint can not be read.
        `on_progress(phase, done, total)`. Several collectors may run at once.
        """
        if on_progress is not None and not callable(on_progress):
            raise InvalidValue("on_progress", "a function of phase, done and total expected")
        plan = Plan(
            sessions=self._names(None),
            before_us=self._ago_us(checks.seconds(older_than_s, "older_than_s")),
            intents_before_us=self._ago_us(
                checks.seconds(attachments_older_than_s, "attachments_older_than_s")
            ),
            dry_run=checks.flag(dry_run, "dry_run"),
            on_progress=on_progress,
        )
        return collect(self._handle, plan)

    def root(self, *, progress: CopyProgress | None = None) -> Root:
        """One hash over everything stored; stores that hold the same have the same, in any backend.

        Of the tenant, or of all tenants when the store has none. The store must be quiet: pages
        are read one after the other. `progress(phase, done, total)`.
        """
        found = [
            root_of_tenant(self._handle.for_tenant(name), progress or silent)
            for name in self._owners()
        ]
        return Root(root=root_of(found), tenants=found)

    def copy_to(self, target: Store, *, progress: CopyProgress | None = None) -> Copied:
        """Copy everything into another store, of any backend: `source.admin.copy_to(target)`.

        Of the tenant, or of all tenants when the store has none. Hashes, times, links, fences and
        claims stay as they are. Nothing of the target is replaced: CopyConflict when it holds
        other content of the tenant. A copy that was interrupted goes on when it is called again.
        At the end both stores are read again and compared: CopyDisturbed when the source was
        written to meanwhile. Bytes are copied too, into the target's place for them.
        """
        source, other = self._handle, getattr(target, "_handle", None)
        if not isinstance(other, Handle):
            raise InvalidValue("target", f"a store expected, got {type(target).__name__}")
        if source.backend is other.backend:
            raise InvalidValue("target", "it is the very store that would be copied")
        done = [
            copy_tenant(source.for_tenant(name), other.for_tenant(name), progress or silent)
            for name in self._owners()
        ]
        roots = [TenantRoot(tenant=one.tenant, root=one.root) for one in done]
        return Copied(root=root_of(roots), tenants=done)

    def _owners(self) -> list[str]:
        tenant = self._handle.tenant_or_none
        return [tenant] if tenant is not None else self.tenants()

    def after_restore(self, *, jump: int = FENCE_JUMP) -> int:
        """To be called once when a backup was restored, before workers start; how many sessions.

        Every lease ends and every fence rises by more than may have been granted since the
        backup, so no fence that a worker or another system remembers is granted again. On
        PostgreSQL cursors of the feed stay good as well.
        """
        tenant, lift = self._handle.tenant, checks.positive(jump, "jump")
        self._handle.write(RaiseFloor(tenant=tenant, jump=lift))
        names = self._names(None)
        for name in names:
            # Purged in the meantime: its stub was lifted, or has this very fence.
            with suppress(SessionNotFound):
                self._handle.write(RaiseFence(tenant=tenant, session=name, jump=lift))
        return len(names)

    def _ago_us(self, seconds: float) -> int:
        return self._handle.clock.now_us() - round(seconds * US_PER_S)

    def _names(self, session: SessionRef | None) -> list[str]:
        if session is not None:
            return [checks.session_id(session)]
        return [one.id for one in self._sessions.iter(order="id", deleted=True)]
