"""The commit: one command, one transaction, in the order the contract gives.

session, stamp, fence, revision, claims, graph, then everything that travels with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.codec import decode_struct, encode_json, sha256
from ledgerstone.commands.turns import CommitTurn, FindTurn, GetTurn, ListTurns, is_usual
from ledgerstone.errors import Corrupt, SessionNotFound, TurnConflict
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.turns import Checkpoint, Placed, TurnCommitted, TurnInfo
from ledgerstone.rules import leases as lease_rules
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_effects, read_object
from ledgerstone.rules.chain import link
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.run import go_on
from ledgerstone.sql import graph
from ledgerstone.sql.commits import Commit, runs_of, settle_branch
from ledgerstone.sql.executions import finish_in_commit
from ledgerstone.sql.heads import base_of, find_head, move_head, move_recency, set_lease
from ledgerstone.sql.kept import keep
from ledgerstone.sql.notes import drop_notes_of, write_notes
from ledgerstone.sql.paths import id_at
from ledgerstone.sql.ready import settle_ready
from ledgerstone.sql.run_rows import new_row, open_mention, open_record, save_run, settle_record
from ledgerstone.sql.runs import wake_parent
from ledgerstone.sql.sessions import insert_session
from ledgerstone.sql.tickets import open_tickets
from ledgerstone.sql.tx import Row, Tx
from ledgerstone.sql.usage import count_usage
from ledgerstone.sql.work import complete_claims, enqueue_in_commit

_checkpoint = msgspec.json.Decoder(Checkpoint)


async def commit_turn(tx: Tx, command: CommitTurn) -> TurnCommitted:
    """Everything a turn is, or nothing; a repeated turn gets the first answer again."""
    run = None if command.run is None else command.run.id
    row = await tx.one("find_commit", command.tenant, command.session, command.turn, run)
    if row is None:
        if command.create is None:
            raise SessionNotFound(command.session)
        head = await insert_session(tx, command.tenant, command.create)
        run_known, bounded, tip_id = 1, 1, None
    else:
        head = HeadRow(*row[:-4])
        turn_known, run_known, bounded, tip_id = row[-4:]
        if turn_known:
            return await _repeat(tx, head, command)
    check_alive(command.session, head)
    check_guard(command.session, head, command.guard, tx.now_us, made=row is None)
    commit = Commit(command, head, head.moment(tx.now_us), head.revision + 1, tip_id, bounded)
    commit.leaf, commit.tip, commit.tip_seq = head.leaf, head.tip, head.tip_seq
    if command.complete:
        await complete_claims(tx, command.session, head, command.complete)
        commit.effects["completed"] = [one.claim for one in command.complete]
    if not commit.on_main:
        await graph.open_branch(tx, commit)
    if command.run is not None and not run_known:
        commit.runs[command.run.id] = new_row(head)
    await _open_runs(tx, commit)
    if command.rewind is not None:
        await graph.rewind(tx, commit, command.rewind)
    if command.nodes and not await graph.append(tx, commit):
        return await _answer(tx, commit, head.revision, replayed=True)
    usual = is_usual(command)
    if not usual:
        await _change_graph(tx, commit)
    await _carry(tx, commit)
    if not usual:
        await _carry_more(tx, commit)
    await settle_branch(tx, commit)
    await _write_turn(tx, commit)
    return await _answer(tx, commit, commit.revision, replayed=False)


async def _open_runs(tx: Tx, commit: Commit) -> None:
    """The rows of the runs that the commit names, before nodes carry their numbers."""
    command, head = commit.command, commit.head
    if command.run is not None and command.run.id not in commit.runs:
        id = command.run.id
        commit.runs[id] = await open_record(tx, command.tenant, head, id)
    for node in command.nodes:
        if node.run_id is not None and node.run_id not in commit.runs:
            commit.runs[node.run_id] = await open_mention(tx, head, node.run_id)


async def _change_graph(tx: Tx, commit: Commit) -> None:
    command = commit.command
    if command.tombstones:
        await graph.tombstone(tx, commit)
    if commit.gone:
        commit.effects["gone"] = runs_of(commit.gone)
    if command.amendments:
        await graph.amend(tx, commit)
    if command.branches:
        await graph.move_branches(tx, commit)


async def _carry(tx: Tx, commit: Commit) -> None:
    """What travels with the nodes of most turns."""
    command, head, effects = commit.command, commit.head, commit.effects
    run = command.run
    if command.state is not None:
        await _patch_state(tx, head, command.state)
    if command.state:
        effects["state"] = command.state
    if run is not None:
        row = commit.runs[run.id]
        # A checkpoint is the whole truth; a turn says what is new.
        said = run if command.kind == "checkpoint" else go_on(run, row.old)
        run = settle_record(head, row, said, commit.moment_us)
    for id, row in commit.runs.items():
        await save_run(tx, command.tenant, head, id, row)
    if run is not None and run.parent_run is not None:
        await wake_parent(tx, command.tenant, head, commit.runs[run.id])
    if command.usage:
        await count_usage(tx, commit)


async def _carry_more(tx: Tx, commit: Commit) -> None:
    """What travels with the nodes of few."""
    command, head = commit.command, commit.head
    if command.values:
        rows = [(head.number, value.digest, value.data) for value in command.values]
        await tx.many("put_value", rows)
    if command.notes:
        await write_notes(tx, head, command.notes, commit.moment_us, "replace_note")
    if command.kept_notes:
        await write_notes(tx, head, command.kept_notes, commit.moment_us, "keep_note")
    if command.config is not None or command.frames is not None or command.checkpoint is not None:
        await _put_documents(tx, commit)
    for draft in command.drop_drafts:
        await drop_notes_of(tx, head, draft, DRAFT_PREFIX)
    if command.attach:
        await _stamp_attachments(tx, commit)
    if command.tickets:
        await open_tickets(tx, commit)
    if command.executions:
        await finish_in_commit(tx, commit)
    if command.enqueue:
        await enqueue_in_commit(tx, commit)
    await keep(tx, commit)


async def _stamp_attachments(tx: Tx, commit: Commit) -> None:
    command = commit.command
    for attachment in command.attach:
        key = (command.tenant, command.session, attachment)
        await tx.run("stamp_attachment", *key, commit.moment_us)
    commit.effects["attach"] = list(command.attach)


async def _patch_state(tx: Tx, head: HeadRow, patch: dict[str, Any]) -> None:
    row = await tx.one("get_document", head.number, "state")
    state = read_object(None if row is None else row[0], "documents", f"{head.number}", "state")
    state |= patch
    kept = {key: value for key, value in state.items() if value is not None}
    await tx.run("put_document", head.number, "state", encode_json(kept, "state"))


async def _put_documents(tx: Tx, commit: Commit) -> None:
    command, head = commit.command, commit.head
    digests = {}
    for name, body in (("config", command.config), ("frames", command.frames)):
        if body is not None:
            await tx.run("put_document", head.number, name, body)
            digests[name] = sha256(body)
    if digests:
        commit.effects["documents"] = digests
    checkpoint = command.checkpoint
    if checkpoint is not None:
        await tx.run("put_document", head.number, "checkpoint", checkpoint.data)
        await tx.run("put_value", head.number, checkpoint.ref, checkpoint.data)
        head.checkpoint = checkpoint.ref
        commit.effects["checkpoint"] = checkpoint.ref


async def _write_turn(tx: Tx, commit: Commit) -> None:
    """The turn row, the next link of the chain and the head."""
    command, head, moment_us = commit.command, commit.head, commit.moment_us
    usage = ledger.encode_usage(command.usage)
    effects = ledger.encode_effects(commit.effects)
    head.revision = commit.revision
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
    await tx.run(
        "insert_turn",
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
    await move_recency(tx, head, moment_us)
    head.updated_us = moment_us
    if command.release and command.guard.fence is not None:
        lease_rules.clear(head)
        await set_lease(tx, head)
        await settle_ready(tx, head)
    await move_head(tx, head)


async def _answer(tx: Tx, commit: Commit, revision: int, *, replayed: bool) -> TurnCommitted:
    command, checkpoint = commit.command, commit.command.checkpoint
    leaf = commit.moved_to
    if leaf is msgspec.UNSET:
        last = commit.placed[-1] if commit.placed else None
        known = last is not None and last.ord == commit.tip
        leaf = last.id if known and last else await id_at(tx, commit.head, commit.tip)
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


async def _repeat(tx: Tx, head: HeadRow, command: CommitTurn) -> TurnCommitted:
    """The first answer; a release that was asked for is still carried out."""
    stamp = await tx.one("find_turn", head.number, command.turn)
    assert stamp is not None
    if stamp[2] != command.hash:
        raise TurnConflict(command.session, command.turn)
    guard = command.guard
    holds = head.owner and (guard.fence, guard.token) == (head.fence, head.token)
    if command.release and holds:
        lease_rules.clear(head)
        await set_lease(tx, head)
        await settle_ready(tx, head)
    return await first_answer(tx, head, command.session, command.turn, stamp)


async def get_turn(tx: Tx, query: GetTurn | FindTurn) -> TurnCommitted | None:
    """The answer of an earlier commit."""
    head = await find_head(tx, query.tenant, query.session)
    stamp = None if head is None else await tx.one("find_turn", head.number, query.turn)
    if head is None or stamp is None:
        return None
    return await first_answer(tx, head, query.session, query.turn, stamp)


async def first_answer(tx: Tx, head: HeadRow, session: str, turn: str, stamp: Row) -> TurnCommitted:
    """Rebuild what a commit answered from its row and the nodes it placed."""
    revision, _, _, created_us, leaf, first_ord, count, raw = stamp
    effects = read_effects(raw, turn)
    if "branches" in effects:
        leaf = max(effects["branches"][-1][1], 0)
    elif "branch" in effects:
        leaf = effects["branch"][1]
    affected = effects.get("popped", []) + effects.get("tombstoned", [])
    ids = [await id_at(tx, head, ord) for ord in affected]
    ref = effects.get("checkpoint")
    return TurnCommitted(
        session=session,
        turn=turn,
        revision=revision,
        leaf=await _leaf_then(tx, head, leaf, revision),
        placed=await _placed(tx, head, first_ord, count),
        checkpoint_ref=ref,
        checkpoint=None if ref is None else await _manifest(tx, head, ref),
        affected=tuple(id for id in ids if id is not None),
        superseded=effects.get("superseded", 0),
        created_us=created_us,
        replayed=True,
        over_budget=tuple(effects.get("over_budget", ())),
    )


async def _placed(tx: Tx, head: HeadRow, first_ord: int, count: int) -> tuple[Placed, ...]:
    if not count:
        return ()
    base = base_of(head)
    rows = await tx.all("placed_between", base + first_ord, base + first_ord + count - 1)
    ids = {row[0]: row[4] for row in rows}
    placed = []
    for ord, parent, seq, created_us, id in rows:
        parent_id = ids.get(parent) or await id_at(tx, head, parent)
        placed.append(Placed(id, ord, seq, parent_id, created_us))
    return tuple(placed)


async def _leaf_then(tx: Tx, head: HeadRow, leaf: int, revision: int) -> str | None:
    """The effective leaf as it was right after a commit."""
    while leaf:
        row = await tx.one("leaf_then", base_of(head) + leaf)
        if row is None or row[0] >= leaf:
            raise Corrupt("nodes", f"{leaf}", "parent", "it does not lead to the root")
        parent, deleted_rev, id = row
        if deleted_rev is None or deleted_rev > revision:
            return str(id)
        leaf = parent
    return None


async def _manifest(tx: Tx, head: HeadRow, ref: str) -> Checkpoint | None:
    row = await tx.one("get_value", head.number, ref)
    if row is None:
        return None
    try:
        return decode_struct(_checkpoint, row[0])
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt("contents", ref, "data", str(error)) from None


async def list_turns(tx: Tx, query: ListTurns) -> list[TurnInfo]:
    """The commit history of a session."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    rows = await tx.all("list_turns", head.number, query.after_revision, query.limit)
    return [
        TurnInfo(
            session=query.session,
            turn=id,
            kind=kind,
            revision=revision,
            hash=hash.hex(),
            link=link.hex(),
            leaf=await id_at(tx, head, leaf),
            nodes=count,
            created_us=created_us,
            usage=ledger.read_usage(id, usage),
        )
        for revision, id, kind, hash, link, created_us, leaf, _, count, usage, *_ in rows
    ]
