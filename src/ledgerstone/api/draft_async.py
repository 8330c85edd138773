"""A streamed answer, kept while it grows: a task writes what was buffered."""

from __future__ import annotations

import asyncio
from typing import Any

from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands.nodes import AnnotateNodes, NewNote
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.errors import LedgerstoneError
from ledgerstone.intake.checks import default_owner
from ledgerstone.intake.content import Content
from ledgerstone.intake.drafting import FLUSH_S, DraftBuffer
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.sessions import Session


class Draft:
    """`write` never waits; chunks are kept every 250 ms or 2 kB.

    A clean exit adds the message to the turn and drops the draft with its commit. After an
    exception the draft stays: `drafts.list` finds it, `turn.adopt` or `drafts.discard` end it.
    """

    def __init__(
        self,
        handle: AsyncHandle,
        content: Content,
        lease: AnyLease | None,
        create: Session | None,
        fields: dict[str, Any],
    ) -> None:
        self._handle = handle
        self._content = content
        self._create = create
        self._buffer = DraftBuffer(default_owner() if lease is None else lease.owner, fields)
        self._wake = asyncio.Event()
        self._flusher: asyncio.Task[None] | None = None
        self._leaving = False
        self._keep_rest = True
        self._error: LedgerstoneError | None = None

    @property
    def id(self) -> str:
        """The id the message will have."""
        return self._buffer.id

    @property
    def text(self) -> str:
        """Everything written so far."""
        return self._buffer.text

    def set(self, **fields: Any) -> None:
        """Fields that are known only later, such as usage or finish_reason."""
        self._buffer.set(fields)

    def write(self, token: str) -> None:
        """Add text; raises what went wrong when earlier text could not be kept."""
        if self._error is not None:
            raise self._error
        self._buffer.write(token)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        if self._buffer.is_full:
            self._wake.set()

    async def __aenter__(self) -> Draft:
        tenant = self._handle.tenant
        if self._create is not None:
            await self._handle.write(
                CreateSession(
                    tenant=tenant, session=self._create, ensure=True, parent_rule="exists"
                )
            )
        await self._keep(self._buffer.start())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._leaving, self._keep_rest = True, kind is not None
        self._wake.set()
        if self._flusher is not None:
            # A chunk that arrived after the commit would bring the draft back: wait for it.
            await asyncio.shield(self._flusher)
        if kind is not None:
            return
        if self._error is not None:
            raise self._error
        self._content.add(self._buffer.message())
        self._content.extend("drop_drafts", (self._buffer.id,))

    async def _flush(self) -> None:
        while not self._buffer.is_kept:
            try:
                async with asyncio.timeout(FLUSH_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            if self._leaving and not self._keep_rest:
                return
            self._wake.clear()
            if not await self._send() and self._leaving:
                return

    async def _send(self) -> bool:
        note = self._buffer.chunk()
        try:
            if note is not None:
                await self._keep(note)
                self._buffer.sent()
        except LedgerstoneError as error:
            # What may succeed later is tried again with the next chunk; the text is not lost.
            if not error.retryable:
                self._error = error
                self._leaving, self._keep_rest = True, False
                self._wake.set()
            return False
        return True

    async def _keep(self, note: NewNote) -> None:
        await self._handle.write(
            AnnotateNodes(tenant=self._handle.tenant, session=self._content.session, notes=(note,))
        )
