"""`ledgerstone root`: one hash over everything stored, the same in every backend."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ledgerstone import Store
from ledgerstone.cli.options import AsJson, reading
from ledgerstone.cli.output import print_json, print_line, print_table, visible
from ledgerstone.records.transfer import Root

EXAMPLE = "Example: ledgerstone root agent.db"
HEADERS = ("TENANT", "SESSIONS", "ROWS", "ROOT")

Place = Annotated[
    str, typer.Argument(metavar="URL", help="The url of the store.", show_default=False)
]
Whose = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Only this tenant.", show_default="all tenants"),
]


def run(url: Place, *, tenant: Whose = None, as_json: AsJson = False) -> None:
    """Print a hash over everything stored; two stores with the same one hold the same.

    Nobody may write to the store meanwhile. Nothing is changed.
    """
    with reading(url, tenant, named="the argument") as opened:
        found = _root(opened)
    if as_json:
        print_json(found)
        return
    if found.tenants:
        rows = [
            (visible(one.tenant), str(one.rows["sessions"]), str(sum(one.rows.values())), one.root)
            for one in found.tenants
        ]
        print_table(HEADERS, rows)
    print_line(found.root)


def _root(store: Store) -> Root:
    waiting = Console(stderr=True)
    with Progress(console=waiting, transient=True, disable=not waiting.is_terminal) as bar:
        task = bar.add_task("hashing", total=None)

        def show(phase: str, done: int, total: int) -> None:
            bar.update(task, description=phase, completed=done, total=total)

        return store.admin.root(progress=show)


run.__name__ = "root"
