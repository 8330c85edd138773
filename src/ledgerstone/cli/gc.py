"""`ledgerstone gc`: bytes that nothing refers to any more, found, shown, and then removed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import (
    AsJson,
    BlobsUrl,
    StoreUrl,
    Tenant,
    option,
    seconds,
    switch,
    writing,
)
from ledgerstone.cli.output import (
    plural,
    print_json,
    print_line,
    print_table,
    progress_bar,
    size,
)
from ledgerstone.records.blobs import Collected

EXAMPLE = "Example: ledgerstone gc --store agent.db --older-than 1d"
OlderThan = Annotated[
    str, option("--older-than", "TIME", "Spare what is younger: 90s, 15m, 1h, 7d, 2w.")
]
Yes = Annotated[bool, switch("--yes", "Remove it without being asked.")]


def run(
    *,
    store: StoreUrl = None,
    blobs: BlobsUrl = None,
    tenant: Tenant = "default",
    older_than: OlderThan = "1h",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove bytes that nothing refers to, unfinished uploads and expired memories.

    Shows what it found, then asks. With --json it only looks, unless --yes is given.
    """
    young_s = seconds(older_than)
    with writing(store, tenant, blobs) as opened:
        found = _collect(opened, young_s, dry_run=True)
        if as_json:
            print_json(_collect(opened, young_s, dry_run=False) if yes else found)
            return
        _print_found(found)
        if not _removes(found) and not yes:
            print_line("nothing to remove", "green")
            return
        if not yes and not _agreed(found):
            print_line("nothing was removed")
            return
        done = _collect(opened, young_s, dry_run=False)
    if _removes(done):
        blobs_gone = plural(done.deleted, "blob")
        print_line(f"removed {blobs_gone}, {size(done.freed_bytes)} are free again", "green")
    else:
        print_line("nothing to remove", "green")


def _collect(store: Store, older_than_s: int, *, dry_run: bool) -> Collected:
    with progress_bar("looking" if dry_run else "removing") as show:
        return store.admin.gc(dry_run=dry_run, older_than_s=older_than_s, on_progress=show)


def _print_found(found: Collected) -> None:
    rows = [
        ("things that refer to bytes", found.roots),
        ("blobs that stay", found.retained),
        ("blobs that nothing refers to", found.deleted),
        ("unused values of sessions", found.values),
        ("uploads that never ended", found.uploads),
        ("attachments that no turn used", found.attachments),
        ("memories that expired", found.memories),
    ]
    print_table(("WHAT", "COUNT"), rows)
    print_line(f"to free: {size(found.freed_bytes)}")
    if found.elsewhere:
        print_line(
            f"{found.elsewhere} more could go, but lie elsewhere: name the place with --blobs"
        )


def _removes(found: Collected) -> bool:
    return any((found.deleted, found.values, found.uploads, found.attachments, found.memories))


def _agreed(found: Collected) -> bool:
    if not sys.stdin.isatty():
        raise CliError("nobody is here to ask; add --yes to remove it")
    return typer.confirm(f"Remove this, {plural(found.deleted, 'blob')} included?")
