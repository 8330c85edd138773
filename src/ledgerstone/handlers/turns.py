"""The commit: one command, one transaction, in the order the contract gives.

session, stamp, fence, revision, claims, graph, then everything that travels with it.
"""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct
from ledgerstone.commands.turns import CommitTurn, FindTurn, GetTurn, ListTurns, is_usual
from ledgerstone.errors import Corrupt, SessionNotFound, TurnConflict
from ledgerstone.handlers import graph
from ledgerstone.handlers.commits import Commit, place_branch, runs_of, settle_branch
from ledgerstone.handlers.families import check_parent
from ledgerstone.handlers.heads import (
    find_head,
    find_session,
    move_recency,
    need_session,
    save_head,
)
from ledgerstone.handlers.nodes import columns_between, id_at, node_at
from ledgerstone.handlers.ready import settle_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.run_rows import open_mention, open_record, save_run, settle_record
from ledgerstone.handlers.runs import wake_parent
from ledgerstone.handlers.sessions import insert_session
from ledgerstone.handlers.usage import count_usage
from ledgerstone.handlers.work import complete_claims
from ledgerstone.records.turns import Checkpoint, Placed, TurnCommitted, TurnInfo
from ledgerstone.rules import leases as lease_rules
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_effects
from ledgerstone.rules.chain import link
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.run import go_on
from ledgerstone.tables.graph import CONTENTS, TURNS, TURNS_BY_ID, TURNS_BY_REVISION, TurnRow
from ledgerstone.tables.sessions import HEADS, Head, SessionRow
from ledgerstone.tables.transaction import Tx

_checkpoint = msgspec.json.Decoder(Checkpoint)
_SPARSE = 64


@handles(CommitTurn)
async def commit_turn(tx: Tx, command: CommitTurn) -> TurnCommitted:
    """Everything a turn is, or nothing; a repeated turn gets the first answer again."""
    session, head, made = await _find_or_make(tx, command)
    if not made:
        stamp = await tx.fresh(TURNS_BY_ID, [(command.turn, head.number)])
        if stamp is not None:
            return await _repeat(tx, head, command, stamp)
    check_alive(command.session, head)
    check_guard(command.session, head, command.guard, tx.now_us, made=made)
    commit = Commit(command, head, head.moment(tx.now_us), head.revision + 1)
    if command.complete:
        await complete_claims(tx, head, command)
        commit.effects["completed"] = [one.claim for one in command.complete]
    await graph.open_branch(tx, commit)
    await _open_runs(tx, commit)
    taken = await graph.find_taken(tx, commit)
    if command.rewind is not None:
        await graph.rewind(tx, commit, command.rewind)
    if command.nodes and not await graph.append(tx, commit, taken):
        return await _answer(tx, commit, head.revision, replayed=True)
    if command.tombstones:
        await graph.tombstone(tx, commit)
    await place_branch(tx, commit)
    usual = is_usual(command)
    if not usual:
        await _change_graph(tx, commit)
    await settle_branch(tx, commit)
    await _carry(tx, commit)
    if not usual:
        from ledgerstone.handlers.extras import carry_more  # Here: most programs never need it.

        await carry_more(tx, commit)
    _write_turn(tx, commit)
    move_recency(tx, session, commit.moment_us)
    if command.release and command.guard.fence is not None:
        lease_rules.clear(head)
        await settle_ready(tx, head)
    tx.put(HEADS, head)
    return await _answer(tx, commit, commit.revision, replayed=False)


async def _find_or_make(tx: Tx, command: CommitTurn) -> tuple[SessionRow, Head, bool]:
    """The session's row and head, and whether this commit made them."""
    found = await find_session(tx, command.tenant, command.session)
    if found is not None:
        return (*found, False)
    if command.create is None:
        raise SessionNotFound(command.session)
    await check_parent(tx, command.tenant, command.create, command.parent_rule)
    await insert_session(tx, command.tenant, command.create)
    return (*await need_session(tx, command.tenant, command.session), True)


