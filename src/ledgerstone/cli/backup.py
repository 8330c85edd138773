"""`ledgerstone backup`: a store in use, copied to a new one, verified, and put in place whole."""

from __future__ import annotations

from typing import Annotated

from ledgerstone.cli.options import AsJson, argument, option, reading, switch
from ledgerstone.cli.output import plural, print_json, print_line, progress_bar, size

EXAMPLE = "Example: ledgerstone backup agent.db backups/monday.db"

INTERRUPTED = "interrupted; nothing is at {} that was not there before"

Source = Annotated[str, argument("STORE", "The url of the store to back up.")]
Target = Annotated[str, argument("TARGET", "The path of the backup.")]
SourceBlobs = Annotated[
    str | None,
    option("--blobs", "URL", "Where the store's bytes are, when it was opened with `blobs=`."),
]
Force = Annotated[bool, switch("--force", "Replace a backup that is there.")]


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
    with (
        reading(store, None, blobs, named="the first argument") as opened,
        progress_bar("looking", interrupted=INTERRUPTED.format(target)) as show,
    ):
        done = opened.admin.backup(target, force=force, progress=show)
    if as_json:
        print_json(done)
        return
    counted = (
        plural(done.sessions, "session"),
        plural(done.turns, "turn"),
        plural(done.blobs, "blob"),
    )
    print_line(f"{done.path}: {', '.join(counted)}, {size(done.size_bytes)}, verified", "green")
    if done.blobs_path is not None:
        print_line(f"its blobs are in {done.blobs_path}; keep the two together")
    if done.elsewhere:
        print_line(
            f"warning: {plural(done.elsewhere, 'blob')} in an object store are not in the backup; "
            "keep versions of that bucket",
            "yellow",
        )
