"""Nodes, messages, notes, values and branches: what is read of the graph, and notes."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands import Query, SessionCommand, SessionQuery
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.messages import Message, Visibility
from ledgerstone.records.nodes import Branch, Diff, Node, Note
from ledgerstone.records.reports import Vacuumed
from ledgerstone.records.sessions import Page


class NewValue(msgspec.Struct, frozen=True):
    """Bytes kept once per session, named by their SHA-256."""

    digest: str
    data: bytes


class NewNote(msgspec.Struct, frozen=True):
    """One note to keep or replace."""

    node: str
    key: str
    body: bytes
    format: str | None = None
    refs: tuple[str, ...] = ()


class AnnotateNodes(SessionCommand[int], frozen=True, kw_only=True):
    """Write notes; touches neither head, revision nor fence, and needs no existing node.

    Mode keep: the first body of a key stays. Mode replace: the last one wins.
    Answers how many notes were written.
    """

    notes: tuple[NewNote, ...]
    values: tuple[NewValue, ...] = ()
    mode: str = "keep"


class DropNotes(SessionCommand[int], frozen=True, kw_only=True):
    """Remove the notes of one node whose keys start with `prefix`."""

    node: str
    prefix: str


class VacuumSession(SessionCommand[Vacuumed], frozen=True, kw_only=True):
    """Erase the bodies and salts of tombstoned nodes and what nothing refers to any more.

    With `unreachable`, nodes that no branch can reach are erased as well. Only what was
    tombstoned (or written, for unreachable ones and notes) before `before_us` is touched.
    `values_only`: nodes and notes stay, only values that nothing refers to go.
    """

    unreachable: bool = False
    values_only: bool = False
    before_us: int | None = None
    notes_before_us: int = 0
    dry_run: bool = False


class ReadMessages(SessionQuery[list[Message]], frozen=True, kw_only=True):
    """Messages of one path, oldest first and complete.

    The path ends at `at`, or at the leaf of `branch`. `last`: only the newest n of it; `first`:
    only the oldest n. `after_seq`: only later positions. `deleted`: soft-deleted ones too.
    """

    branch: str = "main"
    at: str | None = None
    last: int | None = None
    first: int | None = None
    after_seq: int = 0
    deleted: bool = False


class CountMessages(SessionQuery[int], frozen=True, kw_only=True):
    """Live messages on a path."""

    branch: str = "main"


class ListMessages(SessionQuery[Page[Message]], frozen=True, kw_only=True):
    """A page of a path, or of everything one run wrote; of all messages or of one visibility.

    `after` is the (seq, ord) key of the last item of the page before.
    """

    branch: str = "main"
    run_id: str | None = None
    visibility: Visibility | None = None
    deleted: bool = False
    newest_first: bool = False
    limit: int = 50
    offset: int = 0
    after: tuple[int, int] | None = None
    total: bool = False


class ReadRange(SessionQuery[list[Message]], frozen=True, kw_only=True):
    """Messages of the main path by inclusive position."""

    first: int
    last: int


class GetMessage(Query[Message | None], frozen=True, kw_only=True):
    """By id, soft-deleted ones too; without a session, the oldest one of the tenant."""

    id: str
    session: str | None = None


class GetVersions(SessionQuery[list[Message]], frozen=True, kw_only=True):
    """Every version of a message, the original first."""

    id: str


class GetNode(SessionQuery[Node | None], frozen=True, kw_only=True):
    """One live node, with its notes and values on request."""

    id: str
    notes: bool = False
    resolve: bool = False


class FindNodes(Query[list[Node]], frozen=True, kw_only=True):
    """Live nodes of any session of the tenant with this id."""

    id: str


class ListNodes(Query[list[Node]], frozen=True, kw_only=True):
    """Live nodes of one session or of the tenant, by commit order or by id.

    Order: "ord", "-ord", "id", "-id". `after` is the (id, session, ord) of the last node of the
    chunk before; `before_id` starts below an id.
    """

    session: str | None = None
    kind: str | None = None
    label: str | None = None
    run_id: str | None = None
    meta_contains: dict[str, Any] | None = None
    before_id: str | None = None
    order: str = "ord"
    limit: int = 500
    after: tuple[str, str, int] | None = None
    notes: bool = False
    resolve: bool = False


class ReadPath(SessionQuery[list[Node]], frozen=True, kw_only=True):
    """Live nodes from the root to `at` or the leaf of `branch`; `last`: the newest n of a kind."""

    branch: str = "main"
    at: str | None = None
    kind: str | None = None
    last: int | None = None


class GetNotes(SessionQuery[dict[str, dict[str, Note]]], frozen=True, kw_only=True):
    """Notes of several nodes: node id, then key, in key order."""

    nodes: tuple[str, ...]
    prefix: str = ""


class GetValues(SessionQuery[dict[str, bytes]], frozen=True, kw_only=True):
    """Values by digest; missing ones are absent."""

    digests: tuple[str, ...]


class ListBranches(SessionQuery[list[Branch]], frozen=True, kw_only=True):
    """`main` first, then the others by name."""


class DiffBranches(SessionQuery[Diff], frozen=True, kw_only=True):
    """The last common node of two branches and what only each has, oldest first."""

    a: str
    b: str


class ListDrafts(SessionQuery[list[DraftRecord]], frozen=True, kw_only=True):
    """Unfinished messages of a session, oldest first."""
