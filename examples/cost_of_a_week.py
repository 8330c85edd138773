"""The cost of a week: scripted agents, a price list, a budget that stops one, and the report."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from ledgerstone import BudgetExceeded, Cost, ManualClock, Prices, Store, Usage

MONDAY = datetime(2026, 11, 9, 9, tzinfo=UTC)
DAY_S = 86_400
PRICES = Prices(
    {
        "large": {"input": "3", "output": "15", "cached_input": "0.3"},
        "small": {"input": "0.25", "output": "1.25"},
    }
)
# Session, model, and what a day of it uses.
AGENTS = (
    ("research", "large", Usage(input=900_000, output=40_000, cached_input=600_000)),
    ("inbox", "small", Usage(input=400_000, output=60_000)),
    ("reviewer", "large", Usage(input=200_000, output=20_000)),
)


def dollars(costs: list[Cost]) -> str:
    return " ".join(f"{cost.nano / 1e9:6.2f} {cost.currency}" for cost in costs)


def work_a_day(store: Store, day: int, stopped: set[str]) -> None:
    for session, model, usage in AGENTS:
        try:
            with store.turns.begin(session) as turn:
                turn.assistant(f"day {day + 1} is done")
                turn.use(model, usage)
        except BudgetExceeded as refused:
            # The day that went beyond the budget was kept; this one did not begin.
            if session not in stopped:
                print(f"{session} stops on day {day + 1}: {refused.used / 1e9:.2f} USD are used")
            stopped.add(session)


def report(store: Store) -> None:
    print("\nper day")
    days = store.usage.summary(by="day")
    most = max(one.costs[0].nano for one in days)
    for one in days:
        print(f"  {one.by['day']} {dollars(one.costs)}  {'#' * (one.costs[0].nano * 24 // most)}")
    print("per agent and model")
    for one in store.usage.summary(by=("session", "model")):
        tokens = f"{one.usage.total_tokens:>9,} tokens"
        print(f"  {one.by['session']:<9} {one.by['model']:<6} {tokens} {dollars(one.costs)}")
    (total,) = store.usage.summary(by=())
    print(f"the week: {total.calls} calls, {dollars(total.costs).strip()}")


def main(folder: Path) -> None:
    clock, stopped = ManualClock(int(MONDAY.timestamp()) * 1_000_000), set[str]()
    with Store.open(folder / "agent.db", clock=clock, prices=PRICES) as store:
        for session, *_ in AGENTS:
            store.sessions.create(id=session, user="ada")
        store.usage.budget(session="research", cost=Cost(8_000_000_000), period="month")
        for day in range(7):
            work_a_day(store, day, stopped)
            clock.advance(DAY_S)
        report(store)

        # A bill that says less: a correction is another record, the old one stays.
        store.usage.record(
            "inbox", "small", Usage(), cost=Cost(-100_000_000), correction=True, id="credit-note-7"
        )
        stats = store.sessions.stats("inbox")
        print(f"inbox after a credit note: {dollars(stats.costs).strip()} in {stats.calls} records")
        (left,) = store.usage.remaining("research")
        assert left.cost_left is not None
        print(f"research has {dollars([left.cost_left]).strip()} left this month")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
