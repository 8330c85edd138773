"""A connection behind a pooler in transaction mode: nothing outlives a transaction.

Two transactions may meet two servers. So whatever a connection is told on starting elsewhere is
said in each transaction here, and no statement stands outside of one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.port import Row, ServerSaid, Slot


class Pooled:
    """A driver's connection; `lead` is said right after BEGIN, with it."""

    def __init__(self, inner: Any, lead: str) -> None:
        self._inner = inner
        self._lead = lead
        self.opened_s = self.used_s = monotonic_s()
        self.place: Slot | None = None

    @property
    def raw(self) -> Any:
        return self._inner.raw

    @property
    def is_open(self) -> bool:
        return bool(self._inner.is_open)

    @property
    def is_clean(self) -> bool:
        return bool(self._inner.is_clean)

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        """In the transaction that is open, or in one of its own."""
        fetch: Callable[..., Coroutine[Any, Any, list[Row]]] = self._inner.fetch
        if not self.is_clean:
            return await fetch(text, arguments, timeout_s)
        ends_s = monotonic_s() + timeout_s
        await self.script("BEGIN", timeout_s)
        try:
            answer = await fetch(text, arguments, max(ends_s - monotonic_s(), 0.001))
        except ServerSaid:
            await self.script("ROLLBACK", max(ends_s - monotonic_s(), 0.001))
            raise
        await self.script("COMMIT", max(ends_s - monotonic_s(), 0.001))
        return answer

    async def script(self, text: str, timeout_s: float) -> None:
        begins = text.startswith("BEGIN")
        await self._inner.script(f"{text}; {self._lead}" if begins else text, timeout_s)

    def drop(self) -> None:
        self._inner.drop()
