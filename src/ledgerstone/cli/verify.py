"""`ledgerstone verify`: does every link, parent, position, reference and hash still hold?"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from msgspec.structs import asdict

from ledgerstone import Store
from ledgerstone.cli.failures import DEFECTS
from ledgerstone.cli.options import (
    AsJson,
    BlobsUrl,
    OneTenant,
    StoreUrl,
    argument,
    find_session,
    reading,
    switch,
)
from ledgerstone.cli.output import (
    Columns,
    plural,
    print_items,
    print_json,
    print_line,
    progress_bar,
    visible,
)
from ledgerstone.errors import SessionNotFound
from ledgerstone.records.reports import Defect, Verified

EXAMPLE = "Example: ledgerstone verify --store agent.db"
FOUND: Columns[tuple[str, Defect]] = {
    "TENANT": lambda row: row[0],
    "SESSION": lambda row: row[1].session,
    "DEFECT": lambda row: row[1].kind,
    "WHERE": lambda row: row[1].where,
    "DETAIL": lambda row: row[1].detail,
}

Only = Annotated[str | None, argument("[SESSION]", "Only this session.")]
Bytes = Annotated[bool, switch("--bytes", "Also read the bytes of every blob.")]


def run(
    session: Only = None,
    *,
    store: StoreUrl = None,
    blobs: BlobsUrl = None,
    tenant: OneTenant = None,
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
    defects = [(name, one) for name, report in found.items() for one in report.defects]
    counted = _sum(list(found.values()), read_bytes)
    if as_json:
        listed = [{"tenant": name, **asdict(one)} for name, one in defects]
        print_json({**counted, "ok": not defects, "defects": listed})
    else:
        checked = ", ".join(plural(count, noun[:-1]) for noun, count in counted.items())
        verdict = plural(len(defects), "defect") if defects else "no defects"
        print_line(f"checked {checked}: {verdict}", "bold red" if defects else "green")
        if defects:
            print_items(FOUND, defects)
            if any(one.kind != "copy" for _, one in defects):
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
    if session is not None:
        find_session(handle, session)
    title = f"verifying {visible(tenant)}"
    with progress_bar(title) as show:
        return handle.admin.verify(
            session, whole=whole, blobs=read_bytes, progress=partial(show, title)
        )


def _sum(found: list[Verified], read_bytes: bool) -> dict[str, int]:
    names = ("sessions", "turns", "nodes", "values", *(["blobs"] if read_bytes else []))
    return {name: sum(getattr(one, name) for one in found) for name in names}
