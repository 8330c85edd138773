"""A session: one conversation of one user of one tenant, and its head."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar, get_args

import msgspec

from ledgerstone.clock import to_datetime
from ledgerstone.errors import InvalidValue
from ledgerstone.records import Created
from ledgerstone.records.leases import Lease
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import Branch, Node
from ledgerstone.records.usage import UsageEntry

T = TypeVar("T")

Status = Literal["unknown", "active", "paused", "completed", "error"]
STATUSES: tuple[Status, ...] = get_args(Status)
ROOT_SESSION = "root"


class Cause(msgspec.Struct, frozen=True):
    """What in the parent session made this one: a tool call, a turn, a person."""

    kind: str
    id: str


class Session(Created, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The wide, rarely written part of a session; lists read only this."""

    id: str
    tenant: str = "default"
    user: str | None = None
    app: str = ""
    title: str | None = None
    model: str | None = None
    cwd: str | None = None
    status: Status = "unknown"
    metadata: Any = None
    parent: str | None = None
    cause: Cause | None = None
    incarnation: int = 1
    created_us: int = 0
    updated_us: int = 0
    deleted_us: int | None = None
    active_run: str | None = None
    open_run: str | None = None
    latest_run: str | None = None

    @property
    def updated_at(self) -> datetime:
        return to_datetime(self.updated_us)

    @property
    def parent_session_id(self) -> str | None:
        return self.parent

    def __repr__(self) -> str:
        return f"<Session {self.id}{' (deleted)' if self.deleted_us else ''}>"


_KEPT_BY_THE_STORE = (
    "id", "tenant", "incarnation", "updated_us", "deleted_us", "active_run", "open_run",
    "latest_run",
)  # fmt: skip
SESSION_FIELDS = tuple(name for name in Session.__struct_fields__ if name not in _KEPT_BY_THE_STORE)
"""What a caller may say of a session when it is made."""


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a session stands; None is returned before its first commit."""

    session: str = ROOT_SESSION
    revision: int = 0
    incarnation: int = 1
    leaf: str | None = None
    effective_leaf: str | None = None
    seq: int = 0
    messages: int = 0
    user_messages: int = 0
    nodes: int = 0
    fence: int = 0
    lease: Lease | None = None
    branches: list[Branch] = []
    ledger: list[UsageEntry] = []
    config: Any = None
    frames: list[Any] = []
    current_frame: str = ""
    checkpoint: str | None = None
    link: str = ""
    updated_us: int = 0


class Picker(msgspec.Struct, frozen=True):
    """What a list of sessions shows, read without the history."""

    session: str
    cwd: str | None
    parent: str | None
    cause: Cause | None
    first_user_message: str | None
    user_messages: int

    @property
    def parent_session_id(self) -> str | None:
        return self.parent


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A bounded piece of a list, and how to get the next one.

    `limit` is the one that was applied, which may be less than was asked for.
    """

    items: list[T]
    has_more: bool = False
    cursor: str | None = None
    total: int | None = None
    limit: int = 0

    def __iter__(self) -> Any:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge removed; `children` are the sessions below it that went with it."""

    session: str
    children: list[str] = []
    existed: bool = False
    incarnation: int = 0
    fence: int = 0
    link: str = ""
    retired: bool = False
    removed: dict[str, int] = {}


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it was after one of its commits."""

    session: str
    revision: int
    leaf: str | None
    messages: list[Message]
    state: dict[str, Any]
    complete: bool = True
    created_us: int = 0


class Graph(msgspec.Struct, frozen=True):
    """Nodes of a session and the leaf they are read for."""

    nodes: list[Node]
    leaf: str | None


class SeqRange(msgspec.Struct, frozen=True):
    """An inclusive range of positions, from 1."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if type(self.first) is not int or type(self.last) is not int:
            raise InvalidValue("range", "integers expected")
        if self.first < 1:
            raise InvalidValue("range.first", "positions start at 1")
        if self.first > self.last:
            raise InvalidValue("range", f"{self.first} is after {self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1
