"""Fork and copy: a new session with the rows of another."""

from __future__ import annotations

from hashlib import sha256

from ledgerstone.commands.sessions import CopySession
from ledgerstone.errors import AlreadyExists, BranchNotFound, unknown_node
from ledgerstone.records.sessions import Session
from ledgerstone.rules.chain import frame, link
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.ledger import encode_effects
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.chains import chain_node
from ledgerstone.sql.heads import base_of, find_head, move_head, need_head
from ledgerstone.sql.paths import count_path, tip_of
from ledgerstone.sql.sessions import insert_session, read_session
from ledgerstone.sql.tx import Tx


async def copy_session(tx: Tx, command: CopySession) -> Session:
    """Copy everything, or fork one path, into a new session with a chain of its own."""
    source = await need_head(tx, command.tenant, command.source)
    check_alive(command.source, source)
    if await find_head(tx, command.tenant, command.target.id) is not None:
        raise AlreadyExists(command.target.id)
    target = await insert_session(tx, command.tenant, command.target)
    if command.whole:
        await _copy_rows(tx, source, target)
    else:
        await _fork_rows(tx, command, source, target)
    await tx.run("copy_contents", source.number, target.number)
    await tx.run("copy_attachments", command.tenant, command.source, command.target.id)
    await tx.run("copy_runs", source.number, target.number)
    target.runs = source.runs
    await _first_turn(tx, command, source, target)
    copied = await read_session(tx, command.tenant, command.target.id)
    assert copied is not None
    return copied


async def _copy_rows(tx: Tx, source: HeadRow, target: HeadRow) -> None:
    for query in (
        "copy_nodes",
        "copy_amendments",
        "copy_branches",
        "copy_notes",
        "copy_documents",
    ):
        await tx.run(query, source.number, target.number)
    if source.live < source.ord:
        await tx.run("hide_copies", source.number, target.number)
    target.ord, target.leaf = source.ord, source.leaf
    target.tip, target.tip_seq = source.tip, source.tip_seq
    target.messages, target.users = source.messages, source.users
    target.first_user, target.live = source.first_user, source.live
    target.branched, target.named = source.branched, source.named
    target.amended, target.checkpoint = source.amended, source.checkpoint


async def _fork_rows(tx: Tx, command: CopySession, source: HeadRow, target: HeadRow) -> None:
    leaf = await _fork_leaf(tx, command, source)
    base = base_of(source)
    count = await tx.run("fork_nodes", base, base + leaf, target.number) if leaf else 0
    if source.amended:
        target.amended = await tx.run("fork_amendments", source.number, target.number)
    await tx.run("fork_documents", source.number, target.number)
    target.ord = target.leaf = target.tip = target.tip_seq = target.live = count
    target.messages, target.users, target.first_user = await count_path(tx, target, count)


async def _fork_leaf(tx: Tx, command: CopySession, source: HeadRow) -> int:
    if command.at is not None:
        row = await tx.one("find_place", source.number, command.at)
        if row is None or row[2] is not None:
            raise unknown_node("at", command.at)
        return int(row[0])
    tip = await tip_of(tx, source, command.branch)
    if tip is None:
        raise BranchNotFound(command.branch)
    return tip[0]


async def _first_turn(tx: Tx, command: CopySession, source: HeadRow, target: HeadRow) -> None:
    """The chain of the new session starts by naming where it came from."""
    base = base_of(target)
    rows = await tx.all("chain_rows", base, base + target.ord)
    amended = await tx.all("chain_amendments", base, base + target.ord)
    effects: dict[str, object] = {
        "source": [command.source, source.incarnation, source.revision, source.link.hex()]
    }
    if amended:
        effects["amend"] = [[ord, version, digest.hex()] for ord, version, digest, *_ in amended]
    kind = "copy" if command.whole else "fork"
    moment_us = target.updated_us
    hash = sha256(frame(command.source, source.link)).digest()
    data = encode_effects(effects)
    target.revision = 1
    target.link = link(
        target.link,
        revision=1,
        turn=command.turn,
        kind=kind,
        hash=hash,
        created_us=moment_us,
        leaf=target.leaf,
        tip=None,
        usage=None,
        effects=data,
        nodes=[chain_node(row) for row in rows],
    )
    place = (target.leaf, 1 if rows else 0, len(rows))
    stamp = (target.number, 1, command.turn, kind, hash, target.link, moment_us)
    await tx.run("insert_turn", *stamp, *place, None, data)
    await move_head(tx, target)
