"""The floor of the blocking face: the same statement over one connection of psycopg, no loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.contender import History
from bench.postgres import floor
from bench.postgres.floor import span, values
from bench.postgres.place import url
from bench.work import Message, Turn, decode

NAMES: Final = tuple("abcdefgh")


def named(statement: str) -> str:
    """Numbered parameters may occur twice; psycopg wants names for that."""
    return re.sub(r"\$(\d)", lambda found: f"%({NAMES[int(found[1]) - 1]})s", statement)


COMMIT: Final = named(floor.COMMIT)
READ_ALL: Final = named(floor.READ_ALL)
READ_LAST: Final = named(floor.READ_LAST)
ADD_HEADS: Final = named(floor.ADD_HEADS)


class BlockingFloor:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def create(self, numbers: Sequence[int]) -> None:
        self._execute(ADD_HEADS, list(numbers))

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    def commit(self, number: int, turn: Turn) -> None:
        if not self._execute(COMMIT, *values(number, turn)):
            raise RuntimeError(f"no session {number}")

    def tidy(self) -> None:
        """The server checkpoints."""

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        raise RuntimeError("filled by the floor with asyncpg, whose database this one copies")

    def load(self, number: int) -> list[Message]:
        return [decode(body) for (body,) in self._execute(READ_ALL, *span(number))]

    def last(self, number: int, count: int) -> list[Message]:
        rows = self._execute(READ_LAST, *span(number), count)
        rows.reverse()
        return [decode(body) for (body,) in rows]

    def close(self) -> None:
        self.connection.close()

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        given = dict(zip(NAMES, values, strict=False))
        cursor = self.connection.execute(statement, given, binary=True)
        return cursor.fetchall() if cursor.description else []


def open_blocking(path: Path) -> BlockingFloor:
    return BlockingFloor(psycopg.connect(url(path), autocommit=True, prepare_threshold=0))
