"""What replacing a list or a graph answers, and what makes the next one cheap."""

from __future__ import annotations

import msgspec

from ledgerstone.records.messages import Message
from ledgerstone.records.turns import Placed


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
