"""`ledgerstone restored`: what to run once after a backup was put back, before workers start."""

from __future__ import annotations

from ledgerstone.cli.options import AsJson, StoreUrl, reading
from ledgerstone.cli.output import plural, print_json, print_line

EXAMPLE = "Example: ledgerstone restored --store postgresql://localhost/agents"


def run(*, store: StoreUrl = None, as_json: AsJson = False) -> None:
    """End all leases and lift all fences of a store that was restored from a backup.

    A worker that still runs from before, or another system, may remember fences that the backup
    does not know: after this none of them is granted again. Run it before workers start.
    """
    with reading(store, None) as opened:
        tenants = opened.admin.tenants()
        lifted = {name: opened.for_tenant(name).admin.after_restore() for name in tenants}
    if as_json:
        print_json(lifted)
    else:
        sessions = plural(sum(lifted.values()), "session")
        print_line(f"fences lifted: {sessions} of {plural(len(lifted), 'tenant')}", "green")


run.__name__ = "restored"
