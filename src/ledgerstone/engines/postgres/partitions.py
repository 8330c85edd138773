"""Traces and reports in partitions of one month: made ahead, and dropped when they are old."""

from __future__ import annotations

import msgspec

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.engines.postgres.admin import with_connection
from ledgerstone.engines.postgres.drivers.port import PgConnection
from ledgerstone.engines.postgres.drivers.urls import Target, parse_target
from ledgerstone.sql.catalogue import parse
from ledgerstone.sql.texts import sql_files
from ledgerstone.sql.tx import Row

TIMEOUT_S = 3600.0


class Partitions(msgspec.Struct, frozen=True):
    """What was done, and the partitions that there are now, with the end of each (None: none)."""

    divided: bool
    made: int
    dropped: int
    names: list[tuple[str, int | None]]


def partition(
    url: str, *, months: int, older_us: int | None = None, clock: Clock | None = None
) -> Partitions:
    """Divide what is whole, make the next months, drop those in which all is older."""
    target = parse_target(url)
    now_us = (clock or SystemClock()).now_us()
    return with_connection(target, lambda one: _work(one, target, months, older_us, now_us))


async def _work(
    connection: PgConnection, target: Target, months: int, older_us: int | None, now_us: int
) -> Partitions:
    files = dict(sql_files("partitions"))
    texts = {one.name: one.text for one in parse(files["queries.sql"], "$")}

    async def ask(name: str, *given: int) -> list[Row]:
        return await connection.fetch(texts[name], given, TIMEOUT_S)

    await connection.script("BEGIN", TIMEOUT_S)
    try:
        await connection.script(files["postgres.sql"], TIMEOUT_S)
        divided = (await ask("part_evidence", now_us))[0][0]
        made = (await ask("next_months", now_us, months))[0][0]
        dropped: list[Row] = (
            [(0,)] if older_us is None else await ask("drop_months", older_us, now_us)
        )
        names = await ask("partitions")
        await connection.script("COMMIT", TIMEOUT_S)
    except BaseException:
        if connection.is_open:
            await connection.script("ROLLBACK", TIMEOUT_S)
        raise
    return Partitions(divided, made, dropped[0][0], [(name, upto) for name, upto in names])
