"""`ledgerstone root`: one hash over everything stored, the same in every backend."""

from __future__ import annotations

from typing import Annotated

from ledgerstone.cli.options import AsJson, OneTenant, argument, reading
from ledgerstone.cli.output import Columns, print_items, print_json, print_line, progress_bar
from ledgerstone.records.transfer import TenantRoot

EXAMPLE = "Example: ledgerstone root agent.db"
ROOTS: Columns[TenantRoot] = {
    "TENANT": lambda one: one.tenant,
    "SESSIONS": lambda one: one.rows["sessions"],
    "ROWS": lambda one: sum(one.rows.values()),
    "ROOT": lambda one: one.root,
}

Url = Annotated[str, argument("URL", "The url of the store.")]


def run(url: Url, *, tenant: OneTenant = None, as_json: AsJson = False) -> None:
    """Print a hash over everything stored; two stores with the same one hold the same.

    Nobody may write to the store meanwhile. Nothing is changed.
    """
    with reading(url, tenant, named="the argument") as opened, progress_bar("hashing") as show:
        found = opened.admin.root(progress=show)
    if as_json:
        print_json(found)
        return
    if found.tenants:
        print_items(ROOTS, found.tenants)
    print_line(found.root)
