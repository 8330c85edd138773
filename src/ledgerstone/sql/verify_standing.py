"""Verify, second half: does the head, and what hangs on it, stand where the history leads?"""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct, sha256
from ledgerstone.errors import Corrupt
from ledgerstone.records.reports import Defect
from ledgerstone.records.turns import Checkpoint
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_object
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.notes import split_refs
from ledgerstone.sql.paths import count_path, effective
from ledgerstone.sql.told import Told
from ledgerstone.sql.tx import Tx

_checkpoint = msgspec.json.Decoder(Checkpoint)


class Check(msgspec.Struct):
    """What is known while the session is walked from its first commit to its last."""

    session: str
    head: HeadRow
    told: Told
    turns: int = 0
    nodes: int = 0
    values: int = 0
    live: int = 0
    branched: int = 0
    committed_us: int = 0
    seqs: dict[int, int] = {}
    hidden: dict[int, int] = {}
    erased: set[int] = set()
    refs: set[str] = set()
    wrote: dict[str, tuple[int, int]] = {}
    defects: list[Defect] = []

    def defect(self, kind: str, where: str, detail: str = "") -> None:
        self.defects.append(Defect(self.session, kind, where, detail))


async def check_values(tx: Tx, check: Check) -> None:
    """Every value fits its name, and everything that is pointed at is there."""
    number = check.head.number
    present = set()
    for digest, _ in await tx.all("list_values", number):
        row = await tx.one("get_value", number, digest)
        present.add(digest)
        check.values += 1
        if row is None or sha256(row[0]) != digest:
            check.defect("value", digest, "the bytes do not fit their name")
    wanted = set(check.refs)
    for _, _, refs in await tx.all("note_refs", number):
        wanted.update(split_refs(refs))
    wanted |= await _checkpoint_refs(tx, check)
    for digest in sorted(wanted - present):
        check.defect("reference", digest, "points at a value that is not there")


async def _checkpoint_refs(tx: Tx, check: Check) -> set[str]:
    head, told = check.head, check.told
    if head.checkpoint != told.checkpoint and not (told.copied and told.checkpoint is None):
        check.defect("head", "checkpoint", "the history names another one")
    row = await tx.one("get_document", head.number, "checkpoint")
    if head.checkpoint is None or row is None:
        if head.checkpoint is not None or row is not None:
            check.defect("document", "checkpoint", "head and document disagree")
        return set()
    if sha256(row[0]) != head.checkpoint:
        check.defect("document", "checkpoint", "the manifest does not fit its name")
    try:
        manifest = decode_struct(_checkpoint, row[0])
    except (msgspec.MsgspecError, ValueError) as error:
        check.defect("body", "checkpoint", str(error))
        return {head.checkpoint}
    refs = (head.checkpoint, manifest.tool_state, manifest.plugins, manifest.execution)
    return {ref for ref in refs if ref is not None}


async def check_standing(tx: Tx, check: Check) -> None:
    """Revision, counters, ledger, documents, leaves."""
    head, told = check.head, check.told
    if head.revision != told.revision or head.link != told.link:
        check.defect("head", "revision", f"{head.revision}, last turn {told.revision}")
    if head.ord != max(check.seqs, default=0) or head.live != check.live:
        check.defect("head", "counters", f"ord {head.ord}, live {head.live} of {check.live}")
    if head.branched != check.branched:
        check.defect("head", "branched", f"{head.branched}, the nodes say {check.branched}")
    if ledger.read(head.ledger) != ledger.read(told.usage):
        check.defect("head", "ledger", "not the sum of what the turns used")
    await _check_documents(tx, check)
    if await _check_leaves(tx, check):
        await _check_main(tx, check)


async def _check_documents(tx: Tx, check: Check) -> None:
    number, told = check.head.number, check.told
    for name in ("config", "frames"):
        row = await tx.one("get_document", number, name)
        digest = None if row is None else sha256(row[0])
        unknown = told.copied and name not in told.documents
        if digest != told.documents.get(name) and not unknown:
            check.defect("document", name, "not what the history says")
    row = await tx.one("get_document", number, "state")
    try:
        state = read_object(None if row is None else row[0], "documents", "", "state")
    except Corrupt as error:
        check.defect("body", "state", error.reason)
        return
    if state != told.state and not told.copied:
        check.defect("document", "state", "not the sum of what the turns set")


async def _check_leaves(tx: Tx, check: Check) -> bool:
    """Whether every branch stands at a node that is there."""
    head, told = check.head, check.told
    rows: dict[str, int] = dict(await tx.all("list_branches", head.number))
    if head.named != len(rows):
        check.defect("head", "named", f"{head.named} branches, there are {len(rows)}")
    expected = {name: leaf for name, leaf in told.branches.items() if leaf >= 0}
    names = set(told.branches) if told.copied else set(told.branches) | set(rows)
    for name in sorted(names):
        if rows.get(name) != expected.get(name):
            found = f"stands at {rows.get(name)}, history says {expected.get(name)}"
            check.defect("leaf", f"branch {name}", found)
    if head.leaf != told.leaf:
        check.defect("leaf", "branch main", f"stands at {head.leaf}, history says {told.leaf}")
    lost = [name for name, leaf in [("main", head.leaf), *rows.items()] if _is_lost(check, leaf)]
    for name in lost:
        check.defect("leaf", f"branch {name}", "stands at a node that is not there")
    return not lost


def _is_lost(check: Check, leaf: int) -> bool:
    return bool(leaf) and leaf not in check.seqs


async def _check_main(tx: Tx, check: Check) -> None:
    head = check.head
    tip = await effective(tx, head, head.leaf)
    if tip != (head.tip, head.tip_seq):
        check.defect("leaf", "branch main", f"effective leaf {head.tip}, should be {tip[0]}")
    counted = await count_path(tx, head, head.tip)
    if counted != (head.messages, head.users, head.first_user):
        check.defect("count", "head", f"{head.messages} messages, the path has {counted[0]}")
