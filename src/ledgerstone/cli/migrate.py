"""`ledgerstone migrate`: the schema of a database, brought up to date, printed or checked."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone.cli.failures import DEFECTS, CliError
from ledgerstone.cli.options import AsJson, StoreUrl, option, server_url, switch
from ledgerstone.cli.output import print_json, print_line
from ledgerstone.engines.postgres import admin as postgres_admin
from ledgerstone.engines.postgres.admin import Found

EXAMPLE = "Example: ledgerstone migrate --store postgresql://db/agents --check"

Sql = Annotated[bool, switch("--sql", "Print the SQL instead; nothing is changed.")]
Check = Annotated[bool, switch("--check", "Exit code 1 when a step is missing.")]
Since = Annotated[
    int | None,
    option("--from", "VERSION", "With --sql: from this version, without asking the database."),
]
Role = Annotated[
    str | None,
    option("--rls", "ROLE", "Row-level security: this role sees the rows of one tenant at a time."),
]


def run(
    *,
    store: StoreUrl = None,
    sql: Sql = False,
    check: Check = False,
    since: Since = None,
    rls: Role = None,
    as_json: AsJson = False,
) -> None:
    """Bring the schema of a PostgreSQL store up to date, in one transaction.

    Programs do so themselves when they open a store, unless its url says `migrate=no`.
    Files need no migration: they are brought up to date when they are opened.
    """
    url = server_url(
        store, "only postgresql:// stores are migrated; files are when they are opened"
    )
    if since is not None and not sql:
        raise CliError("--from goes with --sql; see `ledgerstone migrate --help`")
    if sql:
        typer.echo(postgres_admin.migration_script(url, since, rls), nl=False)
        return
    if check and rls is not None:
        raise CliError("--rls changes the database and --check does not; give one of them")
    found = postgres_admin.versions(url) if check else postgres_admin.migrate_store(url, rls)
    if as_json:
        changed = not check and not found.ours
        print_json({"found": found.version, "wanted": found.wanted, "changed": changed})
    else:
        print_line(_told(found, check=check))
        if rls is not None and not check:
            print_line(f"row-level security is on; {rls} opens with rls=yes and migrate=no")
    raise typer.Exit(DEFECTS if check and not found.ours else 0)


def _told(found: Found, *, check: bool) -> str:
    if found.ours:
        return f"the schema has version {found.wanted}: nothing to do"
    if found.version == found.wanted:
        what = (
            "are of another version of ledgerstone" if check else "were replaced by this version's"
        )
        return f"the schema has version {found.wanted}; its functions {what}"
    if check:
        return f"the schema has version {found.version}, this program needs {found.wanted}"
    return f"the schema went from version {found.version} to {found.wanted}"