async def _open_runs(tx: Tx, commit: Commit) -> None:
    """The rows of the runs that the commit names, before nodes carry their numbers."""
    command, head = commit.command, commit.head
    if command.run is not None:
        id = command.run.id
        commit.runs[id] = await open_record(tx, command.tenant, head, id)
    for node in command.nodes:
        if node.run_id is not None and node.run_id not in commit.runs:
            commit.runs[node.run_id] = await open_mention(tx, head, node.run_id)


async def _change_graph(tx: Tx, commit: Commit) -> None:
    command = commit.command
    if commit.gone:
        commit.effects["gone"] = runs_of(commit.gone)
    if command.amendments:
        await graph.amend(tx, commit)
    if command.branches:
        await graph.move_branches(tx, commit)


async def _carry(tx: Tx, commit: Commit) -> None:
    """What travels with the nodes of most turns."""
    command, head, record = commit.command, commit.head, commit.command.run
    if command.state is not None:
        from ledgerstone.handlers.extras import patch_state

        await patch_state(tx, commit, command.state)
    if record is not None:
        run = commit.runs[record.id]
        # A checkpoint is the whole truth; a turn says what is new.
        given = record if command.kind == "checkpoint" else go_on(record, run.old)
        settle_record(head, run, given, commit.moment_us)
    for id, run in commit.runs.items():
        save_run(tx, command.tenant, head, id, run)
    if record is not None:
        await wake_parent(tx, command.tenant, head, commit.runs[record.id])
    if command.usage:
        await count_usage(tx, commit)


def _write_turn(tx: Tx, commit: Commit) -> None:
    """The turn row and the next link of the chain."""
    command, head, moment_us = commit.command, commit.head, commit.moment_us
    usage = ledger.encode_usage(command.usage)
    effects = ledger.encode_effects(commit.effects)
    head.revision, head.updated_us = commit.revision, moment_us
    head.link = link(
        head.link,
        revision=head.revision,
        turn=command.turn,
        kind=command.kind,
        hash=command.hash,
        created_us=moment_us,
        leaf=head.leaf,
        tip=None if commit.on_main else commit.leaf,
        usage=ledger.digest(usage),
        effects=effects,
        nodes=commit.links,
    )
    row = TurnRow(
        0,
        head.number,
        head.revision,
        command.turn,
        command.kind,
        command.hash,
        head.link,
        moment_us,
        head.leaf,
        commit.first_ord,
        len(commit.links),
        usage,
        effects,
    )
    tx.insert(TURNS, [row])


async def _answer(tx: Tx, commit: Commit, revision: int, *, replayed: bool) -> TurnCommitted:
    command = commit.command
    checkpoint = None if replayed else command.checkpoint
    leaf = commit.moved_to
    if leaf is msgspec.UNSET:
        last = commit.placed[-1] if commit.placed else None
        known = last is not None and last.ord == commit.tip
        leaf = last.id if known and last else await id_at(tx, commit.head.number, commit.tip)
    return TurnCommitted(
        session=command.session,
        turn=command.turn,
        revision=revision,
        leaf=leaf,
        placed=tuple(commit.placed),
        checkpoint_ref=None if checkpoint is None else checkpoint.ref,
        checkpoint=None if checkpoint is None else checkpoint.manifest,
        affected=tuple(commit.affected),
        superseded=commit.superseded,
        created_us=commit.placed[-1].created_us if replayed else commit.moment_us,
        replayed=replayed,
        over_budget=tuple(commit.effects.get("over_budget", ())),
    )


async def _repeat(tx: Tx, head: Head, command: CommitTurn, stamp: TurnRow) -> TurnCommitted:
    """The first answer; a release that was asked for is still carried out."""
    if stamp.hash != command.hash:
        raise TurnConflict(command.session, command.turn)
    guard = command.guard
    holds = head.owner and (guard.fence, guard.token) == (head.fence, head.token)
    if command.release and holds:
        lease_rules.clear(head)
        await settle_ready(tx, head)
        save_head(tx, head)
    return await first_answer(tx, head, command.session, stamp)


