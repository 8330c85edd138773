"""Nothing that was enqueued is lost, done twice or done in the wrong order, whoever dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from ledgerstone.testing.faults.queue_accounts import Books, Entry
from ledgerstone.testing.faults.queue_crew import in_many_lives, in_processes
from ledgerstone.testing.faults.queue_load import Load, Report, in_threads
from ledgerstone.testing.faults.queue_sabotage import CompletesLate, DropsWhatIsHandedBack
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_shared_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.crash, pytest.mark.timeout(1800)]

SQLITE = PLACES["sqlite"]
CARELESS = 0.02
THREAD_TTL_S = 0.04


def note(line: Line, report: Report) -> None:
    books = report.books
    line.n = len(books.put)
    line.violations += books.violations()
    line.note = f"{books.recovered:,} recovered, {sum(books.refused.values()):,} refused"
    if report.kills:
        line.note += f", {report.kills} kills"
    if report.stops:
        line.note += f", {report.stops} stops"
    print(dict(books.refused), len(books.claimed), "claims")


@every_shared_place
def test_eight_processes(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    title = "queue: every item once, in order (8 processes)"
    with (
        scoreboard.line(title, place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        items = scale(600, 2 * place.rounds)
        load = Load(items=items, seed=seed, every_s=place.meddle_s)
        report = in_processes(place.at(folder), folder, load)
        note(line, report)
        assert report.kills
        assert report.stops
        assert report.books.recovered


@pytest.mark.parametrize("name", ["memory", "file", "sqlite", "postgres"])
def test_eight_threads(
    name: str, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("queue: every item once, in order (8 threads)", name, seed) as line,
        opened(PLACES[name], tmp_path) as backend,
    ):
        load = careless_load(scale(600, 20_000), seed)
        report = in_threads(backend, tmp_path, load)
        note(line, report)
        assert report.books.recovered
        assert report.books.refused


@pytest.mark.parametrize("name", ["file", "sqlite", "postgres"])
def test_one_process_after_the_other(
    name: str, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Killed with all its threads, again and again; the next one goes on with what is there."""
    title = "queue: every item once, in order (8 threads, killed)"
    with scoreboard.line(title, name, seed) as line, quick_disk(tmp_path) as folder:
        load = careless_load(scale(400, 10_000), seed)
        report = in_many_lives(PLACES[name].at(folder), tmp_path, load, scale(6, 100))
        note(line, report)
        assert report.books.recovered


def careless_load(items: int, seed: int) -> Load:
    """Threads that forget their work, or sleep over it."""
    return Load(
        items=items,
        seed=seed,
        ttl_s=THREAD_TTL_S,
        forget_share=CARELESS,
        stall_share=CARELESS,
    )


# --- negative controls

SABOTAGE: dict[str, tuple[type[Wrapper], float]] = {
    "duplicated": (CompletesLate, 0.0),
    "lost": (DropsWhatIsHandedBack, 0.2),
}


@pytest.mark.parametrize("sign", SABOTAGE)
def test_control_a_forgotten_rule_is_found(
    sign: str, tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    sabotage, abandon_share = SABOTAGE[sign]
    with (
        scoreboard.line(f"queue, {sabotage.__name__}", "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path) as backend,
    ):
        load = replace(careless_load(200, seed), stall_share=0.1, abandon_share=abandon_share)
        report = in_threads(sabotage(backend), tmp_path, load)
        line.n = len(report.books.put)
        line.violations = [one for one in report.books.violations() if one.startswith(sign)]


def test_control_each_wrong_entry_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    """Books that were right, with one entry changed."""
    with (
        scoreboard.line(
            "queue, one entry of the books changed", "memory", seed, control=True
        ) as line,
        opened(PLACES["memory"], tmp_path) as backend,
    ):
        books = in_threads(backend, tmp_path, Load(items=200, seed=seed)).books
        assert books.violations() == []
        random = Random(seed)
        for name, lie in LIES.items():
            found = changed(books, lie, random).violations()
            assert any(one.startswith(name) for one in found), name
            line.n += 1
            line.violations += found


def changed(books: Books, lie: Callable[[Books, int], None], random: Random) -> Books:
    copy = Books(
        sent=set(books.sent),
        put=dict(books.put),
        claimed=list(books.claimed),
        completed=list(books.completed),
        stored=list(books.stored),
    )
    lie(copy, random.randrange(1, len(books.stored) - 1))
    return copy


def drop(books: Books, n: int) -> None:
    del books.stored[n]


def invent(books: Books, n: int) -> None:
    books.stored.insert(n, replace(books.stored[n], item="x"))


def repeat(books: Books, n: int) -> None:
    books.stored.insert(n, books.stored[n])


def give_twice(books: Books, n: int) -> None:
    claim = books.claimed[n % len(books.claimed)]
    books.claimed.append(replace(claim, claim="another"))


def swap(books: Books, n: int) -> None:
    """Two neighbours of one session and one priority change places."""
    stored, put = books.stored, books.put
    for at in (*range(n, len(stored) - 1), *range(n)):
        one, two = put[stored[at].item], put[stored[at + 1].item]
        if (one.session, one.priority) == (two.session, two.priority):
            first, second = stored[at], stored[at + 1]
            stored[at] = Entry(one.session, two.item, second.claim, second.fence)
            stored[at + 1] = Entry(one.session, one.item, first.claim, first.fence)
            return
    raise AssertionError("no two neighbours")


LIES = {
    "lost": drop,
    "unexpected": invent,
    "duplicated": repeat,
    "doubled": give_twice,
    "inverted": swap,
}
