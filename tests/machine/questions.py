"""Random queries: every kind of read, over the same small pools."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ledgerstone.commands import Query
from ledgerstone.commands.blobs import (
    GetAttachment,
    ListAttachments,
    ListUncommitted,
)
from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import (
    CountMessages,
    DiffBranches,
    FindNodes,
    GetMessage,
    GetNode,
    GetNotes,
    GetValues,
    GetVersions,
    ListBranches,
    ListDrafts,
    ListMessages,
    ListNodes,
    ReadMessages,
    ReadPath,
    ReadRange,
)
from ledgerstone.commands.runs import GetRun, LatestRun
from ledgerstone.commands.sessions import (
    CountSessions,
    GetDocument,
    GetDocuments,
    GetHead,
    GetPicker,
    GetSession,
    ListSessions,
    ReadSessionAt,
    SessionFilter,
)
from ledgerstone.commands.transfer import IsCopyUnfinished
from ledgerstone.commands.turns import GetTurn, ListTurns, VerifySession
from ledgerstone.commands.work import ListWork
from tests.machine import context_draws, draws, runs

DOCUMENTS = ("document", "state", "config", "frames", "checkpoint")
ORDERS = ("-updated", "updated", "-created", "created", "id", "-id")
some_node = st.one_of(st.none(), st.none(), draws.node_ids)
some_number = st.one_of(st.none(), st.integers(1, 3))
some_run = st.one_of(st.none(), draws.runs)


def _place(draw: st.DrawFn) -> dict[str, Any]:
    return {"tenant": draw(draws.tenants), "session": draw(draws.sessions)}


@st.composite
def message_reads(draw: st.DrawFn) -> Query[Any]:
    place, branch = _place(draw), draw(draws.branches)
    last = draw(some_number)
    first, span = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    return draw(
        st.sampled_from(
            (
                ReadMessages(
                    branch=branch,
                    at=draw(some_node),
                    last=last,
                    first=None if last else draw(some_number),
                    after_seq=draw(draws.offsets),
                    deleted=draw(st.booleans()),
                    **place,
                ),
                CountMessages(branch=branch, **place),
                ReadRange(first=first, last=first + span, **place),
                GetMessage(id=draw(draws.node_ids), **place),
                GetMessage(id=draw(draws.node_ids), tenant=place["tenant"]),
                GetVersions(id=draw(draws.node_ids), **place),
            )
        )
    )


@st.composite
def message_pages(draw: st.DrawFn) -> Query[Any]:
    return ListMessages(
        branch=draw(draws.branches),
        run_id=draw(some_run),
        deleted=draw(st.booleans()),
        newest_first=draw(st.booleans()),
        limit=draw(draws.limits),
        offset=draw(draws.offsets),
        after=draw(st.one_of(st.none(), st.tuples(st.integers(0, 4), st.integers(0, 6)))),
        total=draw(st.booleans()),
        **_place(draw),
    )


@st.composite
def node_lists(draw: st.DrawFn) -> Query[Any]:
    after = st.tuples(draws.node_ids, draws.sessions, st.integers(0, 6))
    return ListNodes(
        tenant=draw(draws.tenants),
        session=draw(st.one_of(st.none(), draws.sessions)),
        kind=draw(st.sampled_from((None, None, "message", "frame"))),
        label=draw(st.sampled_from((None, None, "l1", ""))),
        run_id=draw(some_run),
        meta_contains=draw(st.sampled_from((None, None, {}, {"a": 1}))),
        before_id=draw(some_node),
        order=draw(st.sampled_from(("ord", "-ord", "id", "-id"))),
        limit=draw(st.integers(1, 6)),
        after=draw(st.one_of(st.none(), after)),
        notes=draw(st.booleans()),
        resolve=draw(st.booleans()),
    )


@st.composite
def graph_reads(draw: st.DrawFn) -> Query[Any]:
    place, node = _place(draw), draw(draws.node_ids)
    flags: dict[str, Any] = {"notes": draw(st.booleans()), "resolve": draw(st.booleans())}
    return draw(
        st.sampled_from(
            (
                GetNode(id=node, **flags, **place),
                FindNodes(id=node, tenant=place["tenant"]),
                ReadPath(
                    branch=draw(draws.branches),
                    at=draw(some_node),
                    kind=draw(st.sampled_from((None, "message", "frame"))),
                    last=draw(some_number),
                    **place,
                ),
                GetNotes(
                    nodes=draw(draws.once(draws.node_ids, 12)),
                    prefix=draw(st.sampled_from(("", "k", "ledger.draft/"))),
                    **place,
                ),
                GetValues(digests=tuple(v.digest for v in draws.VALUES), **place),
                ListBranches(**place),
                DiffBranches(a=draw(draws.branches), b=draw(draws.branches), **place),
                ListDrafts(**place),
            )
        )
    )


@st.composite
def session_reads(draw: st.DrawFn) -> Query[Any]:
    place = _place(draw)
    common: dict[str, Any] = {"tenant": place["tenant"]}
    return draw(
        st.sampled_from(
            (
                GetSession(id=place["session"], **common),
                GetHead(id=place["session"], **common),
                GetPicker(id=place["session"], **common),
                GetDocument(name=draw(st.sampled_from(DOCUMENTS)), **place),
                GetDocuments(
                    sessions=tuple(draw(st.lists(draws.sessions, max_size=3))),
                    name=draw(st.sampled_from(DOCUMENTS)),
                    **common,
                ),
                CountSessions(where=draw(filters()), **common),
                ReadSessionAt(revision=draw(st.integers(-1, 9)), **place),
                GetTurn(turn=draw(draws.turns), **place),
                ListTurns(after_revision=draw(draws.offsets), limit=draw(draws.limits), **place),
                VerifySession(**place),
                IsCopyUnfinished(**common),
                GetLease(**place),
                GetRun(id=draw(draws.runs), **common),
                LatestRun(**place),
                ListWork(**place),
                ReadFeed(after=draw(st.integers(0, 9)), limit=draw(draws.limits), **common),
                ReadFeed(after=draw(st.integers(0, 3)), limit=draw(draws.limits), **place),
                FeedEnd(**common),
                ListUncommitted(cutoff_us=draw(st.sampled_from((0, draws.START_US * 2))), **common),
                GetAttachment(id=draw(st.sampled_from(draws.ATTACHMENTS)), **place),
                ListAttachments(**place),
            )
        )
    )


@st.composite
def filters(draw: st.DrawFn) -> SessionFilter:
    return SessionFilter(
        user=draw(st.sampled_from((None, None, "u1"))),
        app=draw(st.sampled_from((None, None, "app", ""))),
        status=draw(st.sampled_from((None, None, "paused"))),
        parent=draw(st.sampled_from((None, None, "s1"))),
        deleted=draw(st.booleans()),
        created_after_us=draw(st.sampled_from((None, None, draws.START_US))),
        created_before_us=draw(st.sampled_from((None, None, draws.START_US + 7))),
        metadata_equals=draw(st.sampled_from((None, None, None, b"null", b'{"a":1}'))),
        metadata_contains=draw(st.sampled_from((None, None, None, {}, {"a": 1}))),
    )


@st.composite
def session_lists(draw: st.DrawFn) -> Query[Any]:
    after = st.tuples(st.sampled_from((0, draws.START_US, draws.START_US + 7)), draws.sessions)
    return ListSessions(
        tenant=draw(draws.tenants),
        where=draw(filters()),
        order=draw(st.sampled_from(ORDERS)),
        limit=draw(draws.limits),
        offset=draw(st.integers(0, 2)),
        after=draw(st.one_of(st.none(), after)),
        total=draw(st.booleans()),
    )


anything = st.one_of(
    message_reads(),
    message_pages(),
    node_lists(),
    graph_reads(),
    session_reads(),
    session_lists(),
    runs.questions(),
    context_draws.questions(),
)
