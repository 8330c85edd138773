"""P5: enqueue, claim, complete; with one session's items per call, and with fifty sessions'.

Peers have two hundred jobs under way at once, each job by itself or in one batch, as their own API
has it. So has ours when it is compared with them: four workers, each with fifty sessions per call.
"""

from __future__ import annotations

import time
from typing import Final

from bench import wire
from bench.contender import Entry
from bench.crew import span_s
from bench.measure import Bar, Row, Series, percentile, row
from bench.postgres import bars, entries
from bench.postgres.peers import QUEUES
from bench.postgres.stand import PostgresStand, available
from bench.remote import ContenderFailed, Remote, leave_all
from bench.rounds import Rounds

ALONE: Final = [1]
MANY: Final = list(range(101, 151))
CROWD: Final = list(range(201, 401))
ALONE_BATCHES: Final = 5
"""How many times more batches one session alone does, so that a round is long enough."""
PEERS_SHARE: Final = 0.4
CASES: Final = {
    "1 session, 1 item per call": (ALONE, 1, "jobs", bars.QUEUE_SESSION),
    "1 session, 10 items per call": (ALONE, 10, "jobs", bars.QUEUE_SESSION),
    "50 sessions per call": (MANY, 1, "served", bars.QUEUE_MANY),
}
AT_ONCE: Final = f"{len(CROWD)} jobs at once"
"""Enough for the worker of a peer to get going."""

Key = tuple[str, str]


class Queues:
    """The processes, and what each of them did per round and case."""

    def __init__(self, stand: PostgresStand) -> None:
        self.stand = stand
        self.remotes: dict[str, Remote] = {}
        self.rates: dict[Key, Series] = {}
        self.peers = available(QUEUES) if stand.with_peers else []
        self.there: list[Entry] = []

    def start(self) -> None:
        ours = [entries.OURS_ASYNC] if self.stand.has_ours else []
        for entry in (entries.QUEUE, entries.QUEUE_AGAIN, *ours, *self.peers):
            try:
                remote = self.stand.start(entry, f"queue-{entry.key}")
            except ContenderFailed as error:
                self.stand.drop(entry, error)
                continue
            self.remotes[entry.key] = remote
            self.there.append(entry)
            if entry.kind == "ours":
                remote.ask(wire.Create([*ALONE, *MANY, *CROWD]))
            # The first jobs of a worker wait for its polls; nobody counts them.
            for case in cases_of(entry):
                remote.ask(self.asked(entry, case, 1))

    def asked(self, entry: Entry, case: str, batches: int) -> wire.Jobs:
        if case == AT_ONCE:
            method = "jobs" if entry.kind == "peer" else "served_at_once"
            return wire.Jobs(CROWD, 1, 1, method)
        numbers, size, method, _ = CASES[case]
        return wire.Jobs(numbers, batches, size, method)

    def go(self, number: int, entry: Entry, case: str) -> None:
        is_alone = case != AT_ONCE and CASES[case][0] is ALONE
        batches = self.stand.sizes.queue_batches * (ALONE_BATCHES if is_alone else 1)
        answer = self.remotes[entry.key].ask(self.asked(entry, case, batches))
        rate = answer.count / span_s([answer])
        self.rates.setdefault((case, entry.key), Series()).add([rate], number)

    def leave(self) -> None:
        leave_all(list(self.remotes.values()))


def cases_of(entry: Entry) -> list[str]:
    """The floor does not know workers, and peers know no sessions."""
    if entry.kind == "peer":
        return [AT_ONCE]
    return [*CASES, AT_ONCE] if entry.kind == "ours" else list(CASES)


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    queues = Queues(stand)
    try:
        queues.start()
        measure(queues, seconds)
    finally:
        queues.leave()
    rows = []
    for case, (*_, bar) in CASES.items():
        rows += case_rows(queues, case, bar)
    return rows + peer_rows(queues)


def measure(queues: Queues, seconds: float) -> None:
    peers = len(queues.peers) or 1
    sizes = queues.stand.sizes
    rounds = Rounds(
        seconds,
        least=sizes.least_rounds,
        peer_least=sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / peers,
    )
    for number in rounds:
        for case in rounds.order([*CASES, AT_ONCE]):
            for entry in rounds.order(list(queues.there)):
                if case not in cases_of(entry):
                    continue
                if entry.kind == "peer" and rounds.sits_out(entry.key):
                    continue
                start = time.monotonic()
                try:
                    queues.go(number, entry, case)
                except ContenderFailed as error:
                    queues.stand.drop(entry, error)
                    queues.there.remove(entry)
                rounds.spend(entry.key, time.monotonic() - start)


def case_rows(queues: Queues, case: str, bar: Bar) -> list[Row]:
    least = queues.rates[case, entries.QUEUE.key]
    return [
        row(
            "P5",
            f"queue, {case}",
            entry.title,
            "items/s",
            queues.rates[case, entry.key],
            floor=(entries.QUEUE.title, least),
            bar=bar if entry.kind == "ours" else None,
            noise=entry == entries.QUEUE_AGAIN,
        )
        for entry in queues.there
        if (case, entry.key) in queues.rates
    ]


def peer_rows(queues: Queues) -> list[Row]:
    """Everybody who had so many jobs at once; ours against the best of the peers."""
    found = {entry: queues.rates.get((AT_ONCE, entry.key)) for entry in queues.there}
    rates = {entry: series for entry, series in found.items() if series is not None}
    peers = [entry for entry in rates if entry.kind == "peer"]
    best = max(peers, key=lambda entry: percentile(rates[entry].samples, 0.5), default=None)
    return [
        row(
            "P5",
            f"queue, {AT_ONCE}",
            entry.title,
            "items/s",
            series,
            floor=(best.title, rates[best]) if best is not None else None,
            bar=bars.QUEUE_PEERS if entry.kind == "ours" else None,
        )
        for entry, series in rates.items()
    ]
