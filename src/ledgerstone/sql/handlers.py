"""The handlers that PostgreSQL plans by; everything else is carried out by ledgerstone/handlers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ledgerstone.commands.leases import ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import EnqueueWork
from ledgerstone.sql import leases, turns, work
from ledgerstone.sql.tx import Tx

Handler = Callable[[Tx, Any], Coroutine[Any, Any, Any]]

WRITES: dict[type, Handler] = {
    CommitTurn: turns.commit_turn,
    TakeLease: leases.take_lease,
    RenewLease: leases.renew_lease,
    ReleaseLease: leases.release_lease,
    EnqueueWork: work.enqueue_work,
}
