"""`ledgerstone backup`: a store in use, copied to a new one, verified, and put in place whole."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone import Store
from ledgerstone.cli.failures import INTERRUPTED, CliError
from ledgerstone.cli.options import AsJson, reading
from ledgerstone.cli.output import plural, print_json, print_line, progress_bar, size, visible
from ledgerstone.records.backups import BackedUp

EXAMPLE = "Example: ledgerstone backup agent.db backups/monday.db"

Source = Annotated[
    str,
    typer.Argument(metavar="STORE", help="The url of the store to back up.", show_default=False),
]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="The path of the backup.", show_default=False),
]
SourceBlobs = Annotated[
    str | None,
    typer.Option(
        "--blobs",
        metavar="URL",
        help="Where the store's bytes are, when it was opened with `blobs=`.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a backup that is there.")]


def run(
    store: Source,
    target: Target,
    *,
    blobs: SourceBlobs = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Copy a store to a new one, while programs use it, and verify the copy.

    The backup holds one moment of all tenants, with the blobs that lie in a directory. It appears
    under its name when it is whole and verified. It is a store itself: `ledgerstone verify` and
    every other verb work on it; `ledgerstone restore` puts it back.
    """
    with reading(store, None, blobs, named="the first argument") as opened:
        done = _back_up(opened, target, force=force)
    if as_json:
        print_json(done)
        return
    counted = (
        plural(done.sessions, "session"),
        plural(done.turns, "turn"),
        plural(done.blobs, "blob"),
    )
    print_line(
        f"{visible(done.path)}: {', '.join(counted)}, {size(done.size_bytes)}, verified", "green"
    )
    if done.blobs_path is not None:
        print_line(f"its blobs are in {visible(done.blobs_path)}; keep the two together")
    if done.elsewhere:
        print_line(
            f"warning: {plural(done.elsewhere, 'blob')} in an object store are not in the backup; "
            "keep versions of that bucket",
            "yellow",
        )


def _back_up(store: Store, target: str, *, force: bool) -> BackedUp:
    with progress_bar() as show:
        try:
            return store.admin.backup(target, force=force, progress=show)
        except KeyboardInterrupt:
            text = f"interrupted; nothing is at {visible(target)} that was not there before"
            raise CliError(text, INTERRUPTED) from None


run.__name__ = "backup"
