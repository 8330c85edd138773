"""What a handler may await: one open transaction of a SQL database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]


class Tx(Protocol):
    """A transaction; statements are called by name, arguments in the order of the .sql file."""

    now_us: int

    async def one(self, query: str, *arguments: Any) -> Row | None:
        """The only row, or None."""
        ...

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        """Every row."""
        ...

    async def run(self, query: str, *arguments: Any) -> int:
        """Change rows; how many were changed."""
        ...

    async def many(self, query: str, rows: Iterable[Row]) -> int:
        """The same change for many rows; how many were changed."""
        ...

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        """Every row whose text is one of the values: the last argument of the statement."""
        ...

    async def pick(self, query: str, **given: Any) -> list[Row]:
        """Rows of a statement with conditional lines; arguments that are None are not given."""
        ...
