"""The commit: one command, one transaction, in the order the contract gives.

session, stamp, fence, revision, claims, graph, then everything that travels with it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from ledgerstone.commands.turns import CommitTurn, is_usual
from ledgerstone.errors import SessionNotFound, TurnConflict
from ledgerstone.handlers import graph
from ledgerstone.handlers.commits import Commit, place_branch, runs_of, settle_branch
from ledgerstone.handlers.heads import (
    check_parent,
    find_session,
    move_recency,
    need_session,
    save_head,
)
from ledgerstone.handlers.nodes import id_at
from ledgerstone.handlers.ready import settle_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import (
    open_mention,
    open_record,
    save_run,
    settle_record,
    wake_parent,
)
from ledgerstone.handlers.sessions import insert_session
from ledgerstone.handlers.turn_reads import first_answer
from ledgerstone.handlers.usage import count_usage
from ledgerstone.handlers.work import complete_claims
from ledgerstone.lazy_imports import lazy_import
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.rules import leases as lease_rules
from ledgerstone.rules import ledger
from ledgerstone.rules.chain import link
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.run import go_on
from ledgerstone.tables.graph import TURNS, TURNS_BY_ID, TurnRow
from ledgerstone.tables.sessions import HEADS, Head, SessionRow
from ledgerstone.tables.transaction import Tx


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
        await _extras().carry_more(tx, commit)
    _write_turn(tx, commit)
    move_recency(tx, session, commit.moment_us)
    if command.release and command.guard.fence is not None:
        lease_rules.clear(head)
        await settle_ready(tx, head)
    tx.put(HEADS, head)
    return await _answer(tx, commit, commit.revision, replayed=False)


@cache
def _extras() -> Any:
    """The module of what few commits carry; most programs never need it."""
    return lazy_import("ledgerstone.handlers.extras")


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
        await _extras().patch_state(tx, commit, command.state)
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
