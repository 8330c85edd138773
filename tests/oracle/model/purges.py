"""Purging: invisible at once in one transaction, then swept in bounded pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ledgerstone.commands.artifacts import Owner
from ledgerstone.commands.sessions import PurgeSession, SweepPurged
from ledgerstone.commands.usage import DropBudget
from ledgerstone.errors import RevisionMoved
from ledgerstone.records.sessions import Receipt
from ledgerstone.rules.artifacts import scope_of
from ledgerstone.rules.guard import check_incarnation
from tests.oracle.model import artifacts, attachments, ticket_marks
from tests.oracle.model.budgets import drop_budget, forget_sums
from tests.oracle.model.dead_work import forget_dead
from tests.oracle.model.embeddings import drop_session_vectors
from tests.oracle.model.ready import put_ready
from tests.oracle.model.rows import StubRow
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx
from tests.oracle.model.tables import Table
from tests.oracle.model.work_rows import drop_row


def purge_session(tx: Tx, command: PurgeSession) -> Receipt:
    """Make a session invisible and leave a stub; a second purge finds nothing."""
    found = find(tx, command.tenant, command.id)
    if found is None:
        retired = _retire_absent(tx, command)
        removed = _remove_loose(tx, command.tenant, command.id)
        return Receipt(session=command.id, retired=retired, removed=removed)
    head = found.head
    if command.expected_incarnation is not None:
        check_incarnation(command.id, head.incarnation, command.expected_incarnation)
    if command.expected_revision not in (None, head.revision):
        raise RevisionMoved(command.expected_revision or 0, head.revision, command.id)
    stub = StubRow(head.incarnation, head.fence, head.link.hex(), command.retire)
    tx.state.stubs.put((command.tenant, command.id), stub)
    removed = _remove_loose(tx, command.tenant, command.id)
    forget_sums(tx, command.tenant, command.id, found.number)
    _hide(tx, found, command.keep_runs)
    return Receipt(
        session=command.id,
        existed=True,
        incarnation=stub.incarnation,
        fence=stub.fence,
        link=stub.link,
        retired=stub.retired,
        removed=removed,
    )


def _retire_absent(tx: Tx, command: PurgeSession) -> bool:
    """Retire an id without a session when asked to; answers whether it is retired now."""
    key = (command.tenant, command.id)
    stub = tx.state.stubs.get(key)
    if not command.retire:
        return stub is not None and stub.retired
    stub = StubRow(0, 0, "", False) if stub is None else stub
    tx.state.stubs.put(key, replace(stub, retired=True))
    return True


def _hide(tx: Tx, found: Standing, keep_runs: bool) -> None:
    """Remove what other keys than the session's number could still find."""
    state, number = tx.state, found.number
    state.sessions.delete((found.tenant, found.id))
    state.session_ids.delete((number,))
    state.heads.delete((number,))
    for place, _ in list(state.session_runs.scan((number,))):
        state.session_runs.delete(place)
        if not keep_runs:
            state.runs.delete((found.tenant, place[1]))
    ticket_marks.forget(state, found.tenant, number)
    for (_, queue), _ in list(state.ready.scan((number,))):
        put_ready(tx, number, queue, None)
    for counter in ("work", "outbox"):
        if (counter, number) in state.counters:
            state.counters.delete((counter, number))
    forget_dead(tx, found)
    state.purged.insert((found.tenant, number), None)


def _remove_loose(tx: Tx, tenant: str, session: str) -> dict[str, int]:
    """What belongs to the id, whether there is a session or not; how many of each there were."""
    state, key = tx.state, (tenant, session)
    attached = [place for place, _ in state.attachments.scan(key)]
    for attachment in attached:
        attachments.remove(tx, attachment)
    kept = [place for place, _ in state.artifacts.scan((tenant, scope_of(Owner(session))))]
    for artifact in kept:
        artifacts.drop(tx, artifact)
    told = [place for place, _ in state.evidence.scan(key)]
    for place in told:
        state.evidence.delete(place)
    removed = {
        "attachments": len(attached),
        "artifacts": len(kept),
        "traces": sum(kind == "trace" and n > 0 for *_, kind, n in told),
        "reports": sum(kind == "report" and n > 0 for *_, kind, n in told),
        "embeddings": drop_session_vectors(tx, tenant, session),
        "budgets": _remove_budgets(tx, tenant, session),
    }
    return {table: count for table, count in removed.items() if count}


def _remove_budgets(tx: Tx, tenant: str, session: str) -> int:
    """The budgets of a session; how many."""
    subject = (tenant, "session", session)
    ids = [id for (*_, id), _ in tx.state.budget_subjects.scan(subject)]
    for id in ids:
        drop_budget(tx, DropBudget(tenant=tenant, id=id))
    return len(ids)


def sweep_purged(tx: Tx, command: SweepPurged) -> dict[str, int]:
    """Remove at most `limit` rows of purged sessions; says how many of which table."""
    removed: dict[str, int] = {}
    left = command.limit
    for key, _ in list(tx.state.purged.scan((command.tenant,))):
        for table, row in list(_first_rows(tx, key[1], left)):
            _remove(tx, command.tenant, table, row)
            removed[table.name] = removed.get(table.name, 0) + 1
            left -= 1
        if next(_first_rows(tx, key[1], 1), None) is not None:
            break
        tx.state.purged.delete(key)
    return removed


def _first_rows(
    tx: Tx, number: int, limit: int
) -> Iterator[tuple[Table[Any, Any], tuple[Any, ...]]]:
    """Up to `limit` rows that still belong to a purged session."""
    state = tx.state
    for table in (
        state.nodes,
        state.turns,
        state.branches,
        state.notes,
        state.values,
        state.documents,
        state.amendments,
        state.work,
        state.outbox,
        state.tickets,
        state.executions,
    ):
        for key, _ in table.scan((number,)):
            if limit <= 0:
                return
            limit -= 1
            yield table, key


def _remove(tx: Tx, tenant: str, table: Table[Any, Any], key: tuple[Any, ...]) -> None:
    """Delete a row together with its entry in the index by id."""
    if table is tx.state.nodes:
        tx.state.node_ids.delete((tenant, tx.state.nodes[(key[0], key[1])].id, key[0]))
    elif table is tx.state.turns:
        turn = tx.state.turns[(key[0], key[1])]
        tx.state.turn_ids.delete((key[0], turn.id))
        tx.state.feed.delete((turn.pos,))
    elif table is tx.state.work:
        drop_row(tx, key[0], key[1])
        return
    table.delete(key)
