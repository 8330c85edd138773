"""Finding and moving the head of a session."""

from __future__ import annotations

from msgspec.structs import astuple

from ledgerstone.errors import SessionNotFound
from ledgerstone.rules.rows import RECENCY_SHIFT, HeadRow
from ledgerstone.sql.tx import Tx

ORD_BITS = 32
_FIELDS = HeadRow.__struct_fields__
_COUNTS = slice(_FIELDS.index("revision"), _FIELDS.index("fence"))
_MOVED = slice(_FIELDS.index("updated_us"), _FIELDS.index("enqueued"))


def base_of(head: HeadRow) -> int:
    """The first key of a session's nodes, less one."""
    return head.number << ORD_BITS


async def find_head(tx: Tx, tenant: str, session: str) -> HeadRow | None:
    """The head, or None for an unknown or purged session."""
    row = await tx.one("find_head", tenant, session)
    return None if row is None else HeadRow(*row)


async def find_outline(tx: Tx, tenant: str, session: str) -> HeadRow | None:
    """The head with only what reading paths needs, for half the price; None as above."""
    row = await tx.one("find_outline", tenant, session)
    if row is None:
        return None
    number, leaf, tip, tip_seq, branched, amended, runs = row
    return HeadRow(
        number,
        leaf=leaf,
        tip=tip,
        tip_seq=tip_seq,
        branched=branched,
        amended=amended,
        runs=runs,
    )


async def need_head(tx: Tx, tenant: str, session: str) -> HeadRow:
    """The head, or SessionNotFound."""
    head = await find_head(tx, tenant, session)
    if head is None:
        raise SessionNotFound(session)
    return head


async def move_head(tx: Tx, head: HeadRow) -> None:
    """Write all of the head but who holds the session."""
    row = astuple(head)
    await tx.run("move_head", head.number, *row[_COUNTS], *row[_MOVED])


async def set_lease(tx: Tx, head: HeadRow) -> None:
    """Write only who holds the session."""
    await tx.run(
        "set_lease",
        head.number,
        head.fence,
        head.owner,
        head.token,
        head.claimed_us,
        head.expires_us,
    )


async def touch(tx: Tx, head: HeadRow, updated_us: int) -> None:
    """Note a change of the session that is not a commit."""
    await tx.run("touch_head", head.number, updated_us)
    await move_recency(tx, head, updated_us)


async def move_recency(tx: Tx, head: HeadRow, updated_us: int) -> None:
    """Move the session in the list index, only when it left its bucket."""
    recency = updated_us >> RECENCY_SHIFT
    if recency != head.updated_us >> RECENCY_SHIFT:
        await tx.run("move_recency", head.number, recency)
