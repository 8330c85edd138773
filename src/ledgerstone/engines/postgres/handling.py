"""Commands and queries, carried out over the rows of PostgreSQL."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands import Command, Query
from ledgerstone.commands.leases import RaiseFences
from ledgerstone.engines.postgres import reads
from ledgerstone.engines.postgres.fences import raise_fences
from ledgerstone.engines.postgres.writing import NumberWanted, WritingRows
from ledgerstone.errors import LedgerstoneError, NotSupported
from ledgerstone.handlers.registry import Handler, handler_of
from ledgerstone.tables.transaction import Tx

OWN: dict[type, Handler[Any, Any]] = {**reads.OWN, RaiseFences: raise_fences}
"""What PostgreSQL does in a way of its own."""


class Before(msgspec.Struct):
    """What became of earlier tries of a command: over a lost connection, or any."""

    lost: bool = False
    again: bool = False


async def answer(tx: Tx, query: Query[Any]) -> Any:
    """Answer one query."""
    return await _handler(query)(tx, query)


async def carry_out(
    rows: WritingRows, command: Command[Any], now_us: int, *, strict: bool
) -> tuple[Any, Tx]:
    """The answer to a command, and what was written for it."""
    found, tx = await _decide(rows, command, now_us, strict=strict)
    await rows.flush(tx)
    return found, tx


async def _decide(
    rows: WritingRows, command: Command[Any], now_us: int, *, strict: bool
) -> tuple[Any, Tx]:
    """Let the handler decide; what it refuses on an assumption it has to decide once more.

    A row that is assumed to be new and is not is found by its index: then the caller starts again.
    """
    while True:
        tx = Tx(rows, now_us, strict=strict)
        try:
            return await _handler(command)(tx, command), tx
        except NumberWanted:
            await rows.more_numbers()
        except LedgerstoneError:
            if not tx.assumed:
                raise
            strict = True


def _handler(asked: Command[Any] | Query[Any]) -> Handler[Any, Any]:
    kind = type(asked)
    handler = OWN.get(kind) or handler_of(kind)
    if handler is None:
        raise NotSupported(kind.__name__, "postgres")
    return handler
