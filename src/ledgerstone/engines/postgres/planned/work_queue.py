"""Taking, claiming and keeping claims in one round trip, many commands in one call.

The functions in sql/functions/postgres/take.sql do what the handlers do. What they do not do (bury,
refuse, answer a claim that stands already) they leave alone, and the command goes the slow way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.commands.work import ClaimWork, RenewClaim, TakeWork
from ledgerstone.engines.postgres.drivers.clock import ServerClock
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    NotConnected,
    Row,
    ServerSaid,
)
from ledgerstone.engines.postgres.planned.apply import HEAD_COLUMNS, array, joined
from ledgerstone.engines.postgres.planned.queue import PendingCommand, time_left_s
from ledgerstone.engines.postgres.planned.session_cache import (
    CachedSession,
    ClaimCache,
    Key,
    SessionCache,
)
from ledgerstone.engines.postgres.planned.single import standing
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.work import Claim, Taken
from ledgerstone.rules.work import WorkRow, claim_of
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.sessions import Head

GROUP_MAX = 128
SENDS_MAX = 3
_AGAIN = frozenset({"40001", "40P01"})
_HEAD, _TIP = 4, 4 + HEAD_COLUMNS
_BATCH = _TIP + 1


def is_queued(command: Command[Any]) -> bool:
    """Whether a command is one of these, in the form that the functions know."""
    if isinstance(command, ClaimWork):
        guard = command.guard
        return command.ids is None and command.max_batches > 0 and guard.token is not None
    if isinstance(command, TakeWork):
        return command.max_batches > 0
    return isinstance(command, RenewClaim)


class Call(msgspec.Struct, frozen=True):
    """How the commands of one kind travel; only those with the same `shared` travel together.

    Texts of all commands follow each other in one array; numbers and names have one array each.
    """

    query: str
    shared: Callable[[Any], tuple[Any, ...]]
    texts: Callable[[Any], tuple[str | None, ...]]
    numbers: Callable[[Any], tuple[int | None, ...]]
    names: Callable[[Any], tuple[str | None, ...]] = lambda command: ()

    def arguments(self, commands: Sequence[Any]) -> tuple[Any, ...]:
        texts = [text for command in commands for text in self.texts(command)]
        numbers = zip(*map(self.numbers, commands), strict=True)
        names = zip(*map(self.names, commands), strict=True)
        return (
            *self.shared(commands[0]),
            joined(texts),
            *[array(column) for column in numbers],
            *[joined(column) for column in names],
        )


_CALLS: dict[type, Call] = {
    TakeWork: Call(
        "take_sessions",
        lambda c: (c.queue, c.max_batches),
        lambda c: (c.owner, c.lease_token, c.claim, c.claim_token),
        lambda c: (c.ttl_us,),
    ),
    ClaimWork: Call(
        "claim_groups",
        lambda c: (c.max_batches,),
        lambda c: (c.guard.token, c.claim, c.owner, c.token, c.boundary),
        lambda c: (c.guard.fence, c.ttl_us),
        lambda c: (c.session, c.queue),
    ),
    RenewClaim: Call(
        "renew_claims",
        lambda c: (),
        lambda c: (c.session, c.claim, c.token),
        lambda c: (c.ttl_us,),
    ),
}


class WorkQueue:
    """Commands that wait for the next call, and what became of those that were sent."""

    def __init__(
        self,
        pool: Pool,
        limit_s: float,
        clock: ServerClock,
        heads: SessionCache,
        claims: ClaimCache,
        *,
        single: bool = False,
        strict: bool = True,
    ) -> None:
        self.waiting: deque[PendingCommand] = deque()
        self.ended: list[PendingCommand] = []
        self._pool = pool
        self.limit_s = limit_s
        self.strict = strict
        self._clock = clock
        self._heads = heads
        self._claims = claims
        self._single = single

    def admit(self, job: PendingCommand) -> None:
        """Take a command in; one whose texts no column can hold as they are goes the slow way."""
        command: Any = job.command
        call = _CALLS[type(command)]
        named = (job.key[0], job.key[1], getattr(command, "queue", None))
        if joined((*named, *call.texts(command))) is not None:
            self.waiting.append(job)
        else:
            self._finish(job, slow=True)

    def take(self) -> list[PendingCommand]:
        """The first that waits, and all that can travel with it: one command per session."""
        group: list[PendingCommand] = []
        later: list[PendingCommand] = []
        sessions = set[str]()
        kind: object = None
        while self.waiting and len(group) < GROUP_MAX:
            job = self.waiting.popleft()
            command: Any = job.command
            mine = (type(command), command.tenant, *_CALLS[type(command)].shared(command))
            session = job.key[1]
            if (kind is not None and (mine != kind or job.unsure)) or session in sessions:
                later.append(job)
                continue
            kind = None if job.unsure else mine
            if session:
                sessions.add(session)
            group.append(job)
            if job.unsure:
                break
        self.waiting.extendleft(reversed(later))
        return group

    async def call(self, group: Sequence[PendingCommand]) -> list[Row] | None:
        """One call for all of them; None when nothing was carried out. ConnectionLost when nobody
        knows."""
        alone = self._alone(group) if self._single and len(group) == 1 else None
        for _ in range(SENDS_MAX):
            try:
                if alone is not None:
                    call, alone = alone, None
                    found = await self._fetch(group, *call)
                    if found:
                        return found
                return await self._call(group)
            except ServerSaid as error:
                if error.sqlstate not in _AGAIN:
                    return None
            except (NotConnected, BadText, LedgerstoneError):
                return None
        return None

    async def _call(self, group: Sequence[PendingCommand]) -> list[Row]:
        commands: list[Any] = [job.command for job in group]
        call = _CALLS[type(commands[0])]
        arguments = (commands[0].tenant, self._clock.given_us(), *call.arguments(commands))
        if isinstance(commands[0], TakeWork):
            arguments += (int(group[0].unsure),)
        return await self._fetch(group, load("postgres")[call.query].text, arguments)

    def _alone(self, group: Sequence[PendingCommand]) -> tuple[str, Row] | None:
        """The statement for a claim of one batch that nobody else waits with; when it finds
        nothing, or cannot say why, the function does."""
        (job,) = group
        command, known = job.command, self._heads.get(job.key)
        if not isinstance(command, ClaimWork) or known is None:
            return None
        if command.max_batches != 1 or known.head.deleted_us is not None:
            return None
        guard = command.guard
        return load("postgres")["claim_alone"].text, (
            *standing(command.tenant, known),
            *(self._clock.given_us(), guard.fence, guard.token, command.claim, command.queue),
            *(command.boundary, command.token, command.owner, command.ttl_us),
        )

    async def _fetch(self, group: Sequence[PendingCommand], text: str, arguments: Row) -> list[Row]:
        return await self._pool.fetch(text, arguments, time_left_s(group, self.limit_s))

    def settle(
        self, group: Sequence[PendingCommand], judged: list[Row] | None, *, unsure: bool = False
    ) -> None:
        """Answer what was carried out; the rest goes the slow way, each alone."""
        found: dict[int, list[Row]] = {}
        for row in judged or ():
            found.setdefault(row[0], []).append(row)
        for place, job in enumerate(group, start=1):
            mine = found.get(place)
            if unsure and not job.unsure and isinstance(job.command, TakeWork):
                # It may have been given a session: the next call looks for that one first.
                job.unsure = True
                self.waiting.append(job)
                continue
            job.unsure = job.unsure or unsure
            if judged is None or (mine is not None and mine[0][1] != "ok"):
                self._finish(job, slow=True)
                continue
            if mine is None and isinstance(job.command, RenewClaim):
                self._finish(job, slow=True)
                continue
            try:
                job.answer = None if mine is None else self._answer(job, mine)
            except Exception as error:
                job.error = error
            self._finish(job)

    def _answer(self, job: PendingCommand, rows: list[Row]) -> Any:
        if isinstance(job.command, TakeWork):
            return self._taken(job.key[0], rows)
        if isinstance(job.command, ClaimWork):
            return self._claimed(job.key, _batches(rows, 2))
        return claim_of(job.key[1], _batches(rows, 2))

    def _taken(self, tenant: str, rows: list[Row]) -> Taken:
        session, version = rows[0][2:_HEAD]
        head = Head(*rows[0][_HEAD:_TIP])
        self._heads.put((tenant, session), CachedSession(head, version, rows[0][_TIP]))
        lease = head.lease(session)
        assert lease is not None
        return Taken(lease, self._claimed((tenant, session), _batches(rows, _BATCH)))

    def _claimed(self, key: Key, batches: list[WorkRow]) -> Claim:
        claim = claim_of(key[1], batches)
        self._claims.note((*key, claim.id), batches)
        return claim

    def withdraw(self, job: PendingCommand) -> bool:
        """A command that nobody began is not carried out later; False when somebody did."""
        if job not in self.waiting:
            return False
        self.waiting.remove(job)
        self._finish(job)
        return True

    def _finish(self, job: PendingCommand, *, slow: bool = False) -> None:
        job.slow, job.done = slow, True
        self.ended.append(job)


def _batches(rows: list[Row], at: int) -> list[WorkRow]:
    """The batches of a claim in their order."""
    batches = [WorkRow(*row[at:]) for row in rows]
    batches.sort(key=lambda batch: batch.place)
    return batches
