"""A node: the envelope that every entry of the message graph has, and a body of any kind."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone import ids
from ledgerstone.errors import InvalidValue

MESSAGE = "message"
COMPACTION_LABEL = "ledger.compaction"
NOTE_MODES = ("keep", "replace")


class Opaque(msgspec.Struct, frozen=True):
    """Foreign bytes that the core stores and never opens."""

    format: str
    data: bytes

    def __post_init__(self) -> None:
        ids.check_name(self.format, "format")
        if not isinstance(self.data, bytes):
            raise InvalidValue("data", f"bytes expected, got {type(self.data).__name__}")

    def __repr__(self) -> str:
        return f"<Opaque {self.format}, {len(self.data)} bytes>"


class Note(msgspec.Struct, frozen=True):
    """A small record beside a node, which may not exist yet."""

    node: str
    key: str
    body: Any
    created_us: int = 0
    values: tuple[str, ...] = ()


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the graph; a message is a node of kind `message`."""

    id: str = ""
    kind: str
    body: Any = None
    session: str = ""
    ord: int = 0
    seq: int = 0
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    label: str = ""
    run_id: str | None = None
    meta: dict[str, Any] = {}
    values: tuple[str, ...] = ()
    created_us: int = 0
    deleted_us: int | None = None
    notes: dict[str, Note] | None = None
    resolved: dict[str, bytes] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.ord} {self.kind} {self.id}>"


class Branch(msgspec.Struct, frozen=True):
    """A named leaf of the graph."""

    name: str
    leaf: str | None
    seq: int = 0


class Diff(msgspec.Struct, frozen=True):
    """Where two branches part: the last common node, and what only each of them has."""

    common: str | None
    only_a: list[Node]
    only_b: list[Node]
