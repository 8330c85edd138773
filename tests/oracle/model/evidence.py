"""Traces and reports: lists beside a session."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from ledgerstone.commands.evidence import (
    AppendEvidence,
    DeleteEvidence,
    EvidenceRow,
    LoadEvidence,
    SaveEvidence,
)
from ledgerstone.records.reports import Defect
from ledgerstone.rules import evidence as rules
from ledgerstone.rules.guard import check_alive
from tests.oracle.model.commits import Commit
from tests.oracle.model.standing import find
from tests.oracle.model.state import Tx

Place = tuple[str, str, str]


def check_open(tx: Tx, tenant: str, session: str) -> None:
    """What lies beside a session needs none, but one that is deleted takes no writes."""
    standing = find(tx, tenant, session)
    if standing is not None:
        check_alive(session, standing.head)


def put_mark(tx: Tx, place: Place, created_us: int, body: bytes = b"") -> None:
    """Say that there is a list, and what was appended last."""
    table, key = tx.state.evidence, (*place, 0)
    mark = table.get(key)
    if mark is None:
        table.insert(key, EvidenceRow(0, created_us, body))
    elif mark.body != body:
        table.update(key, replace(mark, body=body))


def append_evidence(tx: Tx, command: AppendEvidence) -> int:
    """At the end; the same append again adds nothing."""
    place = (command.tenant, command.session, command.kind)
    check_open(tx, command.tenant, command.session)
    body = rules.mark_of(command.key, command.bodies)
    mark = tx.state.evidence.get((*place, 0))
    if mark is None or not body or mark.body != body:
        put_mark(tx, place, tx.now_us, body)
        return _add(tx, place, command.bodies, tx.now_us)
    return _last(tx, place)


def save_evidence(tx: Tx, command: SaveEvidence) -> int:
    """Exactly these."""
    place = (command.tenant, command.session, command.kind)
    check_open(tx, command.tenant, command.session)
    _drop(tx, place, 1)
    put_mark(tx, place, tx.now_us)
    return _add(tx, place, command.bodies, tx.now_us)


def append_in_commit(commit: Commit) -> None:
    """The traces and reports of a commit."""
    command = commit.command
    for kind, name, bodies in rules.in_commit(command):
        place = (command.tenant, command.session, kind)
        put_mark(commit.tx, place, commit.moment_us)
        _add(commit.tx, place, bodies, commit.moment_us)
        commit.effects[name] = rules.effect_of(bodies)


def delete_evidence(tx: Tx, command: DeleteEvidence) -> int:
    """The whole list, and that there was one."""
    place = (command.tenant, command.session, command.kind)
    check_open(tx, command.tenant, command.session)
    gone = _drop(tx, place, 1)
    _drop(tx, place, 0)
    return gone


def load_evidence(tx: Tx, query: LoadEvidence) -> list[EvidenceRow] | None:
    """Documents in order; None when there is no list."""
    place = (query.tenant, query.session, query.kind)
    if (*place, 0) not in tx.state.evidence:
        return None
    first = max(query.after, 0) + 1
    rows = (row for _, row in tx.state.evidence.scan(place, since=(*place, first)))
    return list(islice(rows, query.limit))


def check_lists(tx: Tx, tenant: str) -> list[Defect]:
    """Every list has its first row and none is missing in between."""
    counts: dict[tuple[str, str], int] = {}
    broken: dict[tuple[str, str], None] = {}
    for (_, session, kind, n), _ in tx.state.evidence.scan((tenant,)):
        count = counts[session, kind] = counts.get((session, kind), -1) + 1
        if count != n:
            broken[session, kind] = None
    return [rules.missing_rows(*place) for place in broken]


def _last(tx: Tx, place: Place) -> int:
    row = tx.state.evidence.last(place)
    return 0 if row is None else row.n


def _add(tx: Tx, place: Place, bodies: Sequence[bytes], created_us: int) -> int:
    """After the last one; how many there are then."""
    last = _last(tx, place)
    for n, body in enumerate(bodies, start=last + 1):
        tx.state.evidence.insert((*place, n), EvidenceRow(n, created_us, body))
    return last + len(bodies)


def _drop(tx: Tx, place: Place, first: int) -> int:
    """Documents from this place on; how many."""
    keys = [key for key, _ in tx.state.evidence.scan(place, since=(*place, first))]
    for key in keys:
        tx.state.evidence.delete(key)
    return len(keys)
