"""A connection behind a pooler in transaction mode: nothing outlives a transaction.

Two transactions may meet two servers. So whatever a connection is told on starting elsewhere is
said in each transaction here, and no statement stands outside of one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.port import Place, ServerSaid
from ledgerstone.sql.tx import Row

A = TypeVar("A")


class Pooled:
    """A driver's connection; `lead` is said right after BEGIN, with it."""

    def __init__(self, inner: Any, lead: str) -> None:
        self._inner = inner
        self._lead = lead
        self.opened_s = self.used_s = monotonic_s()
        self.place: Place | None = None

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
        return await self._within(self._inner.fetch, text, arguments, timeout_s)

    async def run(self, text: str, arguments: Sequence[Any], timeout_s: float) -> int:
        return await self._within(self._inner.run, text, arguments, timeout_s)

    async def script(self, text: str, timeout_s: float) -> None:
        begins = text.startswith("BEGIN")
        await self._inner.script(f"{text}; {self._lead}" if begins else text, timeout_s)

    def drop(self) -> None:
        self._inner.drop()

    async def _within(
        self,
        call: Callable[[str, Sequence[Any], float], Coroutine[Any, Any, A]],
        text: str,
        arguments: Sequence[Any],
        timeout_s: float,
    ) -> A:
        """In the transaction that is open, or in one of its own."""
        if not self.is_clean:
            return await call(text, arguments, timeout_s)
        ends_s = monotonic_s() + timeout_s
        await self.script("BEGIN", timeout_s)
        try:
            answer = await call(text, arguments, max(ends_s - monotonic_s(), 0.001))
        except ServerSaid:
            await self.script("ROLLBACK", max(ends_s - monotonic_s(), 0.001))
            raise
        await self.script("COMMIT", max(ends_s - monotonic_s(), 0.001))
        return answer
