"""Planned commands that wait for the next call, and what became of those that were sent.

Knows nothing of threads and event loops; planned/flusher.py does. At most one command per session
is in a call; those that come later wait behind it, so that each is planned on what the one before
it left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command
from ledgerstone.commands.leases import ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.turns import CommitTurn, is_usual
from ledgerstone.commands.work import EnqueueWork
from ledgerstone.engines.postgres.drivers.clock import ServerClock
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    NotConnected,
    Row,
    ServerSaid,
    Slot,
)
from ledgerstone.engines.postgres.planned import single
from ledgerstone.engines.postgres.planned.apply import (
    CHECK_IDS,
    SKIP_LOCKED,
    Asked,
    Judged,
    Parcel,
    Verdict,
    read_answer,
)
from ledgerstone.engines.postgres.planned.known_rows import MAKES_RUN, Unplanned
from ledgerstone.engines.postgres.planned.plan import Plan, plan
from ledgerstone.engines.postgres.planned.sections import ENDED_BATCHES
from ledgerstone.engines.postgres.planned.session_cache import ClaimCache, Key, SessionCache
from ledgerstone.errors import LedgerstoneError
from ledgerstone.sql.catalogue import load

GROUP_MAX = 256
GROUP_BYTES_MAX = 4 * 1024 * 1024
TRIES_MAX = 4
"""How often a command is planned before it goes the slow way."""
SENDS_MAX = 3
LEAST_SHARE = 0.25
TAKEN, NOT_LOCKED = "23505", "55P03"
_AGAIN = frozenset({"40001", "40P01"})

HOT = frozenset({CommitTurn, TakeLease, RenewLease, ReleaseLease, EnqueueWork})


class PendingCommand(msgspec.Struct, eq=False):
    """One command on its way. `slow`: it has to go the interactive way, for which `unsure` says
    that it may have been carried out already; `lost_seq` is the place in the queue that it was
    given then."""

    command: Command[Any]
    ends_s: float
    key: Key = ("", "")
    plan: Plan | None = None
    asked: Asked | None = None
    wants: int = 0
    tries: int = 0
    bytes: int = 0
    began: bool = False
    lost_seq: int | None = None
    done: bool = False
    slow: bool = False
    unsure: bool = False
    answer: Any = None
    error: BaseException | None = None
    future: Any = None
    place: Slot | None = None

    def __post_init__(self) -> None:
        self.key = session_of(self.command)


def time_left_s(group: Sequence[PendingCommand], limit_s: float) -> float:
    """How long a call may take: until the first of its commands must be answered, but not so little
    that one who waited long spoils it for the others."""
    left_s = min([job.ends_s for job in group]) - monotonic_s()
    return max(min(left_s, limit_s), limit_s * LEAST_SHARE)


def session_of(command: Command[Any]) -> Key:
    """Tenant and session of a hot command."""
    if type(command) is CommitTurn:
        return command.tenant, command.session
    if isinstance(command, EnqueueWork):
        return command.tenant, command.batch.session
    return command.tenant, getattr(command, "session", "")


def takes(command: Command[Any]) -> bool:
    """Whether a command may be planned at all."""
    if type(command) not in HOT:
        return False
    return not isinstance(command, CommitTurn) or _is_plain(command)


def _is_plain(command: CommitTurn) -> bool:
    """Nothing that needs rows which nobody knows beforehand, or the lock of the bytes."""
    if command.create is not None or command.branch != "main":
        return False
    if command.run is not None and command.run.parent_run is not None:
        return False
    return is_usual(command) or not (
        command.rewind is not None
        or command.amendments
        or command.tombstones
        or command.branches
        or command.attach
        or command.checkpoint is not None
        or command.tickets
        or command.executions
        or command.blobs
        or command.artifacts
        or command.traces
        or command.reports
        or command.memories
    )


class CommandQueue:
    """What waits, what is known, and what became of a call."""

    def __init__(
        self,
        pool: Pool,
        limit_s: float,
        clock: ServerClock,
        *,
        rls: bool,
        single: bool = False,
        strict: bool = True,
    ) -> None:
        self.heads = SessionCache()
        self.claims = ClaimCache()
        self.waiting: deque[PendingCommand] = deque()
        self.ended: list[PendingCommand] = []
        self.limit_s = limit_s
        self.strict = strict
        self._pool = pool
        self._clock = clock
        self._rls = rls
        self._single = single and not rls
        self._of: dict[Key, deque[PendingCommand]] = {}
        """By session: the command that is on its way, and those that wait behind it."""

    # --- gathering

    def admit(self, job: PendingCommand) -> None:
        """Take a command in: planned at once, unless another of its session is on its way."""
        mine = self._of.get(job.key)
        if mine is not None:
            mine.append(job)
            return
        self._of[job.key] = deque((job,))
        if not self._prepare(job):
            self._finish(job, slow=True)

    def _prepare(self, job: PendingCommand) -> bool:
        """Plan a command and let it wait for the next call; False when it must go the slow way."""
        if job.tries >= TRIES_MAX:
            return False
        job.tries += 1
        job.plan = None
        known = None if job.wants else self.heads.get(job.key)
        if known is not None:
            if job.lost_seq is not None and known.head.enqueued >= job.lost_seq:
                return False
            try:
                job.plan = plan(job.command, job.key, known, self._clock.now_us(), self.claims)
            except Unplanned as why:
                if not why.wants:
                    return False
                job.wants = why.wants
            except Exception:
                # A refusal that looks at more than the head, or a row that does not decode: the
                # handler says so again where it can look.
                return False
        job.asked = self._asked(job)
        self.waiting.append(job)
        return True

    def _asked(self, job: PendingCommand) -> Asked:
        command, made = job.command, job.plan
        turn = run = None
        if isinstance(command, CommitTurn):
            turn = command.turn
            run = None if command.run is None else command.run.id
            job.bytes = sum([len(node.body) for node in command.nodes])
            if command.values:
                job.bytes += sum([len(value.data) for value in command.values])
            if made is not None and ENDED_BATCHES in made.writes:
                job.bytes += sum([len(row.body) for row in made.writes[ENDED_BATCHES]])
        return Asked(job.key, turn, run, made, job.wants)

    def take(self) -> list[PendingCommand]:
        """The next group, in the order they came; what does not fit in stays."""
        group: list[PendingCommand] = []
        later: deque[PendingCommand] = deque()
        size, runs = 0, set[tuple[str, str]]()
        for job in self.waiting:
            asked = job.asked
            assert asked is not None
            full = len(group) >= GROUP_MAX or size >= GROUP_BYTES_MAX
            if full or (self._rls and group and asked.key[0] != group[0].key[0]):
                later.append(job)
                continue
            if asked.plan is not None and asked.plan.flags & MAKES_RUN:
                assert asked.run is not None
                run = (asked.key[0], asked.run)
                if run in runs:
                    # Another session of this call makes this very run.
                    later.append(job)
                    continue
                runs.add(run)
            group.append(job)
            size += job.bytes
        # In one go, so that a Ctrl-C cannot lose any of them.
        self.waiting = later
        return group

    # --- what became of them

    def _finish(self, job: PendingCommand, *, slow: bool = False) -> None:
        """The command is answered, or goes another way; the next of its session comes up."""
        while True:
            job.slow, job.done = slow, True
            self.ended.append(job)
            mine = self._of[job.key]
            mine.popleft()
            if not mine:
                del self._of[job.key]
                return
            job = mine[0]
            if self._prepare(job):
                return
            slow = True

    def settle(
        self, group: Sequence[PendingCommand], judged: Judged | None, *, unsure: bool = False
    ) -> None:
        """Answer what was carried out, and plan again what was not; without a judgement the call
        failed, and each goes the slow way, alone."""
        for place, job in enumerate(group, start=1):
            if judged is None:
                self._fail(job, unsure=unsure)
                continue
            verdict = judged.verdicts.get(place)
            if verdict is None:
                self._succeed(job, judged.version)
            else:
                self._again(job, verdict)

    def _fail(self, job: PendingCommand, *, unsure: bool) -> None:
        self.heads.forget(job.key)
        # A question, or a refusal that waited for its confirmation, leaves nothing behind.
        unsure = unsure and job.plan is not None and job.plan.after is not job.plan.before
        job.unsure = job.unsure or unsure
        if unsure and isinstance(job.command, EnqueueWork) and job.plan is not None:
            # It may be queued, taken and completed by now: look before it is queued again.
            job.lost_seq = job.lost_seq or job.plan.after.head.enqueued
            if self._prepare(job):
                return
        self._finish(job, slow=True)

    def _succeed(self, job: PendingCommand, version: int) -> None:
        made = job.plan
        assert made is not None
        if made.after.head is not made.before.head:
            # The plan made it, and nobody has seen it yet.
            msgspec.structs.force_setattr(made.after, "version", version)
            self.heads.put(job.key, made.after)
        job.answer, job.error = made.answer, made.error
        self._finish(job)

    def _again(self, job: PendingCommand, verdict: Verdict) -> None:
        """Moved: planned again on the fresh head. Everything else is the handler's to look at."""
        fresh = verdict.fresh
        if fresh is None:
            self.heads.forget(job.key)
        else:
            self.heads.put(job.key, fresh)
        job.wants = 0
        moved = verdict.word == "moved" or (verdict.word == "run" and fresh and fresh.runs)
        if fresh is None or not moved or not self._prepare(job):
            self._finish(job, slow=True)

    def withdraw(self, job: PendingCommand) -> bool:
        """A command that is not in a call is not carried out later; False when it was in one."""
        mine = self._of.get(job.key)
        if mine is None or job not in mine:
            return False
        if job is not mine[0]:
            mine.remove(job)
            return True
        if job in self.waiting:
            self.waiting.remove(job)
        self._finish(job)
        return True

    # --- the call

    async def call(self, group: Sequence[PendingCommand]) -> Judged | None:
        """One call for all of them, again when that may help; None when nothing was carried out.
        ConnectionLost when nobody knows."""
        mode = 0
        shape = single.shape_of(group[0].plan) if self._single and len(group) == 1 else None
        for _ in range(SENDS_MAX + (shape is not None)):
            try:
                if shape is not None:
                    tried, shape = shape, None
                    judged = await self._call_single(group, tried)
                    if judged is not None:
                        return judged
                return await self._call(group, mode)
            except ServerSaid as error:
                if error.sqlstate == TAKEN:
                    mode |= CHECK_IDS
                elif error.sqlstate == NOT_LOCKED:
                    mode |= SKIP_LOCKED
                elif error.sqlstate not in _AGAIN:
                    return None
            except (NotConnected, BadText, LedgerstoneError):
                return None
        return None

    async def _call(self, group: Sequence[PendingCommand], mode: int) -> Judged:
        asked = [job.asked for job in group if job.asked is not None]
        who = asked[0].key[0] if self._rls else None
        arguments = Parcel(asked).arguments(who, self._clock.given_us(), mode)
        if arguments is None:
            raise BadText("a text that cannot travel as it is")
        rows = await self._fetch(group, load("postgres")["apply_planned"].text, arguments)
        judged = read_answer(rows, asked)
        self._clock.seen(judged.clock_us)
        return judged

    async def _call_single(
        self, group: Sequence[PendingCommand], shape: single.Shape
    ) -> Judged | None:
        """The only command by a statement of its own; None when something is not as planned."""
        made = group[0].plan
        assert made is not None
        call = single.call_of(made, shape, self._clock.given_us())
        judged = None if call is None else single.judged(await self._fetch(group, *call))
        if judged is not None:
            self._clock.seen(judged.clock_us)
        return judged

    async def _fetch(self, group: Sequence[PendingCommand], text: str, arguments: Row) -> list[Row]:
        return await self._pool.fetch(text, arguments, time_left_s(group, self.limit_s))
