"""Lists of nodes of a session or of a tenant, by commit order or by id."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from ledgerstone.commands.nodes import ListNodes
from ledgerstone.handlers.heads import number_of
from ledgerstone.handlers.node_reads import AnyNode, NodeContent, nodes_of, of_tenant
from ledgerstone.handlers.nodes import (
    Row,
    columns_between,
    nodes_at,
    read_between,
)
from ledgerstone.handlers.registry import handles
from ledgerstone.records.nodes import MESSAGE, Node
from ledgerstone.rules.bodies import read_meta
from ledgerstone.rules.matching import contains
from ledgerstone.tables.graph import NODES_BY_KIND, NODES_BY_LABEL, NodeRow
from ledgerstone.tables.runs import RUNS_BY_ID, RunRow
from ledgerstone.tables.sessions import SESSIONS_BY_ID
from ledgerstone.tables.transaction import Tx

ORD_MAX = (1 << 32) - 2
_SESSIONS = 100
_PAGE_ROWS = 64


class Outline(NamedTuple):
    """What a node is chosen by; not its body."""

    ord: int
    id: str
    role: int | None
    run: int | None
    kind: str | None
    label: str | None
    meta: bytes | None
    deleted_us: int | None


class SessionKey(NamedTuple):
    """A session that is looked through."""

    id: str
    number: int


class ListedNode(NamedTuple):
    """A node of the answer, before it is one."""

    session: SessionKey
    row: AnyNode


@handles(ListNodes)
async def list_nodes(tx: Tx, query: ListNodes) -> list[Node]:
    found = await _Listing(tx, query).read()
    nodes: list[Node] = []
    flags = {"notes": query.notes, "resolve": query.resolve}
    for session, listed in groupby(found, key=lambda each: each.session):
        rows = [each.row for each in listed]
        nodes += await nodes_of(tx, session.number, session.id, rows, **flags)
    return nodes


class _Listing:
    """One list on its way. `runs`: the rows of the run that is asked for, by session."""

    def __init__(self, tx: Tx, query: ListNodes) -> None:
        self.tx = tx
        self.query = query
        self.by_id = query.order.endswith("id")
        self.reverse = query.order.startswith("-")
        self.kind = None if query.kind == MESSAGE else query.kind
        self.runs: dict[int, RunRow] = {}

    async def read(self) -> list[ListedNode]:
        tx, query = self.tx, self.query
        if query.run_id is not None:
            self.runs = {row.number: row for row in await tx.scan(RUNS_BY_ID, query.run_id)}
        session = None
        if query.session is not None:
            number = await number_of(tx, query.tenant, query.session)
            if number is None:
                return []
            session = SessionKey(query.session, number)
        if self.by_id and self.kind is not None and query.label is not None:
            return await self._by_label(session)
        if session is not None:
            return await self._of_session(session, query.limit)
        return await (self._tenant_by_id() if self.by_id else self._tenant_by_ord())

    # --- which nodes

    def _fits(self, number: int, row: AnyNode | Outline) -> bool:
        """Whether a node is live and what is asked for, wherever the list goes on."""
        query = self.query
        if row.deleted_us is not None:
            return False
        if query.kind is not None and (
            row.role is None if query.kind == MESSAGE else row.kind != query.kind
        ):
            return False
        if query.label is not None and (row.label or "") != query.label:
            return False
        if query.before_id is not None and row.id >= query.before_id:
            return False
        if query.run_id is not None:
            run = self.runs.get(number)
            if run is None or row.run != run.n:
                return False
        wanted = query.meta_contains
        return wanted is None or contains(read_meta(row.meta, row.id), wanted)

    def _is_beyond(self, session: str, ord: int, id: str) -> bool:
        """Whether a node comes after the last one of the chunk before."""
        if self.query.after is None:
            return True
        place, edge = self._place(session, ord, id), self._place(*self._edge())
        return place < edge if self.reverse else place > edge

    def _place(self, session: str, ord: int, id: str) -> tuple[Any, ...]:
        # In one session an id or an ord is unique, so an edge from elsewhere counts as well.
        among = "" if self.query.session is not None else session
        return (id, among) if self.by_id else (among, ord)

    def _edge(self) -> tuple[str, int, str]:
        assert self.query.after is not None
        id, session, ord = self.query.after
        return session, ord, id

    # --- one session

    async def _of_session(self, session: SessionKey, wanted: int) -> list[ListedNode]:
        """The first nodes of a session in the order asked for."""
        if self.kind is None and not self.by_id:
            rows: list[AnyNode] = [*await self._in_commit_order(session, wanted)]
        else:
            ords = [row.ord for row in await self._outlines(session)]
            rows = [*await nodes_at(self.tx, session.number, ords[:wanted])]
        return [ListedNode(session, row) for row in rows]

    async def _in_commit_order(self, session: SessionKey, wanted: int) -> list[NodeContent]:
        first, last = self._bounds(session)

        def fits(row: Row) -> bool:
            return self._fits(session.number, NodeContent(*row))

        rows = await read_between(
            self.tx, session.number, NodeContent._fields, first, last, fits,
            wanted=wanted, reverse=self.reverse,
        )  # fmt: skip
        return [NodeContent(*row) for row in rows]

    def _bounds(self, session: SessionKey) -> tuple[int, int]:
        """Between which ords the nodes of a session may be."""
        first, last = 1, ORD_MAX
        if self.query.run_id is not None:
            run = self.runs.get(session.number)
            first, last = (1, 0) if run is None else (max(1, run.first_ord), run.last_ord)
        if self.query.after is not None and not self.by_id:
            name, ord, _ = self._edge()
            if self.query.session is not None or name == session.id:
                first, last = (first, min(last, ord - 1)) if self.reverse else (
                    max(first, ord + 1), last,
                )  # fmt: skip
        return first, last

    async def _outlines(self, session: SessionKey) -> list[Outline]:
        """All nodes of a session that fit, in the order asked for."""
        number, query = session.number, self.query
        first, last = self._bounds(session)
        if first > last:
            return []
        if self.kind is None:
            rows = await columns_between(self.tx, number, Outline._fields, first, last)
        else:
            prefix = (self.kind,) if query.label is None else (self.kind, query.label)
            rows = await self.tx.scan_columns(NODES_BY_LABEL, Outline._fields, number, *prefix)
        found = [
            row
            for row in map(Outline._make, rows)
            if self._fits(number, row) and self._is_beyond(session.id, row.ord, row.id)
        ]
        if self.by_id:
            return sorted(found, key=lambda row: row.id, reverse=self.reverse)
        return sorted(found, key=lambda row: row.ord, reverse=self.reverse)

    # --- a tenant

    async def _tenant_by_ord(self) -> list[ListedNode]:
        query, found = self.query, list[ListedNode]()
        edge = None if query.after is None else query.after[1]
        sessions: list[SessionKey] = []
        if edge is not None:
            number = await number_of(self.tx, query.tenant, edge)
            sessions = [] if number is None else [SessionKey(edge, number)]
        while True:
            for session in sessions:
                found += await self._of_session(session, query.limit - len(found))
                if len(found) == query.limit:
                    return found
            sessions = await self._sessions(edge)
            if not sessions:
                return found
            edge = sessions[-1].id

    async def _sessions(self, edge: str | None, limit: int | None = _SESSIONS) -> list[SessionKey]:
        """The next sessions of the tenant in the order of the list."""
        bounds: dict[str, Any] = {}
        if edge is not None:
            bounds["before" if self.reverse else "after"] = (edge,)
        rows = await self.tx.scan_columns(
            SESSIONS_BY_ID, SessionKey._fields, self.query.tenant, **bounds,
            limit=limit, reverse=self.reverse,
        )  # fmt: skip
        return [SessionKey(*row) for row in rows]

    async def _tenant_by_id(self) -> list[ListedNode]:
        limit = self.query.limit
        found: list[tuple[tuple[str, str], SessionKey, int]] = []
        for session in await self._sessions(None, None):
            if self.query.run_id is None or session.number in self.runs:
                rows = (await self._outlines(session))[:limit]
                found += [((row.id, session.id), session, row.ord) for row in rows]
        found.sort(key=lambda each: each[0], reverse=self.reverse)
        found = found[:limit]
        ords: dict[SessionKey, list[int]] = {}
        for _, session, ord in found:
            ords.setdefault(session, []).append(ord)
        rows_of = {
            session: iter(await nodes_at(self.tx, session.number, places))
            for session, places in ords.items()
        }
        return [ListedNode(session, next(rows_of[session])) for _, session, _ in found]

    # --- nodes of one kind and label stand in an index by id

    async def _by_label(self, session: SessionKey | None) -> list[ListedNode]:
        query, after = self.query, self.query.after
        found: list[ListedNode] = []
        edge = None if after is None else after[0]
        if session is None and edge is not None:
            found += await self._judged(session, await self._labelled(None, edge))
        size = query.limit
        while len(found) < query.limit:
            rows = await self._labelled_beyond(session, edge, size)
            full = len(rows) == size
            if full and session is None:
                # Other sessions may have the last one too.
                last = rows[-1].id
                rows = [row for row in rows if row.id != last] + await self._labelled(None, last)
            found += await self._judged(session, rows)
            if not full:
                break
            edge, size = rows[-1].id, max(size, _PAGE_ROWS)
        return found[: query.limit]

    async def _labelled_beyond(
        self, session: SessionKey | None, edge: str | None, limit: int
    ) -> list[NodeRow]:
        before = self.query.before_id
        bounds: dict[str, Any] = {}
        if self.reverse:
            ends = [id for id in (edge, before) if id is not None]
            bounds = {"before": (min(ends),)} if ends else {}
        else:
            bounds = {
                name: (id,) for name, id in (("after", edge), ("before", before)) if id is not None
            }
        return await self._labelled(session, **bounds, limit=limit, reverse=self.reverse)

    async def _labelled(self, session: SessionKey | None, *id: str, **how: Any) -> list[NodeRow]:
        kind, label = self.kind, self.query.label
        if session is None:
            return await self.tx.scan(NODES_BY_KIND, kind, label, *id, **how)
        return await self.tx.scan(NODES_BY_LABEL, session.number, kind, label, *id, **how)

    async def _judged(self, session: SessionKey | None, rows: list[NodeRow]) -> list[ListedNode]:
        """Those of them that are in the list, in its order."""
        rows = [row for row in rows if row.deleted_us is None]
        if session is None:
            named = await of_tenant(self.tx, self.query.tenant, rows)
        else:
            named = [(session.id, row) for row in rows]
        found = [
            ListedNode(SessionKey(name, row.number), row)
            for name, row in named
            if self._fits(row.number, row) and self._is_beyond(name, row.ord, row.id)
        ]
        return sorted(found, key=lambda each: (each.row.id, each.session.id), reverse=self.reverse)
