"""Backends that answer, and refuse every write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from ledgerstone.commands import Command, Query
from ledgerstone.errors import ReadOnly
from ledgerstone.ports.backend import Backend, Progress
from ledgerstone.ports.vectors import NearStore
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.records.reports import Capabilities, Health, StoreStats

A = TypeVar("A")


class RefusingWrites:
    """The writing half of a backend: every call raises ReadOnly."""

    def write(self, command: Command[A]) -> A:
        _refuse(command)

    async def awrite(self, command: Command[A]) -> A:
        _refuse(command)

    def join(self, command: Command[A], connection: object) -> A:
        _refuse(command)

    async def ajoin(self, command: Command[A], connection: object) -> A:
        _refuse(command)


def _refuse(command: Command[Any]) -> NoReturn:
    raise ReadOnly(
        f"{type(command).__name__} refused: the store was opened with read_only=True; "
        "open it without to write"
    )


class ReadOnlyBackend(RefusingWrites):
    """Hands reads to the backend below."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.cursor_key = inner.cursor_key

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.inner.read(queries)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return await self.inner.aread(queries)

    def changed(self, seen: int, timeout_s: float) -> int:
        return self.inner.changed(seen, timeout_s)

    async def achanged(self, seen: int, timeout_s: float) -> int:
        return await self.inner.achanged(seen, timeout_s)

    def tenants(self) -> list[str]:
        return self.inner.tenants()

    def health(self) -> Health:
        return self.inner.health()

    def stats(self) -> StoreStats:
        return self.inner.stats()

    def backup(self, target: str, progress: Progress) -> None:
        self.inner.backup(target, progress)

    def close(self) -> None:
        self.inner.close()


class ReadOnlyNearStore(ReadOnlyBackend):
    """The same over a backend whose database finds near vectors by itself."""

    inner: Any

    def prepare_near(self, make: bool) -> bool:
        """Whether it can; nothing is made for it."""
        store: NearStore = self.inner
        return store.prepare_near(False)

    def near(
        self, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None:
        store: NearStore = self.inner
        return store.near(tenant, space, kind, query, most)

    async def anear(
        self, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None:
        store: NearStore = self.inner
        return await store.anear(tenant, space, kind, query, most)
