"""Sessions: make, change, list, delete, purge, copy."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ledgerstone.commands import Command, PageQuery, Query, SessionQuery
from ledgerstone.records.sessions import Head, Page, Picker, Receipt, Session, SessionView

_UNSET = msgspec.UNSET

Children: TypeAlias = Literal["reject", "detach", "cascade"]
ParentRule: TypeAlias = Literal["any", "no_circle", "exists"]
"""Of a new parent: not looked at; the session is not above it; it is also there, not deleted."""


class CreateSession(Command[Session], frozen=True, kw_only=True):
    """A new session. `ensure`: an existing one is returned as it is, instead of AlreadyExists."""

    session: Session
    document: bytes | None = None
    ensure: bool = False
    parent_rule: ParentRule = "any"


class PutSession(Command[Session], frozen=True, kw_only=True):
    """Create or overwrite the whole record; times are stored as given, when given."""

    session: Session
    document: bytes | msgspec.UnsetType | None = _UNSET
    parent_rule: ParentRule = "any"


class GetOrCreateSession(Command[Session], frozen=True, kw_only=True):
    """The newest live session of a user and app, or this new one."""

    session: Session
    parent_rule: ParentRule = "any"


class UpdateSession(Command[Session], frozen=True, kw_only=True):
    """Change some fields; what is UNSET stays. Does not move the revision."""

    id: str
    title: str | msgspec.UnsetType | None = _UNSET
    model: str | msgspec.UnsetType | None = _UNSET
    status: str | msgspec.UnsetType = _UNSET
    cwd: str | msgspec.UnsetType | None = _UNSET
    metadata: Any = _UNSET
    document: bytes | msgspec.UnsetType | None = _UNSET


class DeleteSession(Command[bool], frozen=True, kw_only=True):
    """Soft: hidden from lists, readable by id, closed for writing.

    `children`: live sessions that have it as their parent make it SessionHasChildren, lose it as
    their parent, or are deleted too, with all below them; None: they are not looked at.
    """

    id: str
    children: Children | None = None


class RestoreSession(Command[bool], frozen=True, kw_only=True):
    """Undo a soft delete."""

    id: str


class PurgeSession(Command[Receipt], frozen=True, kw_only=True):
    """First phase: invisible at once, a stub keeps the id's fence and incarnation.

    `children` as of DeleteSession, but deleted ones count as well; those of a cascade are deleted,
    and named in the receipt in an order in which they can be purged.
    """

    id: str
    children: Children | None = None
    keep_runs: bool = False
    retire: bool = False
    expected_revision: int | None = None
    expected_incarnation: int | None = None


class SweepPurged(Command[dict[str, int]], frozen=True, kw_only=True):
    """Second phase: remove at most `limit` rows of purged sessions; empty when all is gone."""

    limit: int


class CopySession(Command[Session], frozen=True, kw_only=True):
    """A new session with the rows of another one: all of them, or the path of one node.

    Rows are copied in one statement, ids kept. `whole` (copy): every node as it is, with notes,
    branches, values and documents. Otherwise (fork): the live path of `at` or of the branch,
    renumbered, with values, state and config. Leases, runs, usage and drafts never come along.
    """

    source: str
    target: Session
    whole: bool
    at: str | None = None
    branch: str = "main"
    turn: str


class GetSession(Query[Session | None], frozen=True, kw_only=True):
    """By id, soft-deleted ones too."""

    id: str


class GetHead(Query[Head | None], frozen=True, kw_only=True):
    """Where the session stands; None before its first commit."""

    id: str


class GetPicker(Query[Picker | None], frozen=True, kw_only=True):
    """First user message and counts, without reading the history."""

    id: str


class GetDocument(SessionQuery[bytes | None], frozen=True, kw_only=True):
    """One of the session's documents: document, state, config, frames, checkpoint."""

    name: str


class GetDocuments(Query[dict[str, bytes]], frozen=True, kw_only=True):
    """The document of one name of several sessions; those without one are absent.

    One statement, and as large as the caller makes it: ask for long lists in pieces.
    """

    sessions: tuple[str, ...]
    name: str


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are meant; None means any.

    `root`: only those without a parent. `under`: those below this session, at any depth.
    """

    user: str | None = None
    app: str | None = None
    status: str | None = None
    parent: str | None = None
    root: bool = False
    under: str | None = None
    id_prefix: str | None = None
    deleted: bool = False
    created_after_us: int | None = None
    created_before_us: int | None = None
    metadata_equals: bytes | None = None
    metadata_contains: dict[str, Any] | None = None


class ListSessions(PageQuery[Page[Session]], frozen=True, kw_only=True):
    """Ordered by updated, created or id; `after` is the key of the last item of the page before."""

    where: SessionFilter = SessionFilter()
    order: str = "-updated"
    after: tuple[int, str] | None = None


class CountSessions(Query[int], frozen=True, kw_only=True):
    """How many sessions fit the filter."""

    where: SessionFilter = SessionFilter()


class ReadSessionAt(SessionQuery[SessionView | None], frozen=True, kw_only=True):
    """The session as it was after an earlier commit."""

    revision: int
