"""Usage under repetition: the same turns sent again and again, and an independent count of them.

Every turn is sent several times: again at once, again after its answer was lost, by several threads
at the same moment, and again on a later day. What it used must be counted once, on the day of its
first commit. The expected sums are added up here from plain numbers, before anything is sent.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import CommitTurn, VerifySession, VerifyStore
from ledgerstone.commands.usage import (
    GetStats,
    ListBudgets,
    ListUsage,
    SetBudget,
    SummariseUsage,
)
from ledgerstone.errors import LedgerstoneError, OutcomeUnknown
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import Budget
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.rules.chain import turn_hash
from ledgerstone.testing.faults.crowds import switching_often
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")

TENANT = "default"
NOON_US = 1_700_049_600_000_000
DAY_S = 86_400
SESSIONS = 24
DAYS = 5
THREADS = 8
SENDS_PER_TURN = 5
LOST_PERCENT = 10
MODELS = ("m1", "m2", "m3")
LIMIT = 1 << 50


class Sent(NamedTuple):
    """A turn, the day it is first sent on, and what it uses in plain numbers."""

    command: CommitTurn
    day: int
    uses: tuple[tuple[str, int, int, int | None], ...]


class LosesAnswers(Wrapper):
    """Carries commits out and sometimes does not say so, as a connection that breaks."""

    def __init__(self, inner: Backend, seed: int) -> None:
        super().__init__(inner)
        self._random = Random(seed)
        self.lost = 0

    def write(self, command: Command[A]) -> A:
        answer = self.inner.write(command)
        if isinstance(command, CommitTurn) and self._random.randrange(100) < LOST_PERCENT:
            self.lost += 1
            raise OutcomeUnknown("the answer was lost")
        return answer


class CountsReplays(Wrapper):
    """Sabotage: whoever repeats a turn pays for it once more."""

    def write(self, command: Command[A]) -> A:
        answer = self.inner.write(command)
        if isinstance(answer, TurnCommitted) and answer.replayed:
            sent: Any = command
            self.inner.write(replace(sent, turn=ids.new_id(), nodes=(), create=None))
        return answer


def make_turns(count: int, seed: int) -> list[Sent]:
    """Turns over all sessions and days, with one to three uses each."""
    random, made = Random(seed), []
    for n in range(count):
        uses = tuple(
            (
                random.choice(MODELS),
                random.randrange(1, 5000),
                random.randrange(1, 900),
                random.choice((None, random.randrange(1, 10**7))),
            )
            for _ in range(random.randrange(1, 4))
        )
        command = CommitTurn(
            tenant=TENANT,
            session=f"s{n % SESSIONS}",
            turn=f"t{n}",
            kind="turn",
            create=Session(id=f"s{n % SESSIONS}", user=f"u{n % 3}"),
            usage=tuple(_entry(*use) for use in uses),
        )
        made.append(Sent(replace(command, hash=turn_hash(command)), n * DAYS // count, uses))
    return made


def _entry(model: str, tokens_in: int, tokens_out: int, nano: int | None) -> UsageEntry:
    cost = None if nano is None else Cost(nano)
    return UsageEntry(model, Usage(tokens_in, tokens_out), cost=cost)


def set_budgets(backend: Backend) -> None:
    """Wide ones, so that every commit is counted against them and none refused."""
    for budget in (
        Budget(id="tenant", scope="tenant", tokens=LIMIT),
        Budget(id="u1", scope="user", subject="u1", period="month", tokens=LIMIT),
        Budget(id="s3", scope="session", subject="s3", tokens=LIMIT),
    ):
        backend.write(SetBudget(tenant=TENANT, budget=budget))


def storm(
    backend: Backend, clock: ManualClock, turns: Sequence[Sent], seed: int
) -> tuple[int, list[str]]:
    """Send everything, day by day; answers how often, and what went wrong while sending."""
    random, sends, wrong = Random(seed), 0, list[str]()
    for day in range(DAYS):
        today = [one for one in turns if one.day == day]
        earlier = [one for one in turns if one.day < day]
        queue = [one for one in today for _ in range(SENDS_PER_TURN - 1)]
        queue += random.choices(earlier, k=len(today)) if earlier else today
        # Neighbours are handed to different threads, so equal turns meet each other.
        for start in range(0, len(queue), 4000):
            part = queue[start : start + 4000]
            wrong += _in_threads(backend, [part[n::THREADS] for n in range(THREADS)], seed)
        sends += len(queue)
        clock.advance(DAY_S)
    return sends, wrong


def _in_threads(backend: Backend, shares: list[list[Sent]], seed: int) -> list[str]:
    wrong: list[str] = []

    def live(writer: int) -> None:
        random = Random(seed * 100 + writer)
        for one in shares[writer]:
            wrong.extend(_send(backend, one, random))

    with switching_often():
        threads = [threading.Thread(target=live, args=(n,)) for n in range(len(shares))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return wrong


def _send(backend: Backend, one: Sent, random: Random) -> Iterator[str]:
    """Once, and again as long as the answer gets lost; now and then again all the same."""
    try:
        answer = _until_answered(backend, one.command)
        if random.randrange(8) == 0:
            again = _until_answered(backend, one.command)
            if (again.revision, again.created_us) != (answer.revision, answer.created_us):
                yield f"{one.command.turn}: {again} after {answer}"
    except LedgerstoneError as error:
        yield f"{one.command.turn}: {type(error).__name__}: {error}"


def _until_answered(backend: Backend, command: CommitTurn) -> TurnCommitted:
    while True:
        try:
            return backend.write(command)
        except OutcomeUnknown:
            continue


def differences(backend: Backend, turns: Sequence[Sent]) -> Iterator[str]:
    """Where the store's sums are not those of the independent count."""
    names = sorted({one.command.session for one in turns})
    yield from _groups(backend, turns)
    for name in names:
        mine = [use for one in turns if one.command.session == name for use in one.uses]
        stats, records, head, verified = backend.read(
            [
                GetStats(tenant=TENANT, session=name),
                ListUsage(tenant=TENANT, session=name),
                GetHead(tenant=TENANT, id=name),
                VerifySession(tenant=TENANT, session=name),
            ]
        )
        told = (stats.calls, stats.usage.input, stats.usage.output, stats.unpriced)
        wanted = (len(mine), _sum(mine, 1), _sum(mine, 2), sum(use[3] is None for use in mine))
        if told != wanted or len(records) != len(mine):
            yield f"{name}: {told} and {len(records)} records, should be {wanted}"
        if sum(line.usage.input for line in head.ledger) != _sum(mine, 1):
            yield f"{name}: the ledger says something else"
        yield from (f"{name}: {defect}" for defect in verified.defects)
    yield from _budgets(backend, turns)


