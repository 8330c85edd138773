"""The message graph and its history. Handlers reach nodes through handlers/nodes.py only."""

from __future__ import annotations

import msgspec

from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.nodes import COMPACTION_LABEL
from ledgerstone.tables.table import Table


class NodeRow(msgspec.Struct, frozen=True, gc=False):
    """One node. `ord` is its place in the order of commits, `seq` its place on its path.

    `role` is null for what is no message; `kind` is null and `label` may be for what is one. `run`
    is the number of its run in the session. A node whose body was erased keeps its commitment.
    """

    number: int
    ord: int
    parent: int
    seq: int
    role: int | None
    kind: str | None
    label: str | None
    run: int | None
    meta: bytes | None
    format: str | None
    refs: str | None
    created_us: int
    id: str
    salt: bytes | None
    body: bytes | None
    deleted_us: int | None = None
    deleted_rev: int | None = None
    commitment: bytes | None = None


class TurnRow(msgspec.Struct, frozen=True, gc=False):
    """One commit: stamp against repetition, link of the hash chain, feed entry and usage.

    `usage_digest` is what the chain knows of usage that was deleted.
    """

    pos: int
    number: int
    revision: int
    id: str
    kind: str
    hash: bytes
    link: bytes
    created_us: int
    leaf: int
    first_ord: int
    count: int
    usage: bytes | None
    effects: bytes | None
    usage_digest: bytes | None = None


class BranchRow(msgspec.Struct, frozen=True, gc=False):
    """A named leaf besides `main`, which stands in the head."""

    number: int
    name: str
    leaf: int


class AmendmentRow(msgspec.Struct, frozen=True, gc=False):
    """A newer version of a message: everything that differs from its body since it was written."""

    number: int
    ord: int
    version: int
    revision: int
    created_us: int
    salt: bytes | None
    patch: bytes | None
    commitment: bytes


class NoteRow(msgspec.Struct, frozen=True, gc=False):
    """A small record beside a node, which may not exist yet: drafts are notes."""

    number: int
    node: str
    key: str
    format: str | None
    refs: str | None
    created_us: int
    body: bytes


class ContentRow(msgspec.Struct, frozen=True, gc=False):
    """A value: bytes kept once per session by their SHA-256."""

    number: int
    digest: str
    data: bytes


NODES = Table(
    "nodes",
    NodeRow,
    ("number", "ord"),
    packed=True,
    owner="number",
    sealed=("deleted_us", "deleted_rev"),
)
NODES_BY_ID = NODES.index("id", "id", "number", unique=True)
NODES_JUMPS = NODES.index(
    "jumps",
    "number",
    "ord",
    where="parent <> (key & 4294967295) - 1",
    holds=lambda row: row.parent != row.ord - 1,
)
"""Where a straight stretch of the graph begins: nodes whose parent is not their predecessor."""
NODES_COMPACTIONS = NODES.index(
    "compactions",
    "number",
    "ord",
    where=f"label = '{COMPACTION_LABEL}'",
    holds=lambda row: row.label == COMPACTION_LABEL,
)
NODES_BY_KIND = NODES.index("kind", "kind", "label", "id", present="kind")
NODES_BY_LABEL = NODES.index("label", "number", "kind", "label", "id", present="kind")

TURNS = Table("turns", TurnRow, ("pos",), serial=True, owner="number")
TURNS_BY_ID = TURNS.index("id", "id", "number", unique=True)
TURNS_BY_REVISION = TURNS.index("revision", "number", "revision", unique=True)

BRANCHES = Table("branches", BranchRow, ("number", "name"), owner="number", sealed=("leaf",))
AMENDMENTS = Table(
    "amendments",
    AmendmentRow,
    ("number", "ord", "version"),
    packed=True,
    owner="number",
    sealed=("revision", "created_us"),
)
NOTES = Table(
    "notes",
    NoteRow,
    ("number", "node", "key"),
    owner="number",
    sealed=("format", "refs", "created_us", "body"),
)
DRAFT_END = DRAFT_PREFIX[:-1] + chr(ord(DRAFT_PREFIX[-1]) + 1)
NOTES_DRAFTS = NOTES.index(
    "drafts",
    "number",
    "node",
    "key",
    where=f"key >= '{DRAFT_PREFIX}' and key < '{DRAFT_END}'",
    holds=lambda row: DRAFT_PREFIX <= row.key < DRAFT_END,
)
CONTENTS = Table("contents", ContentRow, ("number", "digest"), owner="number")
