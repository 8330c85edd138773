"""The one command that moves a session: checks in a fixed order, then every write."""

from __future__ import annotations

from msgspec import UNSET

from ledgerstone.codec import decode_json, encode_json, sha256
from ledgerstone.commands.nodes import NewValue
from ledgerstone.commands.turns import Amendment, CommitTurn
from ledgerstone.errors import BranchNotFound, MessageNotFound, SessionNotFound, TurnConflict
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.rules import chain, leases, ledger
from ledgerstone.rules.guard import check_alive, check_guard
from tests.oracle.model import (
    answers,
    attachments,
    branches,
    executions,
    notes,
    paths,
    tickets,
    work,
)
from tests.oracle.model.appends import place_nodes, repeated_append
from tests.oracle.model.commits import Commit, recount
from tests.oracle.model.feed import enter_turn
from tests.oracle.model.kept import keep
from tests.oracle.model.ready import settle_ready
from tests.oracle.model.rewinds import rewind
from tests.oracle.model.rows import AmendmentRow, TurnRow
from tests.oracle.model.runs import store_run
from tests.oracle.model.standing import Standing, find, make, put_document, save_head
from tests.oracle.model.state import Tx
from tests.oracle.model.usage import count_usage


def commit_turn(tx: Tx, command: CommitTurn) -> TurnCommitted:
    """All of the command or nothing; a repeated turn gets its first answer again."""
    found = find(tx, command.tenant, command.session)
    standing = _made(tx, command) if found is None else found
    earlier = answers.find_turn(tx, standing.number, command.turn)
    if earlier is not None:
        if earlier.hash != command.hash:
            raise TurnConflict(command.session, command.turn)
        _release_replayed(tx, standing, command)
        return answers.tell_again(tx, standing, earlier)
    check_alive(command.session, standing.head)
    check_guard(command.session, standing.head, command.guard, tx.now_us, made=found is None)
    for claim in command.complete:
        work.complete(tx, standing, claim)
    if paths.stored_leaf(tx, standing, command.branch) is None:
        raise BranchNotFound(command.branch)
    commit = Commit(tx, command, standing)
    if command.rewind is not None:
        rewind(commit, command.rewind)
    repeated = repeated_append(commit)
    if repeated is not None:
        return repeated
    place_nodes(commit)
    _tombstone(commit)
    _amend(commit)
    _move_branches(commit)
    _store_side_records(commit)
    recount(commit, scattered=bool(commit.gone))
    return _finish(commit)


def _made(tx: Tx, command: CommitTurn) -> Standing:
    if command.create is None:
        raise SessionNotFound(command.session)
    return make(tx, command.tenant, command.session, command.create)


def _release_replayed(tx: Tx, standing: Standing, command: CommitTurn) -> None:
    """A lost answer may have been the one that released the lease: only the holder's goes."""
    head = standing.head
    mine = (head.fence, head.token) == (command.guard.fence, command.guard.token)
    if command.release and head.owner is not None and mine:
        leases.clear(head)
        save_head(tx, standing)
        settle_ready(tx, standing)


def _tombstone(commit: Commit) -> None:
    hidden: list[int] = []
    for node in commit.command.tombstones:
        row = paths.live_by_id(commit.tx, commit.standing, node)
        if row is not None:
            commit.tombstone(row)
            commit.affected.append(node)
            hidden.append(row.ord)
    if hidden:
        commit.effects["tombstoned"] = hidden
    if commit.gone:
        commit.effects["gone"] = _ranges(sorted(commit.gone))


def _ranges(ords: list[int]) -> list[list[int]]:
    """Sorted numbers as runs of neighbours: first and last of each."""
    found: list[list[int]] = []
    for each in ords:
        if found and found[-1][1] == each - 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return found


def _amend(commit: Commit) -> None:
    done = [_amend_one(commit, amendment) for amendment in commit.command.amendments]
    if done:
        commit.effects["amend"] = done


def _amend_one(commit: Commit, amendment: Amendment) -> list[object]:
    """Keep the next version of a message: everything that differs from its body by now."""
    tx, number = commit.tx, commit.number
    row = paths.live_by_id(tx, commit.standing, amendment.node)
    if row is None or row.kind != MESSAGE:
        raise MessageNotFound(amendment.node)
    newest = next(tx.state.amendments.scan((number, row.ord), reverse=True), None)
    version, before = (0, b"{}") if newest is None else (newest[0][2], newest[1].patch or b"{}")
    merged = {**decode_json(before), **decode_json(amendment.patch)}
    patch = encode_json(merged, "patch")
    committed = chain.amendment_commitment(Amendment(row.id, patch, amendment.salt))
    tx.state.amendments.insert(
        (number, row.ord, version + 1),
        AmendmentRow(
            patch=patch,
            salt=amendment.salt,
            revision=commit.revision,
            commitment=committed,
            created_us=commit.moment_us,
        ),
    )
    commit.head.amended += 1
    return [row.ord, version + 1, committed.hex()]


