"""What the target of a copy has already, met again in the order it was written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeAlias

from ledgerstone.commands.transfer import Row
from ledgerstone.errors import CopyConflict
from ledgerstone.rules.transfer import TABLES

Item: TypeAlias = tuple[str, Row]
"""A table and a row of it."""


class AsyncSeen:
    """Rows of the target, a page in memory at a time."""

    def __init__(self, tenant: str, pages: AsyncIterator[list[Item]]) -> None:
        self._tenant = tenant
        self._pages = pages
        self._held: list[Item] = []
        self.count = 0

    async def any(self) -> bool:
        """Whether the target has anything that was not met yet."""
        if not self._held:
            async for page in self._pages:
                self._held = page
                break
        return bool(self._held)

    async def rest(self, items: list[Item]) -> list[Item]:
        """Those of the source's rows that the target has not; CopyConflict when it has others."""
        while items and await self.any():
            size = min(len(items), len(self._held))
            held, self._held = self._held[:size], self._held[size:]
            if held != items[:size]:
                raise self._conflict(next(a for a, b in zip(held, items, strict=False) if a != b))
            items = items[size:]
            self.count += size
        return items

    async def end(self) -> None:
        """CopyConflict when the target has more than the source."""
        if await self.any():
            raise self._conflict(self._held[0])

    def _conflict(self, item: Item) -> CopyConflict:
        table, row = item
        return CopyConflict(table, " ".join(map(str, TABLES[table].key_of(row))), self._tenant)
