"""`ledgerstone inbox`: tool calls that wait for somebody, and deciding about them."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerstone import Ticket
from ledgerstone.cli.options import (
    AsJson,
    Cursor,
    Limit,
    OfSession,
    OfUser,
    StoreUrl,
    Tenant,
    argument,
    given,
    option,
    reading,
    writing,
)
from ledgerstone.cli.output import Columns, call_text, moment, print_answer, print_page

EXAMPLE = "Example: ledgerstone inbox --store agent.db --user ada"
EXAMPLE_APPROVE = "Example: ledgerstone inbox approve TICKET --by ada --store agent.db"
EXAMPLE_REJECT = "Example: ledgerstone inbox reject TICKET --by ada --reason 'too much'"


def _call(ticket: Ticket) -> str:
    return call_text(ticket.tool, ticket.effective_arguments)


TICKETS: Columns[Ticket] = {
    "TICKET": lambda ticket: ticket.id,
    "SESSION": lambda ticket: ticket.session,
    "USER": lambda ticket: ticket.user,
    "CALL": _call,
    "REASON": lambda ticket: ticket.reason,
    "ASKED": lambda ticket: moment(ticket.created_us),
    "EXPIRES": lambda ticket: moment(ticket.expires_us),
}

TicketId = Annotated[str, argument("TICKET", "The id of the ticket.")]
By = Annotated[str, option("--by", "NAME", "Who decides; it is kept.")]
Reason = Annotated[str | None, option("--reason", "TEXT", "Why; it is kept.")]

_WOKEN = "whoever works on the session is woken"

app = typer.Typer(name="inbox", epilog=EXAMPLE)


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    user: OfUser = None,
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
    print_page("tickets", page, TICKETS, as_json=as_json, none="nothing waits for a decision")


@app.command("reject", epilog=EXAMPLE_REJECT, help=f"Refuse a tool call; {_WOKEN}.")
@app.command("approve", epilog=EXAMPLE_APPROVE, help=f"Let a tool call run; {_WOKEN}.")
def decide(
    context: typer.Context,
    ticket: TicketId,
    *,
    by: By,
    reason: Reason = None,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Approve or reject, as the word says; whoever works on the session is woken."""
    with writing(given(context, "store"), given(context, "tenant")) as opened:
        settled = opened.tickets.resolve(ticket, str(context.info_name), by=by, reason=reason)
    done = "approved" if settled.approved else "rejected"
    print_answer(
        settled,
        f"{done}: {_call(settled)} of session {settled.session}",
        as_json=given(context, "as_json"),
    )
