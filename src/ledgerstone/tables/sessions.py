"""Sessions: the wide row, the head that every commit moves, and what stays of a purged one."""

from __future__ import annotations

import msgspec

from ledgerstone.rules.rows import HeadRow as HeadFields
from ledgerstone.tables.table import Table


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """What is rarely written; `number` stands for (tenant, id) in all other tables."""

    number: int
    tenant: str
    id: str
    user: str | None
    app: str
    title: str | None
    model: str | None
    cwd: str | None
    status: str
    metadata: bytes | None
    parent: str | None
    cause: bytes | None
    created_us: int
    recency: int
    """updated_us of the head, rounded (rules.rows.RECENCY_SHIFT): the order of lists."""


class Head(HeadFields, gc=False):
    """What every commit checks and moves. The one row that handlers change in place: a copy of it.

    `touched_us` is the time of the last change that was no commit.
    """

    touched_us: int = 0


class StubRow(msgspec.Struct, frozen=True, gc=False):
    """What stays of a purged session. The one with an empty id says where new fences begin."""

    tenant: str
    id: str
    incarnation: int
    fence: int
    link: bytes
    retired: int


class PurgedRow(msgspec.Struct, frozen=True, gc=False):
    """A session that is gone, and of which rows are still to be removed."""

    tenant: str
    number: int


class DocumentRow(msgspec.Struct, frozen=True, gc=False):
    """A document of a session: document, state, config, frames or checkpoint."""

    number: int
    name: str
    body: bytes


SESSIONS = Table(
    "sessions",
    SessionRow,
    ("number",),
    sealed=(
        "tenant", "id", "user", "app", "title", "model", "cwd", "status", "metadata", "parent",
        "cause", "created_us",
    ),
)  # fmt: skip
SESSIONS_BY_ID = SESSIONS.index("id", "tenant", "id", unique=True)
SESSIONS_BY_RECENCY = SESSIONS.index("recency", "tenant", "recency")
SESSIONS_BY_USER = SESSIONS.index("user", "tenant", "user", "recency", present="user")
SESSIONS_BY_CREATION = SESSIONS.index("created", "tenant", "created_us", "id")
SESSIONS_BY_PARENT = SESSIONS.index("parent", "tenant", "parent", "id", present="parent")

HEADS = Table(
    "heads",
    Head,
    ("number",),
    owner="number",
    sealed=(
        "incarnation", "deleted_us", "fence", "owner", "token", "claimed_us", "expires_us",
        "enqueued", "touched_us",
    ),
)  # fmt: skip

DOCUMENTS = Table("documents", DocumentRow, ("number", "name"), owner="number", sealed=("body",))

STUBS = Table(
    "stubs", StubRow, ("tenant", "id"), sealed=("incarnation", "fence", "link", "retired")
)
PURGED = Table("purged", PurgedRow, ("tenant", "number"))
