"""A COMMIT that got no answer: what became of it.

The server knows whether a transaction was committed. Another server that took its place may not:
numbers of transactions count on one timeline of one cluster, and after a failover the same number
may be somebody else's. Then a command that can be recognised is sent again, which finds it or does
it; for the rest the outcome is unknown.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.backends.postgres_pool import Pool
from ledgerstone.backends.postgres_port import ConnectionLost, NotConnected, ServerSaid
from ledgerstone.backends.postgres_tx import PgTx
from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command
from ledgerstone.commands.leases import RenewLease, TakeLease
from ledgerstone.commands.sessions import GetOrCreateSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import LedgerstoneError, OutcomeUnknown
from ledgerstone.sql.tx import Row

ASK_PAUSE_S = 0.02
PATIENCE_S = 0.25
"""So long a transaction may end by itself, before the process that holds it is ended."""

RECOGNISED = (CommitTurn, TakeLease, RenewLease, GetOrCreateSession)
"""By a turn id and its hash, a token or an id: sent twice, they are carried out once. Work is not:
what was enqueued may have been completed and be gone by now."""


class Sent(msgspec.Struct, frozen=True):
    """A transaction, and where its number counts; `made` is the head of a session it made."""

    xid: int
    timeline: str
    cluster: int
    made: Row | None = None


class Outcomes:
    """Asks what became of transactions, through any connection of the pool."""

    def __init__(self, pool: Pool, where: str) -> None:
        self._pool = pool
        self._where = where
        self._cluster = 0

    async def cluster(self, tx: PgTx) -> int:
        """Which cluster the transaction runs on; asked once, and again after any doubt."""
        if not self._cluster:
            row = await tx.one("cluster_identity")
            assert row is not None
            self._cluster = row[0]
        return self._cluster

    async def find_out(
        self, sent: Sent, command: Command[Any], ends_s: float, lost: ConnectionLost
    ) -> None:
        """Returns when it was committed; ConnectionLost when it shall run again."""
        self._pool.forget_idle()
        try:
            status = await self._definite(sent, ends_s)
        except (ConnectionLost, NotConnected, ServerSaid, LedgerstoneError):
            raise self._unknown("nobody could be asked in time") from lost
        if status == "committed":
            return
        if status == "aborted" or (status != "in progress" and isinstance(command, RECOGNISED)):
            raise ConnectionLost("the server did not commit") from lost
        raise self._unknown(status or "the server no longer knows the transaction") from lost

    async def _definite(self, sent: Sent, ends_s: float) -> str | None:
        """committed, aborted, or why nobody can tell before the deadline."""
        patient_s = monotonic_s() + PATIENCE_S
        while True:
            now_s = monotonic_s()
            try:
                status = await self._ask(sent, ends_s, end_it=now_s > patient_s)
                if status != "in progress":
                    return status
            except (ConnectionLost, ServerSaid):
                if now_s + ASK_PAUSE_S > ends_s:
                    raise
            if now_s + ASK_PAUSE_S > ends_s:
                return "in progress"
            await self._pool.driver.pause(ASK_PAUSE_S)

    async def _ask(self, sent: Sent, ends_s: float, *, end_it: bool) -> str | None:
        connection = await self._pool.borrow(ends_s)
        try:
            tx = PgTx(connection, ends_s)
            if end_it:
                await tx.all("end_transaction", sent.xid)
            row = await tx.one("xact_status", sent.xid)
        finally:
            self._pool.give_back(connection)
        assert row is not None
        status: str | None = row[0]
        if row[1:3] == (sent.timeline, sent.cluster):
            return status
        self._cluster = 0
        return "another server has taken over"

    def _unknown(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the connection to {self._where} was lost around the commit ({why}); repeat the "
            "call to learn its outcome"
        )
