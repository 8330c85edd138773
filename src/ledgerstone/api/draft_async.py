"""A streamed answer, kept while it grows: a task writes what was buffered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property

from ledgerstone.api.drafts import AsyncDraftNotes
from ledgerstone.errors import LedgerstoneError
from ledgerstone.intake.drafts import FLUSH_S


class Draft(AsyncDraftNotes):
    """`write` never waits; chunks are kept every 250 ms or 2 kB.

    A clean exit adds the message to the turn and drops the draft with its commit. After an
    exception the draft stays: `drafts.list` finds it, `turn.adopt` or `drafts.discard` end it.
    """

    _flusher: asyncio.Task[None] | None = None
    _leaving = False
    _keep_rest = True
    _error: LedgerstoneError | None = None

    @cached_property
    def _wake(self) -> asyncio.Event:
        return asyncio.Event()

    def write(self, token: str) -> None:
        """Add text; raises what went wrong when earlier text could not be kept."""
        if self._error is not None:
            raise self._error
        self._add(token)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        if self._is_full:
            self._wake.set()

    async def __aenter__(self) -> Draft:
        await self._begin()
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
        self._finish()

    async def _flush(self) -> None:
        while not self._is_kept:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._wake.wait()
            if self._leaving and not self._keep_rest:
                return
            self._wake.clear()
            if not await self._send() and self._leaving:
                return

    async def _send(self) -> bool:
        note = self._chunk()
        try:
            if note is not None:
                await self._keep(note)
                self._sent()
        except LedgerstoneError as error:
            # What may succeed later is tried again with the next chunk; the text is not lost.
            if not error.retryable:
                self._error = error
                self._leaving, self._keep_rest = True, False
                self._wake.set()
            return False
        return True
