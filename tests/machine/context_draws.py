"""Random compactions, whole and half, and questions for what to send to a model."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ledgerstone.codec import encode_struct
from ledgerstone.commands import Query
from ledgerstone.commands.context import FindCompaction, ReadContext
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.records.messages import Compaction, MessageBody
from ledgerstone.records.nodes import COMPACTION_LABEL
from ledgerstone.records.parts import Text
from tests.machine import draws, writes

some_node = st.one_of(st.none(), draws.node_ids, draws.node_ids)


@st.composite
def compactions(draw: st.DrawFn) -> writes.Guarded:
    """A request and its summary; now and then only one of them, or a summary that is none."""
    start = draw(some_node)
    request = MessageBody(
        role="user", is_compaction=True, parts=[Text("sum up")], compaction=Compaction(start)
    )
    summary = MessageBody(
        role="assistant",
        is_summary=draw(st.sampled_from((True, True, True, False))),
        parts=[Text("it was said")],
        compaction=Compaction(start, None, "it was said"),
    )
    salt = draw(draws.salts)
    made = (
        NewNode(
            draws.FRESH, "message", 2, encode_struct(request, "body"), salt, label=COMPACTION_LABEL
        ),
        NewNode(draws.FRESH, "message", 3, encode_struct(summary, "body"), salt),
    )
    nodes = draw(st.sampled_from((made, made, made, made[:1], made[1:])))
    command = CommitTurn(
        tenant=draw(draws.tenants),
        session=draw(draws.sessions),
        turn=draw(draws.turns),
        kind="append",
        branch=draw(draws.branches),
        nodes=nodes,
    )
    return writes.Guarded(command, draw(draws.guards))


@st.composite
def questions(draw: st.DrawFn) -> Query[Any]:
    place: dict[str, Any] = {"tenant": draw(draws.tenants), "session": draw(draws.sessions)}
    branch, node = draw(draws.branches), draw(some_node)
    return draw(
        st.sampled_from(
            (
                ReadContext(branch=branch, **place),
                ReadContext(branch=branch, at=node, **place),
                FindCompaction(branch=branch, tail_start=node, **place),
                FindCompaction(**place),
            )
        )
    )
