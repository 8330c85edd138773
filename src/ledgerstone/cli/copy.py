"""`ledgerstone copy`: a whole store into another one, of whatever backend, then compared."""

from __future__ import annotations

import os
from typing import Annotated

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import (
    AsJson,
    OneTenant,
    argument,
    is_server,
    local_path,
    option,
    reading,
)
from ledgerstone.cli.output import (
    Columns,
    plural,
    print_items,
    print_json,
    print_line,
    progress_bar,
    size,
)
from ledgerstone.engines.file.urls import is_folder
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.records.transfer import TenantCopied

EXAMPLE = "Example: ledgerstone copy agent.db postgresql://localhost/agents"
ROOT_CHARS = 12
COPIED: Columns[TenantCopied] = {
    "TENANT": lambda one: one.tenant,
    "SESSIONS": lambda one: one.rows.get("sessions", 0),
    "TURNS": lambda one: one.rows.get("turns", 0),
    "NODES": lambda one: one.rows.get("nodes", 0),
    "ROWS": lambda one: sum(one.rows.values()),
    "WRITTEN": lambda one: one.written,
    "BYTES": lambda one: size(one.blob_bytes),
    "ROOT": lambda one: one.root[:ROOT_CHARS],
}
_AGAIN = "interrupted; start it again, and it goes on where it was"

Source = Annotated[str, argument("SOURCE", "The url of the store to copy.")]
Target = Annotated[str, argument("TARGET", "Where to; made if it is not there.")]
SourceBlobs = Annotated[
    str | None,
    option(
        "--source-blobs",
        "URL",
        "Where the source's bytes are, when it was opened with `blobs=`.",
    ),
]
TargetBlobs = Annotated[
    str | None,
    option(
        "--target-blobs",
        "URL",
        "Where the target keeps bytes, when it is opened with `blobs=`.",
    ),
]


def run(
    source: Source,
    target: Target,
    *,
    source_blobs: SourceBlobs = None,
    target_blobs: TargetBlobs = None,
    tenant: OneTenant = None,
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
    # Files are flushed once, when the target is closed: until then they are no copy anyway.
    # Without a tenant, opening does not warn of the copy that this one goes on with.
    durability = "process" if is_folder(target) else None
    with (
        reading(source, tenant, source_blobs, named="the first argument") as opened,
        Store.open(target, tenant=None, blobs=target_blobs or None, durability=durability) as other,
        progress_bar("looking", interrupted=_AGAIN) as show,
    ):
        done = opened.admin.copy_to(other, progress=show)
    if as_json:
        print_json(done)
        return
    print_items(COPIED, done.tenants)
    copied = f"copied {plural(len(done.tenants), 'tenant')}, {plural(done.written, 'row')} written"
    print_line(f"{copied}; both stores have the root {done.root}", "green")


def _is_same(source: str, target: str) -> bool:
    return source == target or _place(source) == _place(target)


def _place(url: str) -> str:
    """Where a url leads, without links."""
    if is_server(url):
        return parse_target(url).shown
    path = local_path(url)
    return url if path is None else os.path.realpath(path)
