"""The third port: who finds the nearest vectors.

An index holds the vectors of one space in memory and is fed from the store, so every engine works
on every backend and they differ in speed only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Protocol, TypeAlias, runtime_checkable

from ledgerstone.records.embeddings import Space, VectorRow

Accept: TypeAlias = Callable[[VectorRow], bool]
"""Whether a row is wanted; it is asked before the row is scored, and not about its vector."""


class VectorIndex(Protocol):
    """The vectors of one tenant and model."""

    def __len__(self) -> int: ...

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows, or replace those of the same kind and id."""
        ...

    def keep(self, names: Set[tuple[str, str]]) -> None:
        """Drop every row whose kind and id is not among these."""
        ...

    def ranked(
        self, query: Sequence[float], first: int, accept: Accept
    ) -> Iterator[tuple[float, VectorRow]]:
        """Accepted rows with their cosine, best first, ties by id; `first` is how many are
        expected to be read, the rest may cost more. A zero vector scores 0.
        """
        ...


@runtime_checkable
class NearStore(Protocol):
    """A backend whose database finds near vectors by itself."""

    def prepare_near(self, make: bool) -> bool:
        """Whether it can; `make`: see to it, NotSupported when that fails."""
        ...

    def near(
        self, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None:
        """At most so many rows, about the nearest, in no order; None: ask somebody else."""
        ...

    async def anear(
        self, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None: ...


class VectorEngine(Protocol):
    """Makes indexes."""

    @property
    def name(self) -> str: ...

    def index(self, dimension: int) -> VectorIndex: ...
