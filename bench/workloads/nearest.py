"""W11: the ten nearest of many vectors, against numpy's own product over a matrix in memory."""

from __future__ import annotations

from typing import Final

from bench import vectors, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.stand import Stand, installed

SEARCHES: Final = 10
SLOW_SEARCHES: Final = 2
BAR: Final = Bar("at most", 2)

FLOOR: Final = Entry(
    key="matrix",
    title="numpy: product and argpartition",
    kind="floor",
    opener="bench.vectors:Matrix",
    needs="numpy",
)
AGAIN: Final = Entry(
    key="matrix-again",
    title="the same floor again (A/A)",
    kind="floor",
    opener="bench.vectors:Matrix",
    needs="numpy",
)
OURS: Final = Entry(
    key="vectors",
    title="ours, blocking",
    kind="ours",
    opener="bench.vectors:open_numpy",
    needs="ledgerstone",
)
EXTENSION: Final = Entry(
    key="vectors-sqlite-vec",
    title="ours, blocking, vectors='sqlite-vec'",
    kind="ours",
    opener="bench.vectors:open_sqlite_vec",
    needs="sqlite_vec",
)
PLAIN: Final = Entry(
    key="vectors-python",
    title="ours, blocking, vectors='python'",
    kind="ours",
    opener="bench.vectors:open_python",
    needs="ledgerstone",
)


def run(stand: Stand, seconds: float) -> list[Row]:
    if not stand.has_ours or not installed(FLOOR):
        stand.notes.append("W11 left out: it needs numpy")
        return []
    many, few = stand.sizes.vectors, stand.sizes.few_vectors
    return [
        *measure(stand, seconds * 0.6, many, [FLOOR, AGAIN, OURS]),
        *measure(stand, seconds * 0.4, few, [FLOOR, OURS, EXTENSION, PLAIN]),
    ]


def measure(stand: Stand, seconds: float, count: int, wanted: list[Entry]) -> list[Row]:
    """Everybody over the same vectors, in a process each; the first search of each is apart."""
    found = [entry for entry in wanted if installed(entry)]
    stand.say(f"putting {count:,} vectors")
    series = {entry: Series() for entry in found}
    remotes: dict[Entry, Remote] = {}
    try:
        names = [(entry, f"{entry.key}-{count}") for entry in found]
        for remote in stand.start_all(names):
            remotes[remote.entry] = remote
        colds = {entry: prepared(stand, remotes[entry], count) for entry in found}
        check_answers(remotes)
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for entry in rounds.order(found):
                times = SLOW_SEARCHES if entry in (EXTENSION, PLAIN) else SEARCHES
                answer = remotes[entry].ask(wire.Timed("search", [], times))
                series[entry].add(answer.samples_ms, number)
    finally:
        leave_all(list(remotes.values()))
    case = f"{vectors.NEAREST} nearest of {count:,} x {vectors.DIMENSION}"
    floor = (FLOOR.title, series[FLOOR])
    bars = {OURS: BAR} if count == stand.sizes.vectors else {}
    rows = [
        row(
            "W11",
            case,
            entry.title,
            "ms",
            series[entry],
            floor=floor,
            bar=bars.get(entry),
            noise=entry == AGAIN,
        )
        for entry in found
    ]
    first = f"first search of {count:,} x {vectors.DIMENSION}"
    rows += [
        row("W11", first, entry.title, "ms", colds[entry])
        for entry in found
        if entry.kind == "ours"
    ]
    return rows


def prepared(stand: Stand, remote: Remote, count: int) -> Series:
    """The vectors are there and the process is a fresh one; how long its first search took."""
    build = wire.Timed("build", [stand.seed, count], 1)
    remote.ask(build)
    remote.ask(wire.Reopen())
    remote.ask(build)
    return Series(remote.ask(wire.Timed("search", [], 1)).samples_ms)


def check_answers(remotes: dict[Entry, Remote]) -> None:
    """Whoever finds the wrong ones fast has won nothing."""
    wanted = None
    for entry, remote in remotes.items():
        found = remote.ask(wire.Timed("answers", [], 1)).count
        wanted = found if wanted is None else wanted
        if found != wanted:
            raise RuntimeError(f"{entry.title} finds other vectors than the floor")
