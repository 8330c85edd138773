"""Sums of use: per group, per range to the microsecond, and the same after everything."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import pytest

from ledgerstone import Cost, Session, Usage, user
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import to_us
from ledgerstone.commands.sessions import PutSession
from ledgerstone.errors import InvalidValue
from ledgerstone.records.stats import UsageRecord, UsageSum
from ledgerstone.testing.bed import Bed

DAY_S = 86_400
DAY_US = DAY_S * 1_000_000


def brief(sums: list[UsageSum]) -> list[tuple[Any, ...]]:
    return [(*one.by.values(), one.calls, one.usage.input) for one in sums]


def fill(backend: Bed) -> None:
    """Three days, two users, three sessions of which one is the child of another."""
    store, clock = backend.store, backend.clock
    store.sessions.create(id="a", user="ann")
    store.sessions.create(id="b", user="bob")
    store.sessions.create(id="kid", parent="a")
    for day in range(3):
        for n, session in enumerate(("a", "b", "kid"), start=1):
            with store.turns.begin(session, run_id=f"run-{session}") as turn:
                turn.use("m1", Usage(n, day), cost=Cost(10 * n), provider="p")
                turn.use("m2", Usage(100), source="tool")
            clock.advance(DAY_S / 5)
        clock.advance(DAY_S * 2 / 5)


class TestUsageSums:
    @pytest.mark.promise(158, 159)
    def test_per_group(self, backend: Bed) -> None:
        fill(backend)
        store = backend.reopen()
        summary = store.usage.summary
        assert brief(summary()) == [("m1", 9, 18), ("m2", 9, 900)]
        assert brief(summary(by="provider")) == [(None, 9, 900), ("p", 9, 18)]
        assert brief(summary(by="source")) == [("", 9, 18), ("tool", 9, 900)]
        assert [one.by["day"] for one in summary(by="day")] == [
            "2023-11-14", "2023-11-15", "2023-11-16", "2023-11-17",
        ]  # fmt: skip
        assert brief(summary(by="user")) == [(None, 6, 309), ("ann", 6, 303), ("bob", 6, 306)]
        assert brief(summary(by="session")) == [("a", 6, 303), ("b", 6, 306), ("kid", 6, 309)]
        assert brief(summary(by="run", session="a")) == [("run-a", 6, 303)]
        assert brief(summary(by=())) == [(18, 918)]
        (everything,) = summary(by=())
        assert (everything.costs, everything.unpriced) == ([Cost(180)], 9)

    @pytest.mark.promise(158, 159)
    def test_per_several_groups_in_the_order_they_are_named(self, backend: Bed) -> None:
        fill(backend)
        store = backend.store
        found = brief(store.usage.summary(by=("session", "model")))
        assert found == brief(store.usage.summary(by="session, model"))
        assert [line[:2] for line in found] == [
            ("a", "m1"), ("a", "m2"), ("b", "m1"), ("b", "m2"), ("kid", "m1"), ("kid", "m2"),
        ]  # fmt: skip
        swapped = [line[:2] for line in brief(store.usage.summary(by=["model", "session"]))]
        assert swapped == sorted((model, session) for session, model, *_ in found)

    @pytest.mark.promise(158, 159)
    def test_of_one_session_one_user_and_those_below(self, backend: Bed) -> None:
        fill(backend)
        store = backend.store
        store.sessions.create(id="grandkid", parent="kid", user="ann")
        store.usage.record("grandkid", "m1", Usage(7))
        # A circle is walked once.
        circle = Session(id="a", user="ann", parent="grandkid")
        backend.write(PutSession(tenant="default", session=circle))
        summary = store.usage.summary
        assert brief(summary(by=(), session="a")) == [(6, 303)]
        assert brief(summary(by=(), user="bob")) == [(6, 306)]
        assert brief(summary(by="session", session="a", include_children=True)) == [
            ("a", 6, 303), ("grandkid", 1, 7), ("kid", 6, 309),
        ]  # fmt: skip
        assert brief(summary(by="session", session="kid", user="ann", include_children=True)) == [
            ("a", 6, 303), ("grandkid", 1, 7),
        ]  # fmt: skip
        assert summary(session="nobody", include_children=True) == []
        assert brief(summary(by=("run", "session"), session="kid", include_children=True))[0] == (
            None, "grandkid", 1, 7,
        )  # fmt: skip

    @pytest.mark.promise(158, 159)
    def test_ranges_with_edges_inside_a_day_are_exact(self, backend: Bed) -> None:
        """Every range gives what adding up the single records gives."""
        fill(backend)
        records = [one for name in ("a", "b", "kid") for one in backend.store.usage.list(name)]
        assert_exact(backend.store, records)

    @pytest.mark.promise(158, 159)
    def test_ranges_are_exact_where_times_went_back(self, backend: Bed) -> None:
        """A record that is imported with times of its own moves the clock of its session."""
        store, clock = backend.store, backend.clock
        store.sessions.create(id="a")
        for ahead_s in (0, 2.5 * DAY_S, 0.3 * DAY_S, 1.1 * DAY_S):
            at_us = clock.now_us() + round(ahead_s * 1_000_000)
            store.sessions.put(Session(id="a", updated_us=at_us))
            for n in range(4):
                store.usage.record("a", "m", Usage(n + 1))
        records = store.usage.list("a")
        times = [one.created_us for one in records]
        assert times != sorted(times)
        assert_exact(backend.reopen(), records)

    @pytest.mark.promise(158)
    def test_what_a_range_may_be(self, backend: Bed) -> None:
        fill(backend)
        store = backend.store
        noon = datetime(2023, 11, 15, 12, tzinfo=UTC)
        day = store.usage.summary(by=(), since=date(2023, 11, 15), until=date(2023, 11, 16))
        assert day == store.usage.summary(
            by=(), since=to_us(datetime(2023, 11, 15, tzinfo=UTC)), until=date(2023, 11, 16)
        )
        assert store.usage.summary(by=(), since=noon, until=noon) == []
        assert store.usage.summary(by=(), since=date(2024, 1, 1)) == []
        assert store.usage.summary(by=(), since=date(2023, 11, 16), until=date(2023, 11, 15)) == []
        wrong: list[dict[str, Any]] = [
            {"since": datetime(2023, 1, 1)},  # noqa: DTZ001
            {"until": "2023"},
            {"since": True},
            {"by": "colour"},
            {"by": ("model", "model")},
            {"by": 5},
            {"by": [5]},
            {"include_children": 1},
            {"include_children": True},
            {"include_children": True, "user": "ann"},
        ]
        for given in wrong:
            with pytest.raises(InvalidValue) as refused:
                store.usage.summary(**given)
            assert refused.value.field == next(iter(given))

    @pytest.mark.promise(158, 159)
    def test_sums_survive_compaction_vacuum_and_reopening(self, backend: Bed) -> None:
        fill(backend)
        store = backend.store
        store.messages.append("a", user("one"), user("two"))
        wanted = (store.usage.summary(by=("session", "day")), store.sessions.stats("a"))
        store.messages.compact("a", "in short", tail_start=None)
        store.messages.clear("a")
        store.admin.vacuum()
        store = backend.reopen()
        assert store.usage.summary(by=("session", "day")) == wanted[0]
        assert store.sessions.stats("a").usage == wanted[1].usage
        assert len(store.usage.list("a")) == 6
        assert store.admin.verify().ok

    @pytest.mark.promise(158, 159)
    def test_copies_begin_at_nothing_and_purged_ones_are_gone(self, backend: Bed) -> None:
        fill(backend)
        store = backend.store
        store.sessions.copy("a", "copy")
        store.sessions.fork("a")
        store.sessions.delete("b")
        assert brief(store.usage.summary(by=())) == [(18, 918)]
        store.sessions.purge("b")
        for _ in range(2):
            assert brief(store.usage.summary(by="session")) == [("a", 6, 303), ("kid", 6, 309)]
            assert brief(store.usage.summary(by=("user", "run")))[0][:2] == (None, "run-kid")
            store = backend.reopen()
        store.sessions.create(id="b")
        assert store.usage.summary(session="b") == []
        assert store.admin.verify().ok

    @pytest.mark.promise(158, 159)
    def test_a_session_that_changes_hands_takes_its_use_along(self, backend: Bed) -> None:
        fill(backend)
        backend.store.sessions.put(Session(id="b", user="ann"))
        assert brief(backend.store.usage.summary(by="user")) == [(None, 6, 309), ("ann", 12, 609)]

    @pytest.mark.promise(158, 111)
    def test_commits_at_the_same_time_are_all_counted_once(self, backend: Bed) -> None:
        """Eight writers, four sessions; every second commit is sent twice."""
        for n in range(4):
            backend.store.sessions.create(id=f"s{n}")

        def work(writer: int) -> None:
            store = backend.open()
            for n in range(6):
                for _ in range(1 + n % 2):
                    store.usage.record(
                        f"s{writer % 4}", "m", Usage(1 + n), cost=Cost(3), id=f"r{writer}-{n}"
                    )

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        (total,) = backend.store.usage.summary(by=())
        assert (total.calls, total.usage.input, total.costs) == (48, 8 * 21, [Cost(144)])
        assert backend.store.admin.verify().ok


def assert_exact(store: Store, records: list[UsageRecord]) -> None:
    """Sums over many ranges are those of an independent count."""
    times = sorted(one.created_us for one in records)
    first, last = times[0], times[-1]
    random = Random(7)
    borders: list[int | None] = [None, first, first + 1, last, last + 1, first - first % DAY_US]
    borders += [random.randrange(first, last + 1) for _ in range(12)]
    borders += [last - last % DAY_US, last - last % DAY_US + DAY_US]
    for _ in range(40):
        since, until = random.choice(borders), random.choice(borders)
        wanted: Counter[tuple[str, str]] = Counter()
        for one in records:
            after = since is None or one.created_us >= since
            if after and (until is None or one.created_us < until):
                day = date.fromordinal(719_163 + one.created_us // DAY_US).isoformat()
                wanted[one.entry.model, day] += one.entry.usage.input
        for by in (("model", "day"), ("model", "day", "run")):
            found: Counter[tuple[str, str]] = Counter()
            for line in store.usage.summary(by=by, since=since, until=until):
                found[str(line.by["model"]), str(line.by["day"])] += line.usage.input
            assert found == wanted, (by, since, until)


MOST = 2**53 - 1
"""The greatest count of one use."""
USES = 511
"""So many of them stay below the bound of one day."""


def use_most(store: Store, session: str) -> None:
    """As much as one line of a day can hold, in one turn."""
    with store.turns.begin(session, create=True) as turn:
        for _ in range(USES):
            usage = Usage(MOST, MOST, MOST, MOST, MOST, MOST)
            turn.use("m", usage, cost=Cost(MOST))


class TestSumsBeyond64Bits:
    """Each line fits in 64 bits; what they come to does not, and is exact all the same."""

    @pytest.mark.promise(158, 159)
    def test_across_sessions(self, backend: Bed) -> None:
        for n in range(3):
            use_most(backend.store, f"s{n}")
        store = backend.reopen()
        total = 3 * USES * MOST
        assert total > 2**63
        for by in ("model", (), "day", "user", "run"):
            (found,) = store.usage.summary(by=by)
            assert found.usage == Usage(total, total, total, total, total, total), by
            assert found.costs == [Cost(total)]
            assert found.calls == 3 * USES
        assert len(store.usage.summary(by="session")) == 3
        assert store.admin.verify().ok

    @pytest.mark.promise(158, 159)
    def test_over_the_days_of_one_session(self, backend: Bed) -> None:
        for _ in range(5):
            use_most(backend.store, "s")
            backend.clock.advance(DAY_S)
        store, total = backend.reopen(), 5 * USES * MOST
        assert total > 2**64
        stats = store.sessions.stats("s")
        assert (stats.usage.input, stats.costs) == (total, [Cost(total)])
        (found,) = store.usage.summary(by=(), since=to_us(datetime(2020, 1, 1, 12, tzinfo=UTC)))
        assert found.usage.total == total
        head = store.sessions.head("s")
        assert head is not None
        assert store.admin.verify().ok
        assert store.usage.delete("s").records == 5 * USES

    @pytest.mark.promise(158, 159)
    def test_corrections_bring_it_back(self, backend: Bed) -> None:
        store = backend.store
        for name in ("a", "b", "c"):
            use_most(store, name)
            with store.turns.begin(name) as turn:
                turn.use("m", Usage(-5, -7), cost=Cost(-9), correction=True)
        (found,) = store.usage.summary()
        assert found.usage.input == 3 * (USES * MOST - 5)
        assert found.usage.total == 3 * (USES * MOST - 12)
        assert found.costs == [Cost(3 * (USES * MOST - 9))]

    @pytest.mark.promise(160)
    def test_a_budget_refuses_what_it_cannot_count(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(cost=Cost(1), tokens=1, id="g", mode="refuse_commit")
        for name in ("a", "b"):
            with store.turns.begin(name, create=True) as turn:
                for _ in range(USES):
                    turn.use("m", Usage(MOST, total=MOST), cost=Cost(MOST), over_budget=True)
        (before,) = store.usage.budgets()
        assert (before.spent_nano, before.spent_tokens) == (2 * USES * MOST,) * 2
        turn = store.turns.begin("c", create=True)
        for _ in range(3):
            turn.use("m", Usage(MOST, total=MOST), cost=Cost(MOST), over_budget=True)
        with pytest.raises(InvalidValue, match="budget would be 2"):
            turn.commit()
        assert store.usage.budgets() == [before]
        assert store.sessions.get("c") is None
        store.usage.drop_budget("g")
        use_most(store, "c")
        with pytest.raises(InvalidValue, match="budget would be 2"):
            store.usage.budget(cost=Cost(1), tokens=1, id="g")
        assert store.usage.budgets() == []
        assert store.admin.verify().ok

    @pytest.mark.promise(158)
    def test_the_time_of_tool_calls(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        for n, duration_ms in enumerate((2**61, 2**61 - 1)):
            started = store.executions.start("s", call_id=f"c{n}", tool="t", arguments={})
            store.executions.finish(started, result=1, duration_ms=duration_ms)
        stats = store.sessions.stats("s")
        assert stats.average_duration_ms == (2**62 - 1) // 2
        for duration_ms in (1, 2**62, 2**63 - 1):
            started = store.executions.start("s", call_id=str(duration_ms), tool="t", arguments={})
            with pytest.raises(InvalidValue, match="2"):
                store.executions.finish(started, result=1, duration_ms=duration_ms)
        assert store.sessions.stats("s").average_duration_ms == stats.average_duration_ms
        assert store.admin.verify().ok
