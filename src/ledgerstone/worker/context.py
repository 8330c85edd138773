"""What a handler gets, and what it may say besides returning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ledgerstone import ids
from ledgerstone.api.store import AsyncStore
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.api_sync.store import Store
from ledgerstone.api_sync.turn import Turn
from ledgerstone.clock import US_PER_S
from ledgerstone.intake.work import span_us
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.runs import Run
from ledgerstone.records.work import Batch, Claim

RESULT = "work.result"
"""The kind of node that keeps what a handler returned."""

S = TypeVar("S", bound=AsyncStore | Store)
T = TypeVar("T", bound=AsyncTurn | Turn)


class Bury(Exception):
    """Raised by a handler: this work can never succeed, make it a dead letter at once."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason) or "buried by the handler"


class Later(Exception):
    """Raised by a handler: not now. The work comes again after a while, as if never tried."""

    def __init__(self, delay_s: float = 1.0) -> None:
        super().__init__(f"again in {delay_s} s")
        # Refused here, in the handler, where it is an error like any other.
        self.delay_s = span_us(delay_s, "delay_s") / US_PER_S


class Work(Generic[S, T]):
    """One piece of work: a session, its lease, and what there is to do.

    `turn` is begun on the lease and completes the claim. The handler adds to it and returns, or
    commits it itself. `begin` puts another one in its place: of a run, or on another branch.
    """

    turn: T

    def __init__(
        self, store: S, lease: AnyLease, claim: Claim, stopping: Callable[[], bool]
    ) -> None:
        self.store = store
        self.lease = lease
        self.claim = claim
        self.ended = False
        self._stopping = stopping
        self._turn_id = ""
        self.begin()

    def begin(self, *, run_id: str | Run | None = None, branch: str = "main") -> T:
        """A new turn in the place of `turn`, which is forgotten with what was added to it."""
        self._turn_id = ids.new_id()
        # Each kind of store begins its own kind of turn; no type can say that.
        turn: Any = self.store.turns.begin(
            self.lease, id=self._turn_id, run_id=run_id, branch=branch
        )
        turn.warns = False
        turn.complete(self.claim)
        self.turn = turn
        return self.turn

    @property
    def committed(self) -> bool:
        """Whether the turn that completes the work is committed: the next one has another id."""
        return self.turn.id != self._turn_id

    @property
    def session(self) -> str:
        """The id of the session."""
        return self.claim.session

    @property
    def batches(self) -> list[Batch]:
        return self.claim.batches

    @property
    def payloads(self) -> list[Any]:
        """Everything there is to do, in order."""
        return self.claim.payloads

    @property
    def attempts(self) -> int:
        """How often this work was begun, this time included."""
        return max(batch.attempts for batch in self.claim.batches)

    @property
    def stopping(self) -> bool:
        """Whether the handler should come to an end: the worker stops, or does not wait for it."""
        return self.ended or self._stopping()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.session} with {len(self.batches)} batches>"


class Context(Work[AsyncStore, AsyncTurn]):
    """For a handler that is a coroutine function."""

    async def finish(self, result: object) -> None:
        """Commit what was added, and keep what the handler returned."""
        if result is not None:
            self.turn.node(RESULT, result, on_path=False)
        if not self.committed:
            await self.turn.commit(release=True)
        else:
            # Commits what was added since, if anything was; nothing begins, so no budget is asked.
            await self.turn.__aexit__(None)


class BlockingContext(Work[Store, Turn]):
    """For a handler that is a plain function: it runs in a thread, with the blocking store."""

    def finish(self, result: object) -> None:
        """Commit what was added, and keep what the handler returned."""
        if self.ended:
            return  # Nobody waited so long; the work is somebody else's by now.
        if result is not None:
            self.turn.node(RESULT, result, on_path=False)
        if not self.committed:
            self.turn.commit(release=True)
        else:
            # Commits what was added since, if anything was; nothing begins, so no budget is asked.
            self.turn.__exit__(None)
