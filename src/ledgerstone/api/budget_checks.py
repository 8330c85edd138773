"""What a budget asks of a turn that begins: one read, and none while the tenant has no budget."""

from __future__ import annotations

from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands.usage import FindBudgets
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import BudgetsFound
from ledgerstone.rules.usage import check_begin

UNBUDGETED_MAX = 10_000
"""How many tenants without a budget a process remembers."""


async def may_begin(handle: AsyncHandle, session: str, create: Session | None = None) -> None:
    """BudgetExceeded when a budget that bounds the session refuses its next turn."""
    if handle.tenant not in handle.equipment.unbudgeted:
        user = None if create is None else create.user
        check_begin((await find_budgets(handle, session, user)).states)


async def find_budgets(handle: AsyncHandle, session: str | None, user: str | None) -> BudgetsFound:
    """The budgets that a turn meets; a tenant that has none is remembered."""
    found = await handle.ask(FindBudgets(tenant=handle.tenant, session=session, user=user))
    known = handle.equipment.unbudgeted
    if not found.any:
        if len(known) >= UNBUDGETED_MAX:
            known.clear()
        known.add(handle.tenant)
    return found


def budgets_changed(handle: AsyncHandle) -> None:
    """Look again when the next turn begins: a budget was set here, or a commit went beyond one."""
    handle.equipment.unbudgeted.discard(handle.tenant)
