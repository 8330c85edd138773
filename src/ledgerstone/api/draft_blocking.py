"""The blocking twin of draft_async.py: `write` itself keeps what has waited long enough."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ledgerstone.api_sync.handle import Handle
from ledgerstone.clock import monotonic_s
from ledgerstone.commands.nodes import AnnotateNodes, NewNote
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.errors import LedgerstoneError
from ledgerstone.intake.checks import default_owner
from ledgerstone.intake.content import Content
from ledgerstone.intake.drafting import FLUSH_S, DraftBuffer
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.sessions import Session


class Draft:
    """Chunks are kept at the first `write` after 250 ms or 2 kB.

    A clean exit adds the message to the turn and drops the draft with its commit. After an
    exception the draft stays: `drafts.list` finds it, `turn.adopt` or `drafts.discard` end it.
    """

    def __init__(
        self,
        handle: Handle,
        content: Content,
        lease: AnyLease | None,
        create: Session | None,
        fields: dict[str, Any],
    ) -> None:
        self._handle = handle
        self._content = content
        self._create = create
        self._buffer = DraftBuffer(default_owner() if lease is None else lease.owner, fields)
        self._kept_s = monotonic_s()

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
        """Add text; what may succeed later is tried again with the next chunk."""
        self._buffer.write(token)
        if self._buffer.is_full or monotonic_s() - self._kept_s >= FLUSH_S:
            try:
                self._flush()
            except LedgerstoneError as error:
                if not error.retryable:
                    raise

    def __enter__(self) -> Draft:
        tenant = self._handle.tenant
        if self._create is not None:
            self._handle.write(
                CreateSession(
                    tenant=tenant, session=self._create, ensure=True, parent_rule="exists"
                )
            )
        self._keep(self._buffer.start())
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            # The caller's own exception matters more than a last chunk that could not be kept.
            with suppress(LedgerstoneError):
                self._flush()
            return
        self._content.add(self._buffer.message())
        self._content.extend("drop_drafts", (self._buffer.id,))

    def _flush(self) -> None:
        self._kept_s = monotonic_s()
        while not self._buffer.is_kept:
            note = self._buffer.chunk()
            if note is not None:
                self._keep(note)
                self._buffer.sent()

    def _keep(self, note: NewNote) -> None:
        self._handle.write(
            AnnotateNodes(tenant=self._handle.tenant, session=self._content.session, notes=(note,))
        )
