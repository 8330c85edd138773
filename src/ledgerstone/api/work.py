"""store.work: what sessions have still to do, and finding one that has."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias, Unpack

from ledgerstone import ids
from ledgerstone.api.claims import (
    TakenList,
    TakeRequest,
    named,
    take,
    take_many,
)
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.holds import AsyncWorkHold
from ledgerstone.api.loop_async import Taking, taking
from ledgerstone.commands import work as commands
from ledgerstone.errors import (
    ClaimLost,
    ExecutionUnresolved,
    InvalidValue,
    LedgerstoneError,
    NotSupported,
)
from ledgerstone.intake import checks, cursors
from ledgerstone.intake import work as intake
from ledgerstone.intake.checks import LIMIT_DEFAULT, IdRef, SessionRef, Time
from ledgerstone.intake.work import BatchRef, Keywords
from ledgerstone.records.leases import TTL_S, AnyLease
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import (
    ATTEMPTS_DEFAULT,
    BOUNDARIES,
    END_STATES,
    NEVER,
    ON_DUPLICATE,
    ORDERS,
    PRIORITY_DEFAULT,
    QUEUE_DEFAULT,
    Batch,
    Boundary,
    Claim,
    DeadBatch,
    Delivery,
    EndedBatch,
    EndState,
    Holding,
    Interrupted,
    OnDuplicate,
    Order,
    Slot,
    Stuck,
    WorkCounts,
)

BatchList: TypeAlias = list[Batch]
Outcomes: TypeAlias = list[Batch | LedgerstoneError]
StuckList: TypeAlias = list[Stuck]
TAKE_MAX = 1000
PRUNE_ROWS = 1000
"""How many records one transaction of `prune` removes at most."""


class AsyncWork(AsyncResource):
    """The queue of each session, and of all of them together.

    On a backend without queues enqueueing, claiming and taking raise NotSupported; there is
    nothing to list, to cancel or to hand back, and every claim is lost.
    """

    async def enqueue(
        self,
        session: SessionRef,
        *payloads: Any,
        key: str | None = None,
        id: str | None = None,
        queue: str = QUEUE_DEFAULT,
        delivery: Delivery = intake.DELIVERY_DEFAULT,
        slot: Slot = intake.SLOT_DEFAULT,
        merge: str = NEVER,
        priority: int = PRIORITY_DEFAULT,
        delay_s: float = 0,
        available_at: Time | None = None,
        max_attempts: int | None = ATTEMPTS_DEFAULT,
        backoff_s: float = intake.BACKOFF_DEFAULT_S,
        on_duplicate: OnDuplicate = "answer",
    ) -> Batch:
        """Durable before it answers; the same key while queued answers the existing batch.

        Lower priorities come first, 0 to 255. `merge` is `never`, `payload` or `group:NAME`.
        A batch that fails `max_attempts` times goes to the dead letters; None: never.
        `on_duplicate="refuse"`: AlreadyExists while a batch with the key or the id is queued.
        SessionNotFound, SessionDeleted.
        """
        batch = intake.new_batch(
            checks.session_id(session),
            payloads,
            id=ids.new_id() if id is None else id,
            key=key,
            queue=queue,
            delivery=delivery,
            slot=slot,
            merge=merge,
            priority=priority,
            delay_s=delay_s,
            available_at=available_at,
            max_attempts=max_attempts,
            backoff_s=backoff_s,
        )
        return await self._write(
            commands.EnqueueWork(
                tenant=self._tenant,
                batch=batch,
                on_duplicate=checks.one_of(on_duplicate, ON_DUPLICATE, "on_duplicate"),
            )
        )

    async def enqueue_many(
        self, work: Iterable[tuple[SessionRef, Any]], **how: Unpack[Keywords]
    ) -> Outcomes:
        """Pairs of session and payload: a batch each, as `enqueue` makes it, for less than one by
        one on a server.

        Each is queued by itself, and all are durable before this answers: the batches in order;
        in place of one that was refused, its error. Keywords as of `enqueue`, for all of them.
        """
        pairs = intake.pairs(work)
        intake.check_keywords(how)
        names = ids.new_ids(len(pairs)) if pairs else []
        given = [
            commands.EnqueueWork(
                tenant=self._tenant,
                batch=intake.new_batch(checks.session_id(session), (payload,), id=id, **how),
            )
            for id, (session, payload) in zip(names, pairs, strict=True)
        ]
        return await self._handle.write_many(given)

    async def claim(
        self,
        lease: AnyLease,
        *,
        boundary: Boundary = "idle",
        max: int = 1,  # noqa: A002
        ids: Iterable[BatchRef] | None = None,
        queue: str | None = None,
        ttl_s: float = TTL_S,
        id: str | None = None,
    ) -> Claim | None:
        """The next group of batches that nobody works on, under a live lease; None without one.

        `ids`: exactly these, in the order of the queue, if all of them are ready; they may be
        taken before others, but not before an exclusive one, and an exclusive one comes alone.
        The same claim `id` again, under the same lease, is the same claim. LeaseExpired, Fenced.
        """
        session, owned = checks.bound(lease, lease)
        claim, token = intake.claim_names(id)
        return await self._write(
            commands.ClaimWork(
                tenant=self._tenant,
                session=session,
                claim=claim,
                owner=lease.owner,
                token=token,
                ttl_us=intake.span_us(ttl_s, "ttl_s"),
                boundary=checks.one_of(boundary, BOUNDARIES, "boundary"),
                max_batches=checks.whole(max, "max"),
                ids=intake.batch_ids(ids),
                queue=None if queue is None else intake.queue_name(queue),
                guard=checks.guard(owned, None),
            )
        )

    def take(
        self,
        *,
        queue: str = QUEUE_DEFAULT,
        owner: str | None = None,
        ttl_s: float = TTL_S,
        max: int = 1,  # noqa: A002
    ) -> Taking:
        """A session with work and no owner: a fresh lease on it and a claim, or None at once.

        Nothing keeps what was taken alive: see `hold` for that. On an async store the answer is
        awaited, or entered with `async with`, which is `hold` with the same arguments.
        """
        request = _request(queue, owner, ttl_s, max)
        return taking(
            partial(take, self._handle, request),
            partial(AsyncWorkHold, self._handle, request, wait_s=None, heartbeat=True),
        )

    async def take_many(
        self,
        sessions: int,
        *,
        queue: str = QUEUE_DEFAULT,
        owner: str | None = None,
        ttl_s: float = TTL_S,
        max: int = 1,  # noqa: A002
    ) -> TakenList:
        """As many sessions as have work and no owner, at most `sessions`, as `take` gives them.

        Fewer, or none, when there are not so many; for less than one by one on a server.
        """
        most = checks.positive(sessions, "sessions")
        if most > TAKE_MAX:
            raise InvalidValue("sessions", f"at most {TAKE_MAX} at a time, not {most}")
        return await take_many(self._handle, _request(queue, owner, ttl_s, max), most)

    def hold(
        self,
        *,
        queue: str = QUEUE_DEFAULT,
        owner: str | None = None,
        ttl_s: float = TTL_S,
        max: int = 1,  # noqa: A002
        wait_s: float | None = None,
        heartbeat: bool = True,
    ) -> AbstractAsyncContextManager[Holding]:
        """Wait for work, and have it for the length of a block: lease and claim, kept alive.

        Complete the claim in a turn of the block. If it is left over, a clean end hands it back,
        ExecutionUnresolved parks it, and any other exception counts as a failed attempt; the
        lease is released in any case. Timeout
        when none comes within `wait_s`; None waits for ever. When the lease is lost, the async
        block is cancelled and ends with Fenced; the blocking one meets Fenced at its next commit.
        """
        return AsyncWorkHold(
            self._handle,
            _request(queue, owner, ttl_s, max),
            wait_s=None if wait_s is None else intake.span_us(wait_s, "wait_s") / 1e6,
            heartbeat=checks.flag(heartbeat, "heartbeat"),
        )

    async def renew(self, claim: Claim, *, ttl_s: float = TTL_S) -> Claim:
        """The same claim with a later end; ClaimLost when it owns its batches no more.

        WorkInterrupted, a ClaimLost, when the queue was interrupted since.
        """
        command = commands.RenewClaim(ttl_us=intake.span_us(ttl_s, "ttl_s"), **self._named(claim))
        try:
            return await self._write(command)
        except NotSupported:
            raise ClaimLost(claim.session, claim.id) from None

    async def abandon(self, claim: Claim, *, delay_s: float = 0) -> bool:
        """Hand the batches back, in place and uncounted; False when they were not the claim's.

        Nobody gets them before `delay_s` are over.
        """
        delay_us = intake.span_us(delay_s, "delay_s")
        command = commands.AbandonClaim(delay_us=delay_us, **self._named(claim))
        try:
            return await self._write(command)
        except NotSupported:
            return False

    async def fail(
        self,
        claim: Claim,
        error: str | BaseException,
        *,
        delay_s: float | None = None,
        bury: bool = False,
    ) -> BatchList:
        """Try again later, or never again when the attempts are used up or `bury` is said.

        Answers the batches that are queued again; the others are dead letters. ClaimLost.
        """
        return await self._write(
            commands.FailClaim(
                error=intake.error_text(error),
                delay_us=None if delay_s is None else intake.span_us(delay_s, "delay_s"),
                bury=checks.flag(bury, "bury"),
                **self._named(claim),
            )
        )

    async def park(self, claim: Claim, *, waiting_for: IdRef | ExecutionUnresolved) -> BatchList:
        """Let the batches wait until the outcome of an execution of their session is decided.

        The attempt does not count. `executions.finish` and `retry` wake them, in the transaction
        that decides; until then whatever stands behind them in the session waits too. Give the
        execution, its id, or the error that named it. Answers the batches: with `waiting_for`, or
        free at once when it is decided already. ClaimLost, ExecutionNotFound,
        SessionBindingMismatch.
        """
        if isinstance(waiting_for, ExecutionUnresolved):
            waiting_for = waiting_for.execution
        execution = checks.record_id(waiting_for, "waiting_for")
        return await self._write(commands.ParkClaim(execution=execution, **self._named(claim)))

    async def cancel(
        self,
        session: SessionRef | Batch,
        batch: BatchRef | None = None,
        *,
        reason: str = intake.CANCELLED,
    ) -> Batch | None:
        """Remove a batch that nobody works on; None when it is gone or being worked on.

        The record of a batch is enough, without the session. `ended("cancelled")` lists it with
        the reason.
        """
        where, id = intake.batch_place(session, batch)
        try:
            return await self._write(
                commands.CancelWork(
                    tenant=self._tenant,
                    session=where,
                    batch=id,
                    reason=intake.error_text(reason, "reason"),
                )
            )
        except NotSupported:
            return None

    async def interrupt(
        self, session: SessionRef, *, reason: str = intake.INTERRUPTED
    ) -> Interrupted:
        """Call off everything that was enqueued in a session until now.

        In one transaction, what nobody works on is superseded and the epoch of the queue rises.
        What is being worked on may still be completed; its next renewal is WorkInterrupted, a
        `hold` block ends with that, and nobody gets it again. SessionNotFound, SessionDeleted.
        """
        return await self._write(
            commands.InterruptWork(
                tenant=self._tenant,
                session=checks.session_id(session),
                reason=intake.error_text(reason, "reason"),
            )
        )

    async def list(
        self,
        session: SessionRef,
        *,
        pending: bool = False,
        order: Order = "arrival",
        missing: Missing = "empty",
    ) -> BatchList:
        """All queued batches; `pending`: without those that are being worked on.

        In the order they came, or with `order="priority"` in the one they are claimed in.
        """
        query = commands.ListWork(
            tenant=self._tenant,
            session=checks.session_id(session),
            pending=checks.flag(pending, "pending"),
            order=checks.one_of(order, ORDERS, "order"),
        )
        try:
            return await self._ask(query, missing)
        except NotSupported:
            return []

    async def dead(
        self,
        *,
        session: SessionRef | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
    ) -> Page[DeadBatch]:
        """A page of the dead letters, oldest first. InvalidValue for a foreign cursor.

        A page has at most 200 items: `Page.limit` is the limit that was applied. The cursor leads
        on to the rest.
        """
        query = commands.ListDead(
            tenant=self._tenant,
            session=checks.maybe_session(session),
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        scope = cursors.scope(self._tenant, "dead", query.session)
        return await self._page(query, scope, cursor, lambda last: (last.dead_us, last.id))

    async def ended(
        self,
        state: EndState,
        *,
        session: SessionRef | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
    ) -> Page[EndedBatch]:
        """A page of the batches that ended `done`, `cancelled`, `dead` or `superseded`.

        Oldest first, each with its time and reason, until they are pruned. InvalidValue for a
        foreign cursor. A page has at most 200 items: `Page.limit` is the limit that was applied.
        """
        query = commands.ListEnded(
            tenant=self._tenant,
            state=checks.one_of(state, END_STATES, "state"),
            session=checks.maybe_session(session),
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        scope = cursors.scope(self._tenant, query.state, query.session)
        return await self._page(
            query, scope, cursor, lambda last: (last.ended_us, last.id, last.batch.enqueue_seq)
        )

    async def counts(self, session: SessionRef | None = None) -> WorkCounts:
        """How many batches ended in each state and were not pruned: of a session, or of all.

        Nothing is counted for it: one row per session is read.
        """
        where = checks.maybe_session(session)
        return await self._ask(commands.CountWork(tenant=self._tenant, session=where))

    async def prune(self, *, older_than_s: float) -> int:
        """Forget batches that ended longer ago than that, dead letters too; how many they were.

        What is queued stays. In pieces of a bounded size: it may be interrupted, and repeated.
        """
        age_us = checks.span_us(older_than_s, "older_than_s")
        before_us = self._handle.clock.now_us() - age_us
        pruned = 0
        given: dict[str, Any] = {"tenant": self._tenant, "before_us": before_us}
        while sessions := await self._ask(commands.ListPrunable(limit=PRUNE_ROWS, **given)):
            for session in sessions:
                command = commands.PruneWork(session=session, limit=PRUNE_ROWS, **given)
                pruned += await self._write(command)
        return pruned

    async def replay(self, batch: BatchRef) -> Batch:
        """A dead batch goes to the end of its queue again, its attempts forgotten.

        BatchNotFound, SessionNotFound, SessionDeleted.
        """
        return await self._write(
            commands.ReplayWork(tenant=self._tenant, batch=intake.batch_id(batch))
        )

    async def drop(self, batch: BatchRef) -> bool:
        """Forget a dead batch; False when there was none."""
        return await self._write(
            commands.DropDead(tenant=self._tenant, batch=intake.batch_id(batch))
        )

    async def stuck(
        self, session: SessionRef | None = None, *, limit: int = LIMIT_DEFAULT
    ) -> StuckList:
        """Why work does not move: every reason of one session, or the first reason of each."""
        return await self._ask(
            commands.ExplainWork(
                tenant=self._tenant,
                session=checks.maybe_session(session),
                limit=checks.page_limit(limit),
            )
        )

    def _named(self, claim: Claim) -> dict[str, Any]:
        return named(self._tenant, intake.claim_record(claim))


def _request(queue: str, owner: str | None, ttl_s: float, most: int) -> TakeRequest:
    return TakeRequest(
        queue=intake.queue_name(queue),
        owner=checks.owner_id(owner),
        ttl_us=intake.ttl_us(ttl_s),
        max_batches=checks.positive(most, "max"),
    )
