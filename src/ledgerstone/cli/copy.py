"""`ledgerstone copy`: a whole store into another one, of whatever backend, then compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ledgerstone import Store
from ledgerstone.cli.failures import INTERRUPTED, CliError
from ledgerstone.cli.options import AsJson, is_server, local_path, reading
from ledgerstone.cli.output import (
    plural,
    print_json,
    print_line,
    print_table,
    progress_bar,
    size,
    visible,
)
from ledgerstone.engines.file.urls import folder_path, is_folder
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.records.transfer import Copied

EXAMPLE = "Example: ledgerstone copy agent.db postgresql://localhost/agents"
HEADERS = ("TENANT", "SESSIONS", "TURNS", "NODES", "ROWS", "WRITTEN", "BYTES", "ROOT")
ROOT_CHARS = 12
_AGAIN = "interrupted; start it again, and it goes on where it was"

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The url of the store to copy.", show_default=False)
]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="Where to; made if it is not there.", show_default=False),
]
SourceBlobs = Annotated[
    str | None,
    typer.Option(
        "--source-blobs",
        metavar="URL",
        help="Where the source's bytes are, when it was opened with `blobs=`.",
        show_default=False,
    ),
]
TargetBlobs = Annotated[
    str | None,
    typer.Option(
        "--target-blobs",
        metavar="URL",
        help="Where the target keeps bytes, when it is opened with `blobs=`.",
        show_default=False,
    ),
]
Whose = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Only this tenant.", show_default="all tenants"),
]


def run(
    source: Source,
    target: Target,
    *,
    source_blobs: SourceBlobs = None,
    target_blobs: TargetBlobs = None,
    tenant: Whose = None,
    as_json: AsJson = False,
) -> None:
    """Copy a store into another one, bytes and all, and compare the two at the end.

    Nobody may write to the source meanwhile. Nothing of the target is replaced; a copy that was
    interrupted goes on when it is started again.
    """
    if target.startswith("memory:"):
        raise CliError("memory:// lives inside one process; give a path or a url to copy to")
    if _is_same(source, target):
        raise CliError("source and target are the same store; give another target")
    with (
        reading(source, tenant, source_blobs, named="the first argument") as opened,
        _writing(target, target_blobs) as other,
    ):
        done = _copy(opened, other)
    if as_json:
        print_json(done)
        return
    rows = [
        (
            visible(one.tenant),
            *(str(one.rows.get(name, 0)) for name in ("sessions", "turns", "nodes")),
            str(sum(one.rows.values())),
            str(one.written),
            size(one.blob_bytes),
            one.root[:ROOT_CHARS],
        )
        for one in done.tenants
    ]
    print_table(HEADERS, rows)
    copied = f"copied {plural(len(done.tenants), 'tenant')}, {plural(done.written, 'row')} written"
    print_line(f"{copied}; both stores have the root {done.root}", "green")


@contextmanager
def _writing(url: str, blobs: str | None) -> Iterator[Store]:
    """The target. Files are flushed once, when it is closed: until then they are no copy anyway.

    Without a tenant, opening does not warn of the copy that this one goes on with.
    """
    durability = "process" if is_folder(url) else None
    with Store.open(url, tenant=None, blobs=blobs or None, durability=durability) as store:
        yield store


def _copy(source: Store, target: Store) -> Copied:
    with progress_bar() as show:
        try:
            return source.admin.copy_to(target, progress=show)
        except KeyboardInterrupt:
            raise CliError(_AGAIN, INTERRUPTED) from None


def _is_same(source: str, target: str) -> bool:
    return source == target or _place(source) == _place(target)


def _place(url: str) -> str:
    """Where a url leads, without links."""
    if is_folder(url):
        return os.path.realpath(folder_path(url))
    if is_server(url):
        return parse_target(url).shown
    path = local_path(url)
    return url if path is None else os.path.realpath(path)


run.__name__ = "copy"
