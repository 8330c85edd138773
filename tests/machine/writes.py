"""Random commands. A commit comes with a word that says which guard it should carry.

The guard itself depends on who holds the session at that moment, so the machine fills it in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from ledgerstone.codec import encode_json
from ledgerstone.commands import Command
from ledgerstone.commands.blobs import ForgetAttachment, RecordIntent
from ledgerstone.commands.leases import BreakLease, RaiseFences, TakeLease
from ledgerstone.commands.nodes import AnnotateNodes, DropNotes, NewValue, VacuumSession
from ledgerstone.commands.runs import PutRun
from ledgerstone.commands.sessions import (
    CopySession,
    CreateSession,
    DeleteSession,
    GetOrCreateSession,
    PurgeSession,
    PutSession,
    RestoreSession,
    UpdateSession,
)
from ledgerstone.commands.transfer import MarkCopy
from ledgerstone.commands.turns import CommitTurn, FindTurn, NewNode, Rewind
from tests.machine import draws, runs, work_draws

LEASE_US = 60_000_000
jumps = st.sampled_from((1, 1_000))


class Guarded(NamedTuple):
    """A commit, and what kind of guard it should come with."""

    command: CommitTurn
    guard: str


def values_of(nodes: tuple[NewNode, ...], more: tuple[NewValue, ...] = ()) -> tuple[NewValue, ...]:
    """What the nodes refer to, as the API would send it along."""
    wanted = {digest for node in nodes for digest in node.refs} | {value.digest for value in more}
    return tuple(value for value in draws.VALUES if value.digest in wanted)


def _commit(draw: st.DrawFn, kind: str, **parts: Any) -> Guarded:
    session = draw(draws.sessions)
    create = draw(st.one_of(st.none(), draws.new_sessions(session), draws.new_sessions(session)))
    command = CommitTurn(
        tenant=draw(draws.tenants),
        session=session,
        turn=draw(draws.turns),
        kind=kind,
        create=create,
        **parts,
    )
    return Guarded(command, draw(draws.guards))


@st.composite
def appends(draw: st.DrawFn) -> Guarded:
    return _commit(draw, "append", nodes=draw(draws.plain_nodes), branch=draw(draws.branches))


@st.composite
def whole_turns(draw: st.DrawFn) -> Guarded:
    """Everything a turn may hold; most parts absent, any two of them together some day."""
    nodes = draw(draws.nodes)
    with_run = draw(st.integers(0, 2)) == 0
    frames = draw(draws.frames)
    checkpoint = draw(st.one_of(st.none(), draws.checkpoints()))
    more = draws.VALUES if checkpoint else draw(draws.once(st.sampled_from(draws.VALUES), 1))
    made = _commit(
        draw,
        "checkpoint" if checkpoint else "turn",
        branch=draw(draws.branches),
        nodes=nodes,
        missing_parent=draw(st.sampled_from(("error", "root"))),
        amendments=draw(st.one_of(st.just(()), st.just(()), st.tuples(draws.amendments()))),
        tombstones=draw(draws.once(draws.node_ids, 1)),
        state=draw(st.one_of(st.none(), draws.objects)),
        usage=draw(st.lists(draws.usages(), max_size=2).map(tuple)),
        values=values_of(nodes, more),
        notes=draw(draws.notes_of_a_turn()),
        kept_notes=draw(draws.notes_of_a_turn()),
        config=draw(st.sampled_from((None, b'{"model":"m"}'))),
        frames=encode_json(frames, "frames") if frames else None,
        checkpoint=checkpoint,
        drop_drafts=draw(draws.once(draws.node_ids, 1)),
        attach=draw(draws.once(st.sampled_from(draws.ATTACHMENTS), 1)),
        complete=draw(work_draws.completions),
        enqueue=draw(st.one_of(st.just(()), st.just(()), work_draws.in_a_commit)),
        release=draw(st.booleans()),
    )
    if not with_run:
        return made
    run = draw(runs.records(made.command.session))
    return Guarded(msgspec.structs.replace(made.command, run=run), made.guard)


@st.composite
def replaces(draw: st.DrawFn) -> Guarded:
    rewind = msgspec.structs.replace(draw(draws.rewinds()), supersede=True)
    nodes = draw(draws.plain_nodes)
    return _commit(draw, "replace", nodes=nodes, rewind=rewind, branch=draw(draws.branches))


@st.composite
def pops(draw: st.DrawFn) -> Guarded:
    pop = draw(st.integers(1, 3))
    return _commit(draw, "pop", rewind=Rewind(pop=pop), branch=draw(draws.branches))


@st.composite
def rewindings(draw: st.DrawFn) -> Guarded:
    return _commit(draw, "clear", rewind=draw(draws.rewinds()), branch=draw(draws.branches))


@st.composite
def amends(draw: st.DrawFn) -> Guarded:
    return _commit(draw, "amend", amendments=(draw(draws.amendments()),))


@st.composite
def tombstonings(draw: st.DrawFn) -> Guarded:
    return _commit(draw, "tombstone", tombstones=draw(draws.once(draws.node_ids, 3)))


@st.composite
def branchings(draw: st.DrawFn) -> Guarded:
    return _commit(draw, "branch", branches=(draw(draws.branch_moves()),))


@st.composite
def states(draw: st.DrawFn) -> Guarded:
    return _commit(draw, "state", state=draw(draws.objects))


@st.composite
def noting_turns(draw: st.DrawFn) -> Guarded:
    """Turns of notes alone: with everything else in them few would be committed."""
    notes, kept = draw(draws.notes_of_a_turn()), draw(draws.notes_of_a_turn())
    return _commit(draw, "turn", notes=notes, kept_notes=kept)


@st.composite
def session_writes(draw: st.DrawFn) -> Command[Any]:
    id = draw(draws.sessions)
    session = draw(draws.new_sessions(id))
    document = draw(st.sampled_from((None, b'{"doc":1}')))
    common: dict[str, Any] = {"tenant": session.tenant}
    return draw(
        st.sampled_from(
            (
                CreateSession(session=session, document=document, **common),
                CreateSession(session=session, ensure=True, **common),
                PutSession(session=session, **common),
                PutSession(session=session, document=document, **common),
                GetOrCreateSession(session=session, **common),
                UpdateSession(id=id, title="new", metadata=session.metadata, **common),
                UpdateSession(id=id, status="paused", document=document, **common),
            )
        )
    )


@st.composite
def endings(draw: st.DrawFn) -> Command[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants), "id": draw(draws.sessions)}
    purge = PurgeSession(
        keep_runs=draw(st.booleans()),
        # A retired id is lost for the rest of the example, so it has to be rare.
        retire=draw(st.integers(0, 7)) == 0,
        expected_revision=draw(st.sampled_from((None, None, None, 1, 2))),
        expected_incarnation=draw(st.sampled_from((None, None, None, 1, 2))),
        **common,
    )
    delete, restore = DeleteSession(**common), RestoreSession(**common)
    return draw(st.sampled_from((delete, restore, restore, purge)))


@st.composite
def copies(draw: st.DrawFn) -> CopySession:
    target = draw(st.sampled_from(("s3", "s3", "s2")))
    made = draw(draws.new_sessions(target))
    whole = draw(st.booleans())
    return CopySession(
        tenant=made.tenant,
        source=draw(draws.sessions),
        target=made,
        whole=whole,
        at=None if whole else draw(st.one_of(st.none(), draws.node_ids)),
        branch="main" if whole else draw(draws.branches),
        turn=draw(draws.turns),
    )


@st.composite
def notings(draw: st.DrawFn) -> Command[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants), "session": draw(draws.sessions)}
    if draw(st.integers(0, 4)) == 0:
        prefix = draw(st.sampled_from(("", "k", "ledger.draft/")))
        return DropNotes(node=draw(draws.node_ids), prefix=prefix, **common)
    made = tuple(draw(st.lists(draws.notes(), min_size=1, max_size=3, unique_by=_place)))
    wanted = {digest for note in made for digest in note.refs}
    values = tuple(value for value in draws.VALUES if value.digest in wanted)
    mode = draw(st.sampled_from(("keep", "replace")))
    return AnnotateNodes(notes=made, values=values, mode=mode, **common)


def _place(note: Any) -> tuple[str, str]:
    return note.node, note.key


@st.composite
def vacuums(draw: st.DrawFn) -> VacuumSession:
    return VacuumSession(
        tenant=draw(draws.tenants),
        session=draw(draws.sessions),
        unreachable=draw(st.booleans()),
        values_only=draw(st.sampled_from((False, False, False, True))),
        before_us=draw(st.sampled_from((None, None, draws.START_US + 3))),
        notes_before_us=draw(st.sampled_from((0, draws.START_US * 2))),
        dry_run=draw(st.sampled_from((False, False, True))),
    )


@st.composite
def side_writes(draw: st.DrawFn) -> Command[Any]:
    session = draw(draws.sessions)
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    run = draw(runs.records(session))
    attachment = draw(st.sampled_from(draws.ATTACHMENTS))
    digest = draw(st.sampled_from(draws.VALUES)).digest
    return draw(
        st.sampled_from(
            (
                PutRun(run=run, **common),
                PutRun(run=run, upsert=True, **common),
                RecordIntent(session=session, id=attachment, uri="u", **common),
                RecordIntent(session=session, id=digest, uri="u", **common),
                ForgetAttachment(session=session, id=attachment, **common),
                BreakLease(
                    session=session,
                    by="op",
                    reason="stuck",
                    fence=draw(st.sampled_from((None, 1, 2))),
                    **common,
                ),
                RaiseFences(session=session, jump=draw(jumps), **common),
                RaiseFences(jump=draw(jumps), **common),
                FindTurn(session=session, turn=draw(draws.turns), **common),
                MarkCopy(ended=draw(st.booleans()), **common),
            )
        )
    )


@st.composite
def takes(draw: st.DrawFn) -> TakeLease:
    return TakeLease(
        tenant=draw(draws.tenants),
        session=draw(draws.sessions),
        owner=draw(st.sampled_from(draws.OWNERS)),
        token=draw(st.sampled_from(draws.TOKENS)),
        ttl_us=draw(st.sampled_from((0, LEASE_US, LEASE_US, LEASE_US))),
        reenter=draw(st.booleans()),
    )
