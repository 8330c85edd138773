"""`ledgerstone restore`: a backup takes the place of a store, verified first, fences raised."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone.backups import restore
from ledgerstone.cli.failures import INTERRUPTED, CliError
from ledgerstone.cli.options import AsJson, Yes, confirm
from ledgerstone.cli.output import plural, print_json, print_line, progress_bar, visible
from ledgerstone.records.backups import Restored

EXAMPLE = "Example: ledgerstone restore backups/monday.db agent.db"

Backup = Annotated[
    str, typer.Argument(metavar="BACKUP", help="The backup; it stays.", show_default=False)
]
Target = Annotated[
    str, typer.Argument(metavar="STORE", help="The store to be replaced.", show_default=False)
]
Blobs = Annotated[
    str | None,
    typer.Option(
        "--blobs",
        metavar="DIRECTORY",
        help="Where the store keeps its bytes, when it is opened with `blobs=`.",
        show_default="STORE-blobs",
    ),
]
Discard = Annotated[bool, typer.Option("--discard", help="Do not keep the replaced files.")]


def run(
    backup: Backup,
    store: Target,
    *,
    blobs: Blobs = None,
    discard: Discard = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of a store that nobody has open.

    The backup is verified before the store is touched. All leases end and all fences rise in the
    same step, as `ledgerstone restored` does. The replaced files are kept under another name,
    unless --discard is given. Asks first, unless --yes is given.
    """
    confirm(f"Replace {visible(store)} by {visible(backup)}, and end all leases?", yes=yes)
    done = _restore(backup, store, blobs, keep=not discard)
    if as_json:
        print_json(done)
        return
    sessions = plural(done.sessions, "session")
    print_line(f"{visible(done.path)} is restored: fences of {sessions} raised", "green")
    for name in done.kept:
        print_line(f"kept: {visible(name)}")
    if done.blobs_path is not None:
        print_line(f"its blobs are in {visible(done.blobs_path)}")


def _restore(backup: str, store: str, blobs: str | None, *, keep: bool) -> Restored:
    with progress_bar() as show:
        try:
            return restore(backup, store, blobs=blobs, keep=keep, progress=show)
        except KeyboardInterrupt:
            raise CliError("interrupted; start it again", INTERRUPTED) from None


run.__name__ = "restore"
