"""`ledgerstone restored`: what to run once after a backup was put back, before workers start."""

from __future__ import annotations

from typing import Annotated

from ledgerstone.cli.options import (
    NAMED,
    AsJson,
    StoreUrl,
    Yes,
    check_there,
    confirm,
    shown,
    switch,
    writing,
)
from ledgerstone.cli.output import plural, print_answer

EXAMPLE = "Example: ledgerstone restored --store postgresql://localhost/agents --yes"

AcceptLoss = Annotated[
    bool,
    switch(
        "--accept-loss",
        "Open a SQLite store without the log or the file it misses; what was in it is lost.",
    ),
]


def run(
    *,
    store: StoreUrl = None,
    accept_loss: AcceptLoss = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """End all leases and lift all fences of a store that was restored from a backup.

    A worker that still runs from before, or another system, may remember fences that the backup
    does not know: after this none of them is granted again. Run it before workers start: every
    worker that holds a lease now loses it. Asks first, unless --yes is given.
    """
    check_there(store, NAMED, accept_loss=accept_loss)
    question = f"End all leases of {shown(str(store))}"
    # Before the store is opened: with --accept-loss that alone gives up what is missing.
    confirm(f"{question}, and give up what it misses?" if accept_loss else f"{question}?", yes=yes)
    with writing(store, None, accept_loss=accept_loss) as opened:
        tenants = opened.admin.tenants()
        lifted = {name: opened.for_tenant(name).admin.after_restore() for name in tenants}
    sessions = plural(sum(lifted.values()), "session")
    text = f"fences lifted: {sessions} of {plural(len(lifted), 'tenant')}"
    print_answer(lifted, text, "green", as_json=as_json)