def _move_branches(commit: Commit) -> None:
    moved = [
        [wanted.name, branches.move(commit.tx, commit.standing, wanted)]
        for wanted in commit.command.branches
    ]
    if moved:
        commit.effects["branches"] = moved
    if commit.command.branch != paths.MAIN:
        commit.effects["branch"] = [commit.command.branch, commit.leaf()]


def _store_side_records(commit: Commit) -> None:
    """State, run, usage, values, notes, documents, drafts and attachments."""
    tx, command, number = commit.tx, commit.command, commit.number
    if command.state is not None:
        _patch_state(commit)
    if command.run is not None:
        whole = command.kind == "checkpoint"
        store_run(tx, commit.standing, command.run, commit.moment_us, whole=whole)
    if command.usage:
        count_usage(commit)
    notes.put_values(tx, number, command.values)
    for note in command.notes:
        notes.put_note(tx, number, note, commit.moment_us)
    for note in command.kept_notes:
        notes.keep_note(tx, number, note, commit.moment_us)
    _store_documents(commit)
    for node in command.drop_drafts:
        notes.drop(tx, number, node, DRAFT_PREFIX)
    for attachment in command.attach:
        attachments.stamp(tx, command.tenant, command.session, attachment, commit.moment_us)
    if command.tickets:
        tickets.open_tickets(commit)
    if command.executions:
        executions.finish_in_commit(commit)
    if command.enqueue:
        work.enqueue_in_commit(commit)
    keep(commit)
    for name, given in (
        ("attach", list(command.attach)),
        ("completed", [one.claim for one in command.complete]),
    ):
        if given:
            commit.effects[name] = given


def _patch_state(commit: Commit) -> None:
    patch = commit.command.state or {}
    old = commit.tx.state.documents.get((commit.number, "state"))
    state = fold_state({} if old is None else decode_json(old), patch)
    put_document(commit.tx, commit.number, "state", encode_json(state, "state"))
    if patch:
        commit.effects["state"] = patch


def fold_state(state: dict[str, object], patch: dict[str, object]) -> dict[str, object]:
    """The state after a patch; what the patch sets to None is gone."""
    merged = {**state, **patch}
    return {key: value for key, value in merged.items() if patch.get(key, UNSET) is not None}


def _store_documents(commit: Commit) -> None:
    command, digests = commit.command, {}
    for name, data in (("config", command.config), ("frames", command.frames)):
        if data is not None:
            put_document(commit.tx, commit.number, name, data)
            digests[name] = sha256(data)
    if digests:
        commit.effects["documents"] = digests
    if command.checkpoint is not None:
        given = command.checkpoint
        put_document(commit.tx, commit.number, "checkpoint", given.data)
        notes.put_values(commit.tx, commit.number, [NewValue(given.ref, given.data)])
        commit.head.checkpoint = given.ref
        commit.effects["checkpoint"] = given.ref


def _finish(commit: Commit) -> TurnCommitted:
    """Write the turn row and the head, and answer."""
    command, head = commit.command, commit.head
    turn = _turn_row(commit)
    enter_turn(commit.tx, commit.number, turn)
    head.revision, head.link, head.updated_us = turn.revision, turn.link, commit.moment_us
    if command.release and command.guard.fence is not None:
        leases.clear(head)
        settle_ready(commit.tx, commit.standing)
    save_head(commit.tx, commit.standing)
    checkpoint = command.checkpoint
    return TurnCommitted(
        session=command.session,
        turn=command.turn,
        revision=turn.revision,
        leaf=_answered_leaf(commit),
        placed=tuple(commit.placed),
        checkpoint_ref=None if checkpoint is None else checkpoint.ref,
        checkpoint=None if checkpoint is None else checkpoint.manifest,
        affected=tuple(commit.affected),
        superseded=commit.superseded,
        created_us=commit.moment_us,
        over_budget=tuple(commit.over_budget),
    )


def _turn_row(commit: Commit) -> TurnRow:
    command, head = commit.command, commit.head
    usage = ledger.encode_usage(command.usage)
    effects = ledger.encode_effects(commit.effects)
    link = chain.link(
        head.link,
        revision=commit.revision,
        turn=command.turn,
        kind=command.kind,
        hash=command.hash,
        created_us=commit.moment_us,
        leaf=head.leaf,
        tip=None if command.branch == paths.MAIN else commit.leaf(),
        usage=ledger.digest(usage),
        effects=effects,
        nodes=commit.links,
    )
    return TurnRow(
        revision=commit.revision,
        id=command.turn,
        kind=command.kind,
        hash=command.hash,
        created_us=commit.moment_us,
        leaf=head.leaf,
        first_ord=head.ord - len(command.nodes) + 1 if command.nodes else 0,
        count=len(command.nodes),
        usage=usage,
        effects=effects,
        link=link,
    )


def _answered_leaf(commit: Commit) -> str | None:
    """Where the moved branch stands: the last one of the command's moves, else its own."""
    moves = commit.command.branches
    name = moves[-1].name if moves else commit.command.branch
    stored = paths.stored_leaf(commit.tx, commit.standing, name) or 0
    return paths.id_of(commit.tx, commit.number, commit.effective(stored))