async def get_turn(tx: Tx, query: GetTurn | FindTurn) -> TurnCommitted | None:
    """The answer of an earlier commit."""
    head = await find_head(tx, query.tenant, query.session)
    stamp = None if head is None else await tx.find(TURNS_BY_ID, query.turn, head.number)
    if head is None or stamp is None:
        return None
    return await first_answer(tx, head, query.session, stamp)


handles(GetTurn)(get_turn)
handles(FindTurn)(get_turn)


async def first_answer(tx: Tx, head: Head, session: str, stamp: TurnRow) -> TurnCommitted:
    """Rebuild what a commit answered from its row and the nodes it placed."""
    number, leaf = head.number, stamp.leaf
    effects = read_effects(stamp.effects, stamp.id)
    if "branches" in effects:
        leaf = max(effects["branches"][-1][1], 0)
    elif "branch" in effects:
        leaf = effects["branch"][1]
    affected = effects.get("popped", []) + effects.get("tombstoned", [])
    ids = [await id_at(tx, number, ord) for ord in affected]
    ref = effects.get("checkpoint")
    return TurnCommitted(
        session=session,
        turn=stamp.id,
        revision=stamp.revision,
        leaf=await _leaf_then(tx, number, leaf, stamp.revision),
        placed=await _placed(tx, number, stamp.first_ord, stamp.count),
        checkpoint_ref=ref,
        checkpoint=None if ref is None else await _manifest(tx, number, ref),
        affected=tuple(id for id in ids if id is not None),
        superseded=effects.get("superseded", 0),
        created_us=stamp.created_us,
        replayed=True,
        over_budget=tuple(effects.get("over_budget", ())),
    )


async def _placed(tx: Tx, number: int, first_ord: int, count: int) -> tuple[Placed, ...]:
    if not count:
        return ()
    columns = ("ord", "parent", "seq", "created_us", "id")
    rows = await columns_between(tx, number, columns, first_ord, first_ord + count - 1)
    ids = {row[0]: row[4] for row in rows}
    placed = []
    for ord, parent, seq, created_us, id in rows:
        parent_id = ids.get(parent) or await id_at(tx, number, parent)
        placed.append(Placed(id, ord, seq, parent_id, created_us))
    return tuple(placed)


async def _leaf_then(tx: Tx, number: int, leaf: int, revision: int) -> str | None:
    """The effective leaf as it was right after a commit."""
    while leaf:
        row = await node_at(tx, number, leaf)
        if row is None or row.parent >= leaf:
            raise Corrupt("nodes", f"{leaf}", "parent", "it does not lead to the root")
        if row.deleted_rev is None or row.deleted_rev > revision:
            return row.id
        leaf = row.parent
    return None


async def _manifest(tx: Tx, number: int, ref: str) -> Checkpoint | None:
    row = await tx.get(CONTENTS, number, ref)
    if row is None:
        return None
    try:
        return decode_struct(_checkpoint, row.data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt("contents", ref, "data", str(error)) from None


@handles(ListTurns)
async def list_turns(tx: Tx, query: ListTurns) -> list[TurnInfo]:
    """The commit history of a session."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    after, limit = (query.after_revision,), query.limit
    rows = await tx.scan(TURNS_BY_REVISION, head.number, after=after, limit=limit)
    leaves = await _ids_at(tx, head.number, {row.leaf for row in rows})
    return [
        TurnInfo(
            session=query.session,
            turn=row.id,
            kind=row.kind,
            revision=row.revision,
            hash=row.hash.hex(),
            link=row.link.hex(),
            leaf=leaves.get(row.leaf),
            nodes=row.count,
            created_us=row.created_us,
            usage=ledger.read_usage(row.id, row.usage),
        )
        for row in rows
    ]


async def _ids_at(tx: Tx, number: int, ords: set[int]) -> dict[int, str | None]:
    """The ids of nodes by their ords: as one range, unless that holds far more nodes."""
    if not ords:
        return {}
    first, last = min(ords), max(ords)
    if last - first < _SPARSE * len(ords):
        return dict(await columns_between(tx, number, ("ord", "id"), first, last))
    return {ord: await id_at(tx, number, ord) for ord in ords}
