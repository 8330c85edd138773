"""P5: enqueue, claim, complete; with one session's items per call, and with fifty sessions'."""

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
ALONE_BATCHES: Final = 5
"""How many times more batches one session alone does, so that a round is long enough."""
PEER_JOBS: Final = 4
"""Times fifty jobs per round for a peer: enough for its worker to get going."""
PEERS_SHARE: Final = 0.4
CASES: Final = {
    "1 session, 1 item per call": (ALONE, 1, "jobs", bars.QUEUE_SESSION),
    "1 session, 10 items per call": (ALONE, 10, "jobs", bars.QUEUE_SESSION),
    "50 sessions per call": (MANY, 1, "served", bars.QUEUE_MANY),
}
BUSIEST: Final = "50 sessions per call"

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
                remote.ask(wire.Create([*ALONE, *MANY]))
            if entry.kind == "peer":
                # The first jobs of a worker wait for its polls; nobody counts them.
                remote.ask(wire.Jobs(MANY, 1, 1))
            else:
                for numbers, size, method, _ in CASES.values():
                    remote.ask(wire.Jobs(numbers, 1, size, method))

    def go(self, number: int, entry: Entry, case: str) -> None:
        numbers, size, method, _ = CASES[case]
        batches = self.stand.sizes.queue_batches * (ALONE_BATCHES if len(numbers) == 1 else 1)
        ask = wire.Jobs(numbers, batches, size, method)
        if entry.kind == "peer":
            ask = wire.Jobs(MANY, PEER_JOBS, 1)
        answer = self.remotes[entry.key].ask(ask)
        rate = answer.count / span_s([answer])
        self.rates.setdefault((case, entry.key), Series()).add([rate], number)

    def leave(self) -> None:
        leave_all(list(self.remotes.values()))


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
        for case in rounds.order(list(CASES)):
            for entry in rounds.order(list(queues.there)):
                if entry.kind == "peer" and (case != BUSIEST or rounds.sits_out(entry.key)):
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
    """Ours against the better of the two."""
    peers = [entry for entry in queues.peers if (BUSIEST, entry.key) in queues.rates]
    if not peers or entries.OURS_ASYNC not in queues.there:
        return []
    rates = {entry: queues.rates[BUSIEST, entry.key] for entry in peers}
    best = max(peers, key=lambda entry: percentile(rates[entry].samples, 0.5))
    return [
        row(
            "P5",
            "queue, against the best peer",
            entries.OURS_ASYNC.title,
            "items/s",
            queues.rates[BUSIEST, entries.OURS_ASYNC.key],
            floor=(best.title, rates[best]),
            bar=bars.QUEUE_PEERS,
        )
    ]
