"""A4: ADK appends the four events of a turn, loads a session of 100 turns, and lists sessions."""

from __future__ import annotations

from bench import wire
from bench.adapters import bars
from bench.adapters import entries as known
from bench.adapters.field import Cases, check, commits, measured
from bench.adapters.stand import AdapterStand
from bench.adapters.users import EACH
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.stand import READ

APPEND = "append the 4 events of a turn"
GET = "get_session"
LOADS = 2
LISTS = 3
FEW = 100
SERVICES = {
    "SQLite": (known.EVENTS, known.LEDGER_EVENTS, known.LEDGER_EVENTS_AGAIN),
    "PostgreSQL": (known.PG_EVENTS, known.PG_LEDGER_EVENTS),
}


def run(stand: AdapterStand, seconds: float) -> list[Row]:
    wanted = stand.there([entry for found in SERVICES.values() for entry in found])
    there = stand.filled(wanted)
    try:
        cases = measured(
            stand,
            there,
            {
                APPEND: lambda entry, number: commits(stand, entry, number),
                GET: lambda entry, number: wire.Timed("load", [READ], LOADS),
            },
            seconds * 0.7,
        )
        check(stand, there, cases, APPEND)
        there = [entry for entry in there if entry.key in stand.remotes]
    finally:
        stand.leave(there)
    rows = []
    for case, bar in ((APPEND, bars.EVENTS), (GET, bars.LOAD)):
        rows += against_peer(stand, case, bar, there, cases)
    lists = [entry for entry in there if entry != known.LEDGER_EVENTS_AGAIN]
    return rows + list_rows(stand, lists, seconds * 0.3)


def against_peer(
    stand: AdapterStand, case: str, bar: Bar, there: list[Entry], cases: Cases
) -> list[Row]:
    rows = []
    for backend, (peer, mine, *more) in SERVICES.items():
        for entry in (peer, mine, *more):
            if entry not in there:
                continue
            of = mine if entry in more else peer
            floor = (of.title, cases[case, of.key]) if of in there and of != entry else None
            rows.append(
                row(
                    "A4",
                    f"{case}, H = {stand.sizes.shallow_depth}, {backend}",
                    entry.title,
                    "ms",
                    cases[case, entry.key],
                    floor=floor,
                    bar=bar if entry == mine and floor else None,
                    noise=entry in more,
                )
            )
    return rows


def list_rows(stand: AdapterStand, there: list[Entry], seconds: float) -> list[Row]:
    """A user's sessions, and those of the whole app, in a small and in a big store."""
    counts = (FEW, stand.sizes.adapter_listed)
    users: dict[tuple[str, int], Series] = {}
    apps: dict[tuple[str, int], Series] = {}
    remotes = {}
    try:
        for entry in there:
            for count in counts:
                name = f"{entry.key}-{count}"
                remote = stand.start(entry, name)
                remotes[entry.key, count] = remote
                remote.ask(wire.Timed("many", [count], 1))
                stand.settle(name)
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for key, count in rounds.order(list(remotes)):
                remote = remotes[key, count]
                answer = remote.ask(wire.Timed("of_user", [], LISTS))
                whole = remote.ask(wire.Timed("of_app", [], 1))
                held = (answer.count, whole.count)
                if held != (min(count, EACH), count):
                    raise ContenderFailed(f"{key} listed {held} of {count}")
                users.setdefault((key, count), Series()).add(answer.samples_ms, number)
                each = [1000 * sample / count for sample in whole.samples_ms]
                apps.setdefault((key, count), Series()).add(each, number)
    finally:
        for remote in remotes.values():
            remote.leave()
    rows = []
    for case, unit, series in (
        (f"list_sessions of a user with {EACH}", "ms", users),
        ("list_sessions of the app, per session", "us", apps),
    ):
        for entry in there:
            rows += flat_rows(case, unit, entry, counts, series)
    return rows


def flat_rows(
    case: str,
    unit: str,
    entry: Entry,
    counts: tuple[int, int],
    series: dict[tuple[str, int], Series],
) -> list[Row]:
    backend = next(one for one in SERVICES if entry in SERVICES[one])
    floor = (f"at {counts[0]:,} sessions", series[entry.key, counts[0]])
    return [
        row(
            "A4",
            f"{case}, of {count:,} sessions, {backend}",
            entry.title,
            unit,
            series[entry.key, count],
            floor=floor,
            bar=bars.LISTS if entry.kind == "ours" and count != counts[0] else None,
        )
        for count in counts
    ]
