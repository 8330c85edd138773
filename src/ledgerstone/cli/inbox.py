"""`ledgerstone inbox`: tool calls that wait for somebody, and deciding about them."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone import Ticket
from ledgerstone.cli.options import AsJson, StoreUrl, Tenant, given, reading, writing
from ledgerstone.cli.output import call_text, moment, print_json, print_line, print_table, visible

EXAMPLE = "Example: ledgerstone inbox --store agent.db --user ada"
EXAMPLE_APPROVE = "Example: ledgerstone inbox approve TICKET --by ada --store agent.db"
EXAMPLE_REJECT = "Example: ledgerstone inbox reject TICKET --by ada --reason 'too much'"
HEADERS = ("TICKET", "SESSION", "USER", "CALL", "REASON", "ASKED", "EXPIRES")

User = Annotated[
    str | None,
    typer.Option("--user", metavar="ID", help="Only of this user's sessions.", show_default=False),
]
OfSession = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="Only of this session.", show_default=False),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, up to 200.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="Go on where a page ended.", show_default=False),
]
TicketId = Annotated[
    str, typer.Argument(metavar="TICKET", help="The id of the ticket.", show_default=False)
]
By = Annotated[
    str, typer.Option("--by", metavar="NAME", help="Who decides; it is kept.", show_default=False)
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why; it is kept.", show_default=False),
]

app = typer.Typer(name="inbox", epilog=EXAMPLE)


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    user: User = None,
    session: OfSession = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List tool calls that wait for a decision, oldest first; approve or reject one."""
    if context.invoked_subcommand is not None:
        return
    with reading(store, tenant) as opened:
        page = opened.tickets.inbox(
            user=user, session=session, limit=limit, cursor=cursor, total=True
        )
    if as_json:
        print_json({"tickets": page.items, "total": page.total, "cursor": page.cursor})
        return
    if not page.items:
        print_line("nothing waits for a decision")
        return
    print_table(HEADERS, [_row(ticket) for ticket in page.items])
    if page.has_more:
        print_line(f"{len(page)} of {page.total}; the next ones: --cursor {page.cursor}", "dim")


@app.command(epilog=EXAMPLE_APPROVE)
def approve(
    context: typer.Context,
    ticket: TicketId,
    *,
    by: By,
    reason: Reason = None,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Let a tool call run; whoever works on the session is woken."""
    _decide(context, ticket, "approve", by=by, reason=reason, as_json=as_json)


@app.command(epilog=EXAMPLE_REJECT)
def reject(
    context: typer.Context,
    ticket: TicketId,
    *,
    by: By,
    reason: Reason = None,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Refuse a tool call; whoever works on the session is woken."""
    _decide(context, ticket, "reject", by=by, reason=reason, as_json=as_json)


def _decide(
    context: typer.Context,
    ticket: str,
    decision: str,
    *,
    by: str,
    reason: str | None,
    as_json: bool,
) -> None:
    with writing(given(context, "store"), given(context, "tenant")) as opened:
        settled = opened.tickets.resolve(ticket, decision, by=by, reason=reason)
    if as_json or given(context, "as_json"):
        print_json(settled)
        return
    done = "approved" if settled.approved else "rejected"
    print_line(f"{done}: {visible(_call(settled))} of session {visible(settled.session)}")


def _call(ticket: Ticket) -> str:
    return call_text(ticket.tool, ticket.effective_arguments)


def _row(ticket: Ticket) -> tuple[str, ...]:
    return (
        visible(ticket.id),
        visible(ticket.session),
        visible(ticket.user or ""),
        visible(_call(ticket)),
        visible(ticket.reason or ""),
        moment(ticket.created_us),
        moment(ticket.expires_us),
    )
