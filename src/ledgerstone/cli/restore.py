"""`ledgerstone restore`: a backup takes the place of a store, verified first, fences raised."""

from __future__ import annotations

from typing import Annotated

from ledgerstone.backups import restore
from ledgerstone.cli.options import AsJson, Yes, argument, confirm, option, switch
from ledgerstone.cli.output import plural, print_json, print_line, progress_bar

EXAMPLE = "Example: ledgerstone restore backups/monday.db agent.db"

Backup = Annotated[str, argument("BACKUP", "The backup; it stays.")]
Target = Annotated[str, argument("STORE", "The store to be replaced.")]
Blobs = Annotated[
    str | None,
    option(
        "--blobs",
        "DIRECTORY",
        "Where the store keeps its bytes, when it is opened with `blobs=`.",
        show_default="STORE-blobs",
    ),
]
Discard = Annotated[bool, switch("--discard", "Do not keep the replaced files.")]


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
    confirm(f"Replace {store} by {backup}, and end all leases?", yes=yes)
    with progress_bar("looking", interrupted="interrupted; start it again") as show:
        done = restore(backup, store, blobs=blobs, keep=not discard, progress=show)
    if as_json:
        print_json(done)
        return
    sessions = plural(done.sessions, "session")
    print_line(f"{done.path} is restored: fences of {sessions} raised", "green")
    for name in done.kept:
        print_line(f"kept: {name}")
    if done.blobs_path is not None:
        print_line(f"its blobs are in {done.blobs_path}")
