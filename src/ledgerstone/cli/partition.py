"""`ledgerstone partition`: traces and reports by months, and old months dropped."""

from __future__ import annotations

from typing import Annotated

from ledgerstone.cli.options import AsJson, StoreUrl, option, seconds, server_url
from ledgerstone.cli.output import plural, print_answer
from ledgerstone.clock import US_PER_S, SystemClock
from ledgerstone.engines.postgres.admin import Partitions, partition

EXAMPLE = "Example: ledgerstone partition --store postgresql://db/agents --drop-older-than 26w"

Months = Annotated[int, option("--months", None, "Make so many months ahead.", min=1, max=120)]
Older = Annotated[
    str | None,
    option("--drop-older-than", "TIME", "Drop months in which everything is older: 90d, 26w."),
]


def run(
    *, store: StoreUrl = None, months: Months = 3, older: Older = None, as_json: AsJson = False
) -> None:
    """Keep traces and reports of a PostgreSQL store in partitions of one month.

    The first time the table is divided; after that it is to be run every month, by a timer. What
    is dropped is gone for all tenants.
    """
    url = server_url(store, "only postgresql:// stores have partitions")
    older_us = None
    if older is not None:
        older_us = SystemClock().now_us() - seconds(older, "--drop-older-than") * US_PER_S
    done = partition(url, months=months, older_us=older_us)
    print_answer(done, _summary(done), "green", as_json=as_json)


def _summary(done: Partitions) -> str:
    first = "divided, " if done.divided else ""
    made = f"{plural(done.made, 'month')} made, {done.dropped} dropped"
    return f"{first}{made}; {plural(len(done.names), 'partition')} now"
