"""`ledgerstone partition`: traces and reports by months, and old months dropped."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone.cli.failures import CliError
from ledgerstone.cli.gc import seconds
from ledgerstone.cli.options import ENVIRONMENT, AsJson, StoreUrl, is_server
from ledgerstone.cli.output import plural, print_json, print_line
from ledgerstone.clock import US_PER_S, SystemClock
from ledgerstone.engines.postgres.admin import Partitions, partition

EXAMPLE = "Example: ledgerstone partition --store postgresql://db/agents --drop-older-than 26w"

Months = Annotated[int, typer.Option("--months", min=1, max=120, help="Make so many months ahead.")]
Older = Annotated[
    str | None,
    typer.Option(
        "--drop-older-than",
        metavar="TIME",
        help="Drop months in which everything is older: 90d, 26w.",
        show_default=False,
    ),
]


def run(
    *, store: StoreUrl = None, months: Months = 3, older: Older = None, as_json: AsJson = False
) -> None:
    """Keep traces and reports of a PostgreSQL store in partitions of one month.

    The first time the table is divided; after that it is to be run every month, by a timer. What
    is dropped is gone for all tenants.
    """
    if not store:
        raise CliError(f"no store: give --store URL or set {ENVIRONMENT}")
    if not is_server(store):
        raise CliError("only postgresql:// stores have partitions")
    older_us = None
    if older is not None:
        older_us = SystemClock().now_us() - seconds(older, "--drop-older-than") * US_PER_S
    done = partition(store, months=months, older_us=older_us)
    if as_json:
        print_json(done)
    else:
        print_line(_told(done), "green")


def _told(done: Partitions) -> str:
    first = "divided, " if done.divided else ""
    made = f"{plural(done.made, 'month')} made, {done.dropped} dropped"
    return f"{first}{made}; {plural(len(done.names), 'partition')} now"


run.__name__ = "partition"
