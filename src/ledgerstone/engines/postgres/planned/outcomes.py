"""A COMMIT that got no answer: what became of it.

The server knows whether a transaction was committed. Another server that took its place may not:
numbers of transactions count on one timeline of one cluster, and until it crashes: those that
never reached its log are given out again. Then the same number may be somebody else's, and
"committed" says nothing. A command that can be recognised is sent again, which finds it or does
it; for the rest the outcome is unknown.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command
from ledgerstone.commands.leases import RenewLease, TakeLease
from ledgerstone.commands.sessions import GetOrCreateSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.engines.postgres.drivers.port import ConnectionLost, NotConnected, Row, ServerSaid
from ledgerstone.engines.postgres.transaction import PgTx
from ledgerstone.errors import LedgerstoneError, OutcomeUnknown

ASK_PAUSE_S = 0.02
FUTURE = "22023"
PATIENCE_S = 0.25
"""Seconds in which a transaction may end by itself, before its server process is terminated."""

RECOGNISED = (CommitTurn, TakeLease, RenewLease, GetOrCreateSession)
"""By a turn id and its hash, a token or an id: sent twice, they are carried out once. Work is not:
what was enqueued may have been completed and be gone by now."""


class Sent(msgspec.Struct, frozen=True):
    """A transaction, and where its number counts; `made` is the head of a session it made.

    `life` is the time at which the server last began without a memory.
    """

    xid: int
    timeline: str
    cluster: int
    life: int
    made: Row | None = None


class Outcomes:
    """Asks what became of transactions, for calls that have a place in the pool."""

    def __init__(self, pool: Pool, where: str) -> None:
        self._pool = pool
        self._where = where
        self._cluster: tuple[int, int] | None = None

    async def cluster(self, tx: PgTx) -> tuple[int, int]:
        """Which server the transaction runs on, and in which of its lives. Asked once, and again
        after any doubt; what is old is never taken for new."""
        if self._cluster is None:
            row = await tx.one("cluster_identity")
            assert row is not None
            self._cluster = (row[0], row[1])
        return self._cluster

    def doubt(self) -> None:
        """A connection was lost: the next one may lead to another server, or to another life."""
        self._cluster = None

    async def find_out(
        self, sent: Sent, command: Command[Any], ends_s: float, lost: ConnectionLost
    ) -> None:
        """Returns when it was committed; ConnectionLost when it shall run again."""
        self._pool.forget_idle()
        self.doubt()
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
            except (ConnectionLost, ServerSaid) as error:
                if isinstance(error, ServerSaid) and error.sqlstate == FUTURE:
                    return "the server has not come to this transaction yet"
                if now_s + ASK_PAUSE_S > ends_s:
                    raise
            if now_s + ASK_PAUSE_S > ends_s:
                return "in progress"
            await self._pool.driver.pause(ASK_PAUSE_S)

    async def _ask(self, sent: Sent, ends_s: float, *, end_it: bool) -> str | None:
        connection = await self._pool.connection(ends_s)
        try:
            tx = PgTx(connection, ends_s)
            if end_it:
                await tx.all("end_transaction", sent.xid)
            row = await tx.one("xact_status", sent.xid)
        finally:
            self._pool.give_back(connection)
        assert row is not None
        status: str | None = row[0]
        if row[1:3] != (sent.timeline, sent.cluster):
            return "another server has taken over"
        # If it was given out twice, it was not committed the first time.
        if row[3] != sent.life and status != "aborted":
            return "the server has crashed meanwhile"
        return status

    def _unknown(self, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(f"the connection to {self._where} was lost around the commit ({why})")
