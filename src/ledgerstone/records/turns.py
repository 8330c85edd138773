"""A turn: one atomic commit, and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.records.messages import Message
from ledgerstone.records.usage import UsageEntry


class Placed(msgspec.Struct, frozen=True, gc=False):
    """Where a commit put one node."""

    id: str
    ord: int
    seq: int
    parent: str | None
    created_us: int


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The manifest of a turn's state: references to values kept once by content."""

    schema: int = 1
    turn_state: dict[str, Any] = {}
    tool_state: str | None = None
    plugins: str | None = None
    plugins_revision: int | None = None
    execution: str | None = None


class HydratedCheckpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint with its values: given ones are stored, absent ones keep their reference."""

    turn_state: dict[str, Any] = {}
    tool_state_ref: str | None = None
    tool_state: Any = None
    plugins_ref: str | None = None
    plugins: Any = None
    plugins_revision: int | None = None
    execution_ref: str | None = None
    execution: bytes | None = None


class TurnCommitted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer of a commit; a repeated turn gets the first answer again.

    `over_budget` names the budgets that it went beyond, or whose currency does not know its cost.
    """

    session: str
    turn: str
    revision: int
    leaf: str | None
    placed: tuple[Placed, ...] = ()
    checkpoint_ref: str | None = None
    checkpoint: Checkpoint | None = None
    affected: tuple[str, ...] = ()
    superseded: int = 0
    created_us: int = 0
    replayed: bool = False
    over_budget: tuple[str, ...] = ()
    messages: list[Message] = []


class TurnInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a session's commit history."""

    session: str
    turn: str
    kind: str
    revision: int
    hash: str
    link: str
    leaf: str | None
    nodes: int
    created_us: int
    usage: list[UsageEntry] = []


class Base(msgspec.Struct, frozen=True):
    """A list as its writer left it: the leaf, and id and body digest of every message.

    Given to the next replace, it saves reading the list; if somebody else wrote meanwhile, the
    leaf has moved and the list is read after all.
    """

    session: str
    branch: str
    leaf: str | None
    ids: tuple[str, ...]
    digests: tuple[bytes, ...]


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """How a list became another one: kept a prefix, superseded the rest, added the new ones."""

    kept: int
    superseded: int
    added: list[Message]
    base: Base
    revision: int


class ReplacedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """How a graph became another one: how many nodes stayed and went, and where new ones stand."""

    kept: int
    removed: int
    added: tuple[Placed, ...]
    leaf: str | None
    revision: int
