"""The workloads of `performance.md`, each with its contenders in turn, round after round."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

from bench import machine, stand
from bench.measure import Bar, Reader, Row, Series, Writer, percentile, row
from bench.stand import Stand

T = TypeVar("T")

DEPTHS: Final = (0, stand.SHALLOW_DEPTH, stand.DEEP_DEPTH)
LONE_COMMITS: Final = 6
LONE_ROUNDS_MAX: Final = 150
SYNCS: Final = 3
LOADS: Final = 2
LASTS: Final = 10
LAST_COUNT: Final = 50
BUSY_TURNS: Final = 12
MESSAGES: Final = stand.DEEP_DEPTH * 4

# The first bars of performance.md; each is a ratio to the floor named in the same row.
BLOCKING: Final = {0: Bar("at most", 1.3), 1000: Bar("at most", 1.2)}
LONE_ASYNC: Final = Bar("at most", 1.3)
GROWTH: Final = Bar("at most", 1.15)
BUSY: Final = Bar("at least", 0.6)
LOAD: Final = {"ours, blocking": Bar("at most", 1.3), "ours, async": Bar("at most", 1.4)}
LAST: Final = {"ours, blocking": Bar("at most", 2), "ours, async": Bar("at most", 3)}
DISK: Final = Bar("at most", 1.6)


class Rounds:
    """Rounds until the time is up, at least two, the contenders in a new order each time."""

    def __init__(self, seconds: float, most: int = 10_000) -> None:
        self.end = time.monotonic() + seconds
        self.most = most
        self.chance = random.Random(0)

    def __iter__(self) -> Iterator[int]:
        done = 0
        while done < 2 or (done < self.most and time.monotonic() < self.end):
            yield done
            done += 1

    def order(self, contenders: list[T]) -> list[T]:
        return self.chance.sample(contenders, len(contenders))


async def lone(stand_: Stand, seconds: float) -> list[Row]:
    """W1: one commit at a time, to sessions that hold 0, 100 and 1000 turns."""
    series = {(depth, one.name): Series() for depth in DEPTHS for one in stand_.writers}
    probe = Series()
    rounds = Rounds(seconds, LONE_ROUNDS_MAX)
    for _ in rounds:
        # A shared disk changes its speed within a run; without this line nobody would know.
        probe.add(machine.syncs_ms(stand_.directory, SYNCS))
        for depth in DEPTHS:
            numbers = list(stand_.numbers(depth, LONE_COMMITS))
            for writer in rounds.order(stand_.writers):
                if depth == 0:
                    await settle(writer.create(numbers))
                series[depth, writer.name].add(await _commits(stand_, writer, numbers))
                writer.tidy()
    rows = [_lone_row(stand_, series, depth, one) for depth in DEPTHS for one in stand_.writers]
    disk_row = row("W1", "fdatasync of one page", "the disk itself", "ms", probe)
    return [disk_row, *rows, *_growth(stand_, series)]


async def _commits(stand_: Stand, writer: Writer, numbers: Sequence[int]) -> list[float]:
    samples: list[float] = []
    for number in numbers:
        turn = stand_.work.turn(number + len(samples))
        start = time.perf_counter_ns()
        answer = writer.commit(number, turn)
        if answer is not None:
            await answer
        samples.append((time.perf_counter_ns() - start) / 1e6)
    return samples


def _lone_row(
    stand_: Stand, series: dict[tuple[int, str], Series], depth: int, writer: Writer
) -> Row:
    """The async store is held against the floor with a thread, the blocking one without."""
    least = stand_.group if writer is stand_.ours_async else stand_.floor
    bar = BLOCKING.get(depth) if writer is stand_.ours else None
    if writer is stand_.ours_async:
        bar = LONE_ASYNC
    floor = (least.name, series[depth, least.name])
    mine = series[depth, writer.name]
    return row("W1", f"lone commit, H = {depth}", writer.name, "ms", mine, floor=floor, bar=bar)


def _growth(stand_: Stand, series: dict[tuple[int, str], Series]) -> list[Row]:
    """Deep over fresh, round by round; the file's own growth is the floor's, not ours."""
    grown = {}
    for one in stand_.writers:
        deep, fresh = series[DEPTHS[-1], one.name].medians, series[0, one.name].medians
        grown[one.name] = Series()
        for late, early in zip(deep, fresh, strict=True):
            grown[one.name].add([late / early])
    rows = []
    for mine, least in ((stand_.ours, stand_.floor), (stand_.ours_async, stand_.group)):
        if mine is not None:
            floor = (least.name, grown[least.name])
            case = f"growth H = 0 to {DEPTHS[-1]}"
            rows.append(row("W1", case, mine.name, "x", grown[mine.name], floor=floor, bar=GROWTH))
    return rows


async def resume(stand_: Stand, seconds: float) -> list[Row]:
    """W2: all messages of a deep session as typed objects; the last 50 only."""
    await _check_reads(stand_)
    series = {(case, one.name): Series() for case in ("all", "last") for one in stand_.readers}
    rounds = Rounds(seconds)
    for _ in rounds:
        for reader in rounds.order(stand_.readers):
            load, last = _reads(reader)
            series["all", reader.name].add(await _timed(load, LOADS))
            series["last", reader.name].add(await _timed(last, LASTS))
    rows = []
    cases = (("all", f"load {MESSAGES:,} messages", LOAD), ("last", "load the last 50", LAST))
    for case, title, bars in cases:
        floor = (stand_.floor.name, series[case, stand_.floor.name])
        for reader in stand_.readers:
            mine, bar = series[case, reader.name], bars.get(reader.name)
            rows.append(row("W2", title, reader.name, "ms", mine, floor=floor, bar=bar))
    return rows


Read = Callable[[], Awaitable[Sequence[object]] | Sequence[object]]


def _reads(reader: Reader) -> tuple[Read, Read]:
    return (
        lambda: reader.load(stand.READ),
        lambda: reader.last(stand.READ, LAST_COUNT),
    )


async def _check_reads(stand_: Stand) -> None:
    """A fast load that leaves something out would win every comparison."""
    for reader in stand_.readers:
        load, last = _reads(reader)
        found = len(await settle(load())), len(await settle(last()))
        if found != (MESSAGES, LAST_COUNT):
            raise RuntimeError(f"{reader.name} loaded {found}, not {(MESSAGES, LAST_COUNT)}")


async def _timed(read: Read, times: int) -> list[float]:
    samples = []
    for _ in range(times):
        start = time.perf_counter_ns()
        await settle(read())
        samples.append((time.perf_counter_ns() - start) / 1e6)
    return samples


async def busy(stand_: Stand, seconds: float) -> list[Row]:
    """W3: 64 sessions that commit at once from one event loop."""
    writers: list[Writer] = [stand_.group]
    if stand_.ours_async is not None:
        writers.append(stand_.ours_async)
    rates = {one.name: Series() for one in writers}
    waits: dict[str, list[float]] = {one.name: [] for one in writers}
    rounds = Rounds(seconds)
    for _ in rounds:
        for writer in rounds.order(writers):
            rate, wait = await _together(stand_, writer)
            rates[writer.name].add([rate])
            waits[writer.name] += wait
    floor = (stand_.group.name, rates[stand_.group.name])
    return [
        row(
            "W3",
            f"{len(stand.BUSY)} sessions at once",
            one.name,
            "turns/s",
            rates[one.name],
            floor=floor,
            bar=BUSY,
            note=f"p50 {percentile(waits[one.name], 0.5):.1f}, "
            f"p99 {percentile(waits[one.name], 0.99):.1f} ms",
        )
        for one in writers
    ]


async def _together(stand_: Stand, writer: Writer) -> tuple[float, list[float]]:
    waits: list[float] = []

    async def session(number: int) -> None:
        numbers = [number] * BUSY_TURNS
        waits.extend(await _commits(stand_, writer, numbers))

    start = time.perf_counter()
    await asyncio.gather(*(session(number) for number in stand.BUSY))
    return len(waits) / (time.perf_counter() - start), waits


async def disk(stand_: Stand, _seconds: float) -> list[Row]:
    """W6: bytes per turn, of the files as the fill left them; an empty store's size apart."""
    count = sum(depth for _, depth in stand_.histories)
    payload = Series()
    payload.add([stand_.work.payload_bytes])
    rows = [row("W6", "bytes per turn", "JSON payload", "B", payload)]
    for name, kind in (("floor", "floor, caller's thread"), ("ours", "ours")):
        if name == "ours" and stand_.ours is None:
            continue
        empty = stand_.size_bytes(f"{name}-empty")
        series = Series()
        series.add([stand_.size_bytes(f"{name}-base") / count])
        note = f"{count:,} turns; an empty store is {empty // 1024} KiB of it"
        bar = DISK if name == "ours" else None
        floor = ("payload", payload)
        rows.append(row("W6", "bytes per turn", kind, "B", series, floor=floor, bar=bar, note=note))
    return rows


async def settle(answer: Awaitable[T] | T) -> T:
    """What a blocking contender returned, or what an async one will."""
    if inspect.isawaitable(answer):
        return await answer
    return answer


Workload = Callable[[Stand, float], Awaitable[list[Row]]]
# The share of the time that each may take; what building the histories took comes off first.
WORKLOADS: Final[dict[str, tuple[Workload, float]]] = {
    "W1": (lone, 0.5),
    "W2": (resume, 0.2),
    "W3": (busy, 0.3),
    "W6": (disk, 0.0),
}
