"""Dead letters: batches that had their attempts."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.commands.work import DropDead, ListDead, ReplayWork
from ledgerstone.errors import AlreadyExists, BatchNotFound
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import Batch, DeadBatch
from ledgerstone.rules.work import WorkRow, dead_batch, dead_body, revived
from tests.oracle.model.rows import DeadRow
from tests.oracle.model.standing import Standing, find, require_alive
from tests.oracle.model.state import Tx
from tests.oracle.model.work import put_batch
from tests.oracle.model.work_rows import drop_row, rows_by


def bury(tx: Tx, standing: Standing, row: WorkRow, reason: str) -> None:
    """Move a batch from the queue to the dead letters."""
    drop_row(tx, standing.number, row.seq)
    dead = DeadRow(tx.now_us, reason, dead_body(standing.id, row))
    tx.state.dead_work.put((standing.number, row.id), dead)
    tx.state.dead_ids.put((standing.tenant, row.id, standing.number), None)


def replay_work(tx: Tx, command: ReplayWork) -> Batch:
    """A dead batch goes to the end of its queue again, as if it were new."""
    number = _find(tx, command.tenant, command.batch)
    if number is None:
        raise BatchNotFound(command.batch)
    batch = _record(tx, number, command.batch).batch
    found = require_alive(tx, command.tenant, batch.session)
    if rows_by(tx, found.number, "id", batch.id):
        raise AlreadyExists(batch.id)
    key = batch.source_key
    twins = None if key is None else rows_by(tx, found.number, "source", key)
    _drop(tx, command.tenant, command.batch, number)
    return put_batch(tx, found, revived(batch, keyed=not twins))


def drop_dead(tx: Tx, command: DropDead) -> bool:
    """Forget a dead batch."""
    number = _find(tx, command.tenant, command.batch)
    if number is not None:
        _drop(tx, command.tenant, command.batch, number)
    return number is not None


def forget_dead(tx: Tx, standing: Standing) -> None:
    """Forget all of a session: they are found by their own id too."""
    for (number, id), _ in list(tx.state.dead_work.scan((standing.number,))):
        _drop(tx, standing.tenant, id, number)


def _drop(tx: Tx, tenant: str, id: str, number: int) -> None:
    tx.state.dead_work.delete((number, id))
    tx.state.dead_ids.delete((tenant, id, number))


def _find(tx: Tx, tenant: str, batch: str) -> int | None:
    """Whose dead batch it is: the oldest session's, should several have one."""
    return next((key[2] for key, _ in tx.state.dead_ids.scan((tenant, batch))), None)


def _record(tx: Tx, number: int, id: str) -> DeadBatch:
    row = tx.state.dead_work[number, id]
    return dead_batch(id, row.body, row.reason, row.dead_us)


def list_dead(tx: Tx, query: ListDead) -> Page[DeadBatch]:
    """Dead letters, oldest first."""
    dead = sorted(_places(tx, query))
    total = len(dead) if query.total else None
    if query.after is not None:
        dead = [one for one in dead if one[:2] > query.after]
    piece = dead[query.offset : query.offset + query.limit]
    items = [_record(tx, number, id) for _, id, number in piece]
    return Page(items, len(dead) > query.offset + len(piece), None, total)


def _places(tx: Tx, query: ListDead) -> Iterator[tuple[int, str, int]]:
    """Time, id and number of what is listed."""
    if query.session is None:
        for (_, id, number), _ in tx.state.dead_ids.scan((query.tenant,)):
            yield tx.state.dead_work[number, id].dead_us, id, number
        return
    found = find(tx, query.tenant, query.session)
    if found is not None:
        for (number, id), row in tx.state.dead_work.scan((found.number,)):
            yield row.dead_us, id, number
