"""`ledgerstone demo`: an agent is killed in the middle of a turn, and nothing is lost."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone.cli.failures import DEFECTS, OK, CliError
from ledgerstone.cli.options import AsJson, option, switch
from ledgerstone.cli.output import console

EXAMPLE = "Example: ledgerstone demo --keep"

Place = Annotated[
    str | None,
    option(
        "--store",
        "URL",
        "Play in this store, in a session of its own, and leave it there. Only this option "
        "counts, not the environment: a demo has no business in a store nobody named.",
        show_default="a temporary directory",
    ),
]
Tenant = Annotated[str, option("--tenant", "NAME", "Whose session it is.")]
Keep = Annotated[bool, switch("--keep", "Keep the temporary store, and say where.")]


def run(
    *, store: Place = None, tenant: Tenant = "default", keep: Keep = False, as_json: AsJson = False
) -> None:
    """An agent books a trip, is killed with -9, and another one goes on.

    Takes a few seconds, needs no network and no key. Ends with the count of turns that were
    acknowledged, lost and doubled; exit code 1 unless nothing was lost or doubled.
    """
    from ledgerstone.demo.stage import StageError, run_demo

    try:
        summary = run_demo(console(), store=store, tenant=tenant, keep=keep, as_json=as_json)
    except StageError as error:
        raise CliError(f"the demo did not run to its end: {error}", DEFECTS) from None
    raise typer.Exit(OK if summary.ok else DEFECTS)
