"""Nodes of every kind: one, found by id, along a path, what two branches have; and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ledgerstone.commands import nodes as commands
from ledgerstone.errors import BranchNotFound
from ledgerstone.handlers.heads import find_head, need_head, number_of
from ledgerstone.handlers.messages import with_parents
from ledgerstone.handlers.nodes import (
    COLUMNS,
    MAIN,
    Row,
    Stretch,
    effective,
    end_of,
    id_at,
    node_by_id,
    nodes_with_id,
    read_path,
    stretches,
    tip_of,
)
from ledgerstone.handlers.notes import notes_of, split_refs, values_of
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import run_names
from ledgerstone.handlers.sessions import named_branches
from ledgerstone.records.nodes import MESSAGE, Branch, Diff, Node
from ledgerstone.rules.bodies import read_any, read_meta
from ledgerstone.tables.graph import NodeRow
from ledgerstone.tables.sessions import SESSIONS, Head
from ledgerstone.tables.transaction import Tx


class NodeContent(NamedTuple):
    """What is read of a node; begins with what is read of a message."""

    ord: int
    parent: int
    seq: int
    role: int | None
    run: int | None
    created_us: int
    id: str
    body: bytes | None
    deleted_us: int | None
    kind: str | None
    label: str | None
    meta: bytes | None
    format: str | None
    refs: str | None


AnyNode: TypeAlias = NodeRow | NodeContent
assert NodeContent._fields[: len(COLUMNS)] == COLUMNS


async def nodes_of(
    tx: Tx,
    number: int,
    session: str,
    rows: Sequence[AnyNode],
    *,
    notes: bool = False,
    resolve: bool = False,
) -> list[Node]:
    """Rows of one session as records, with their notes and values on request."""
    own = {row.ord: row.id for row in rows}
    ids = await with_parents(tx, number, own, (row.parent for row in rows))
    numbers = {row.run for row in rows if row.run is not None}
    runs = await run_names(tx, Head(number), numbers) if numbers else {}
    found = []
    for row in rows:
        beside = await notes_of(tx, number, row.id) if notes else None
        resolved = None
        if resolve:
            more = [ref for note in (beside or {}).values() for ref in note.values]
            refs = dict.fromkeys([*split_refs(row.refs), *more])
            resolved = await values_of(tx, number, tuple(refs))
        found.append(
            Node(
                id=row.id,
                kind=MESSAGE if row.role is not None else row.kind or "",
                body=read_any(row.body, row.format, row.id),  # type: ignore[arg-type]
                session=session,
                ord=row.ord,
                seq=row.seq,
                parent=ids.get(row.parent),
                label=row.label or "",
                run_id=None if row.run is None else runs.get(row.run),
                meta=read_meta(row.meta, row.id),
                values=split_refs(row.refs),
                created_us=row.created_us,
                deleted_us=row.deleted_us,
                notes=beside,
                resolved=resolved,
            )
        )
    return found


@handles(commands.GetNode)
async def get_node(tx: Tx, query: commands.GetNode) -> Node | None:
    number = await number_of(tx, query.tenant, query.session)
    row = None if number is None else await node_by_id(tx, number, query.id)
    if number is None or row is None or row.deleted_us is not None:
        return None
    flags = {"notes": query.notes, "resolve": query.resolve}
    return (await nodes_of(tx, number, query.session, [row], **flags))[0]


@handles(commands.FindNodes)
async def find_nodes(tx: Tx, query: commands.FindNodes) -> list[Node]:
    """Live nodes with this id in any session of the tenant, by session."""
    rows = [row for row in await nodes_with_id(tx, query.id) if row.deleted_us is None]
    found: list[Node] = []
    for session, row in sorted(await of_tenant(tx, query.tenant, rows), key=lambda each: each[0]):
        found += await nodes_of(tx, row.number, session, [row])
    return found


async def of_tenant(tx: Tx, tenant: str, rows: Sequence[NodeRow]) -> list[tuple[str, NodeRow]]:
    """Those rows that are in a session of the tenant, each with the session's id."""
    numbers = list(dict.fromkeys(row.number for row in rows))
    sessions = await tx.get_many(SESSIONS, [(number,) for number in numbers])
    names = {row.number: row.id for row in sessions if row is not None and row.tenant == tenant}
    return [(names[row.number], row) for row in rows if row.number in names]


@handles(commands.ReadPath)
async def read_node_path(tx: Tx, query: commands.ReadPath) -> list[Node]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    parts = await stretches(tx, head, await end_of(tx, head, query.branch, query.at))
    return await read_path_nodes(tx, head, query.session, parts, kind=query.kind, last=query.last)


async def read_path_nodes(
    tx: Tx,
    head: Head,
    session: str,
    parts: list[Stretch],
    *,
    kind: str | None = None,
    after_seq: int = 0,
    last: int | None = None,
) -> list[Node]:
    """Live nodes of a kind along the stretches of a path, oldest first."""
    rows = await read_path(
        tx,
        head,
        parts,
        columns=NodeContent._fields,
        fits=_live_of(kind),
        after_seq=after_seq,
        last=last,
    )
    return await nodes_of(tx, head.number, session, [NodeContent(*row) for row in rows])


def _live_of(kind: str | None) -> Callable[[Row], bool]:
    """Whether a row is a live node of a kind that still has its body."""

    def fits(row: Row) -> bool:
        if row[7] is None or row[8] is not None:
            return False
        return kind is None or (row[3] is not None if kind == MESSAGE else row[9] == kind)

    return fits


@handles(commands.GetValues)
async def get_values(tx: Tx, query: commands.GetValues) -> dict[str, bytes]:
    number = await number_of(tx, query.tenant, query.session)
    return {} if number is None else await values_of(tx, number, query.digests)


@handles(commands.ListBranches)
async def list_branches(tx: Tx, query: commands.ListBranches) -> list[Branch]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    main = Branch(MAIN, await id_at(tx, head.number, head.tip), head.tip_seq)
    return [main, *(await named_branches(tx, head) if head.named else ())]


@handles(commands.DiffBranches)
async def diff_branches(tx: Tx, query: commands.DiffBranches) -> Diff:
    head = await need_head(tx, query.tenant, query.session)
    a = await _path(tx, head, query.a)
    b = await _path(tx, head, query.b)
    common, above = await effective(tx, head, _last_common(a, b))
    return Diff(
        await id_at(tx, head.number, common),
        await read_path_nodes(tx, head, query.session, a, after_seq=above),
        await read_path_nodes(tx, head, query.session, b, after_seq=above),
    )


async def _path(tx: Tx, head: Head, branch: str) -> list[Stretch]:
    tip = await tip_of(tx, head, branch)
    if tip is None:
        raise BranchNotFound(branch)
    return await stretches(tx, head, tip[0])


def _last_common(a: list[Stretch], b: list[Stretch]) -> int:
    """The highest ord that is on both paths; 0 when there is none."""
    x = y = 0
    while x < len(a) and y < len(b):
        common = min(a[x].last, b[y].last)
        if common >= max(a[x].first, b[y].first):
            return common
        # The stretch that begins higher is wholly above the other one.
        if a[x].first > b[y].first:
            x += 1
        else:
            y += 1
    return 0