def _groups(backend: Backend, turns: Sequence[Sent]) -> Iterator[str]:
    wanted: Counter[tuple[str, str, int]] = Counter()
    money: Counter[tuple[str, str, int]] = Counter()
    for one in turns:
        for model, tokens_in, tokens_out, nano in one.uses:
            key = (one.command.session, model, one.day)
            wanted[key] += tokens_in + tokens_out
            money[key] += nano or 0
    (sums,) = backend.read([SummariseUsage(tenant=TENANT, by=("session", "model", "day"))])
    days = sorted({line.by["day"] for line in sums})
    found = {
        (line.by["session"], line.by["model"], days.index(line.by["day"])): line for line in sums
    }
    if set(found) != set(wanted):
        yield f"groups {sorted(set(found) ^ set(wanted))[:3]} are of one side only"
    for key, line in found.items():
        nano = sum(cost.nano for cost in line.costs)
        if (line.usage.total_tokens, nano) != (wanted[key], money[key]):
            yield f"{key}: {line.usage.total_tokens} tokens, {nano}; should be {wanted[key]}"


def _budgets(backend: Backend, turns: Sequence[Sent]) -> Iterator[str]:
    states, verified = backend.read(
        [ListBudgets(tenant=TENANT), VerifyStore(tenant=TENANT, whole=False)]
    )
    for state in states:
        scope, subject = state.budget.scope, state.budget.subject
        wanted = sum(
            use[1] + use[2]
            for one in turns
            for use in one.uses
            if scope == "tenant"
            or (scope == "session" and one.command.session == subject)
            or (scope == "user" and one.command.create and one.command.create.user == subject)
        )
        if state.spent_tokens != wanted:
            yield f"budget {state.budget.id}: {state.spent_tokens}, should be {wanted}"
    yield from (str(defect) for defect in verified.defects)


def _sum(uses: Sequence[tuple[str, int, int, int | None]], place: int) -> int:
    return sum(int(use[place] or 0) for use in uses)
