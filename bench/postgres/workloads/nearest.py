"""P11: the ten nearest of many vectors by an HNSW index, against exact search in the database."""

from __future__ import annotations

from typing import Final

from bench import vectors, wire
from bench.contender import Entry
from bench.measure import Row, Series, row
from bench.postgres import bars
from bench.postgres.stand import PostgresStand, available
from bench.postgres.vectors import PER_MILLE
from bench.remote import ContenderFailed, Remote, leave_all
from bench.rounds import Rounds

SEARCHES: Final = 5

EXACT: Final = Entry(
    key="pg-vectors-exact",
    title="pgvector without an index",
    kind="floor",
    opener="bench.postgres.vectors:open_exact",
    needs="numpy",
)
AGAIN: Final = Entry(
    key="pg-vectors-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.postgres.vectors:open_exact",
    needs="numpy",
)
OURS: Final = Entry(
    key="pg-vectors",
    title="ours, blocking, vectors='pgvector'",
    kind="ours",
    opener="bench.postgres.vectors:open_pgvector",
    needs="ledgerstone.vectors.opening",
)
NUMPY: Final = Entry(
    key="pg-vectors-numpy",
    title="ours, blocking, vectors='numpy'",
    kind="ours",
    opener="bench.postgres.vectors:open_numpy",
    needs="ledgerstone.engines.postgres.backend",
)


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    found = [EXACT, AGAIN, OURS, NUMPY]
    if not stand.has_ours or available(found) != found:
        stand.notes.append("P11 left out: it needs numpy and the engine pgvector")
        return []
    count = stand.sizes.indexed
    stand.say(f"putting {count:,} vectors")
    series = {entry: Series() for entry in found}
    remotes: dict[Entry, Remote] = {}
    try:
        for source, twin in ((EXACT, AGAIN), (OURS, NUMPY)):
            put(stand, source, count)
            stand.copy(source.key, twin.key)
        for remote in stand.start_all([(entry, entry.key) for entry in found]):
            remotes[remote.entry] = remote
        recalls = {entry: prepared(stand, remotes[entry], count) for entry in found}
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for entry in rounds.order(found):
                answer = remotes[entry].ask(wire.Timed("search", [], SEARCHES))
                series[entry].add(answer.samples_ms, number)
    finally:
        leave_all(list(remotes.values()))
    return [*search_rows(count, found, series), *recall_rows(count, found, recalls)]


def put(stand: PostgresStand, entry: Entry, count: int) -> None:
    """The vectors, in one database; who holds the same gets a copy of it."""
    remote = stand.start(entry, entry.key)
    try:
        remote.ask(wire.Timed("build", [stand.seed, count], 1))
    finally:
        remote.leave()


def prepared(stand: PostgresStand, remote: Remote, count: int) -> float:
    """Everything is there, and the first search, which may build an index, is over."""
    remote.ask(wire.Timed("build", [stand.seed, count], 1))
    remote.ask(wire.Timed("search", [], 1))
    stand.settle(remote.entry.key)
    found = remote.ask(wire.Timed("recall", [stand.seed, count], 1)).count
    if remote.entry.kind == "floor" and found < PER_MILLE * 0.99:
        raise ContenderFailed(f"{remote.entry.title} is not exact: {found} of {PER_MILLE}")
    return found / PER_MILLE


def search_rows(count: int, found: list[Entry], series: dict[Entry, Series]) -> list[Row]:
    return [
        row(
            "P11",
            f"{vectors.NEAREST} nearest of {count:,} x {vectors.DIMENSION}",
            entry.title,
            "ms",
            series[entry],
            floor=(EXACT.title, series[EXACT]),
            bar=bars.NEAREST if entry == OURS else None,
            noise=entry == AGAIN,
        )
        for entry in found
    ]


def recall_rows(count: int, found: list[Entry], recalls: dict[Entry, float]) -> list[Row]:
    return [
        Row(
            workload="P11",
            case=f"recall@{vectors.NEAREST} of {count:,} x {vectors.DIMENSION}",
            contender=entry.title,
            unit="",
            median=recalls[entry],
            p10=recalls[entry],
            p90=recalls[entry],
            samples=1,
            bar=str(bars.RECALL).removesuffix("x"),
            verdict=bars.RECALL.judge(recalls[entry], recalls[entry]),
        )
        for entry in found
        if entry.kind == "ours"
    ]
