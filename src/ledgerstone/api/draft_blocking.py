"""The blocking twin of draft_async.py: `write` itself keeps what has waited long enough."""

from __future__ import annotations

from contextlib import suppress

from ledgerstone.api_sync.drafts import DraftNotes
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import LedgerstoneError
from ledgerstone.intake.drafts import FLUSH_S


class Draft(DraftNotes):
    """Chunks are kept at the first `write` after 250 ms or 2 kB.

    A clean exit adds the message to the turn and drops the draft with its commit. After an
    exception the draft stays: `drafts.list` finds it, `turn.adopt` or `drafts.discard` end it.
    """

    _kept_s = 0.0

    def write(self, token: str) -> None:
        """Add text; what may succeed later is tried again with the next chunk."""
        self._add(token)
        if self._is_full or monotonic_s() - self._kept_s >= FLUSH_S:
            try:
                self._flush()
            except LedgerstoneError as error:
                if not error.retryable:
                    raise

    def __enter__(self) -> Draft:
        self._begin()
        self._kept_s = monotonic_s()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            # The caller's own exception matters more than a last chunk that could not be kept.
            with suppress(LedgerstoneError):
                self._flush()
            return
        self._finish()

    def _flush(self) -> None:
        self._kept_s = monotonic_s()
        while not self._is_kept:
            note = self._chunk()
            if note is not None:
                self._keep(note)
                self._sent()
