"""`ledgerstone verify`: does every link, parent, position, reference and hash still hold?"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ledgerstone import Store
from ledgerstone.cli.failures import DEFECTS
from ledgerstone.cli.options import AsJson, BlobsUrl, StoreUrl, reading
from ledgerstone.cli.output import plural, print_json, print_line, print_table, visible
from ledgerstone.errors import SessionNotFound
from ledgerstone.records.reports import Verified

EXAMPLE = "Example: ledgerstone verify --store agent.db"
HEADERS = ("TENANT", "SESSION", "DEFECT", "WHERE", "DETAIL")

Only = Annotated[
    str | None,
    typer.Argument(metavar="[SESSION]", help="Only this session.", show_default=False),
]
Whose = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Only this tenant.", show_default="all tenants"),
]
Bytes = Annotated[bool, typer.Option("--bytes", help="Also read the bytes of every blob.")]


def run(
    session: Only = None,
    *,
    store: StoreUrl = None,
    blobs: BlobsUrl = None,
    tenant: Whose = None,
    read_bytes: Bytes = False,
    as_json: AsJson = False,
) -> None:
    """Check every hash, link and reference; with --bytes the bytes of blobs too.

    Exit code 1 if something is wrong; nothing is changed.
    """
    with reading(store, None, blobs) as opened:
        names = _tenants(opened, tenant, session)
        # The file is one for all: it is looked at with the first of them.
        found = {
            name: _verify(opened, name, session, whole=name == names[0], read_bytes=read_bytes)
            for name in names
        }
    defects = [(name, defect) for name, one in found.items() for defect in one.defects]
    counted = _sum(list(found.values()), read_bytes)
    if as_json:
        listed = [
            {"tenant": name, "session": d.session, "kind": d.kind, "where": d.where,
             "detail": d.detail}
            for name, d in defects
        ]  # fmt: skip
        print_json({**counted, "ok": not defects, "defects": listed})
    else:
        checked = ", ".join(plural(count, noun[:-1]) for noun, count in counted.items())
        verdict = plural(len(defects), "defect") if defects else "no defects"
        print_line(f"checked {checked}: {verdict}", "bold red" if defects else "green")
        if defects:
            rows = [(name, d.session, d.kind, d.where, d.detail) for name, d in defects]
            print_table(HEADERS, [tuple(map(visible, row)) for row in rows])
            if any(d.kind != "copy" for _, d in defects):
                print_line("nothing was changed; restore these sessions from a copy of the store")
    raise typer.Exit(DEFECTS if defects else 0)


def _tenants(store: Store, tenant: str | None, session: str | None) -> list[str]:
    """All that have data, unless one is named; a named session is looked for in its own."""
    if tenant is not None:
        return [tenant]
    names = store.admin.tenants()
    if session is None:
        return names
    owners = [name for name in names if store.for_tenant(name).sessions.get(session) is not None]
    if not owners:
        raise SessionNotFound(session)
    return owners


def _verify(
    store: Store, tenant: str, session: str | None, *, whole: bool, read_bytes: bool
) -> Verified:
    handle = store.for_tenant(tenant)
    if session is not None and handle.sessions.get(session) is None:
        raise SessionNotFound(session)
    waiting = Console(stderr=True)
    with Progress(console=waiting, transient=True, disable=not waiting.is_terminal) as bar:
        task = bar.add_task(f"verifying {visible(tenant)}", total=None)
        return handle.admin.verify(
            session,
            whole=whole,
            blobs=read_bytes,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _sum(found: list[Verified], read_bytes: bool) -> dict[str, int]:
    names = ("sessions", "turns", "nodes", "values", *(["blobs"] if read_bytes else []))
    return {name: sum(getattr(one, name) for one in found) for name in names}


run.__name__ = "verify"
