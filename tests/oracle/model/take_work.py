"""Taking a session that has work: a fresh lease and a claim, in one step."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from ledgerstone.commands.work import TakeWork
from ledgerstone.records.work import Taken
from ledgerstone.rules.work import (
    TAKE_ROUNDS,
    claiming_of,
    grant,
    later_us,
    new_claim,
    wanted_by,
)
from tests.oracle.model.claims import choose_work, own
from tests.oracle.model.ready import next_ready, put_ready, settle_queue
from tests.oracle.model.standing import Standing, find, save_head
from tests.oracle.model.state import AGAIN, Tx


def take_work(tx: Tx, command: TakeWork) -> Taken | None:
    """The first session in the line that has something to do and no owner."""
    for _ in range(TAKE_ROUNDS if command.max_batches else 0):
        first = next_ready(tx, command.tenant, command.queue)
        if first is None:
            return None
        due_us, number = first[3:]
        session = tx.state.session_ids.get((number,))
        found = None if session is None else find(tx, command.tenant, session)
        if found is None or found.head.deleted_us is not None:
            put_ready(tx, number, command.queue, None)
            continue
        later = later_us(due_us, found.head)
        if later > due_us:
            # It was held since it was put into the line: then it is due when that ends.
            row = replace(tx.state.ready[number, command.queue], due_us=later)
            put_ready(tx, number, command.queue, row)
            continue
        taken = _take(tx, command, found)
        if taken is not None:
            return taken
    return None


def _take(tx: Tx, command: TakeWork, found: Standing) -> Taken | None:
    granted = Standing(found.tenant, found.id, found.row, copy(found.head))
    claiming = claiming_of(command, found.id)
    lease = grant(granted.head, command, found.id, tx.now_us)
    choice = choose_work(tx, granted, wanted_by(claiming))
    if not choice.group:
        settle_queue(tx, found, command.queue)
        return None if tx.shared or not choice.spent else AGAIN
    save_head(tx, granted)
    claim = new_claim(claiming, granted.head.fence, tx.now_us)
    claim = own(tx, granted, choice.group, claim)
    settle_queue(tx, granted, command.queue)
    return Taken(lease, claim)
