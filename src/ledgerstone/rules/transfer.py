"""What a store holds, table by table, in a form that is the same for every backend.

Each table is described once, here: handlers read and write its columns in this order, the root is
a hash over them, and errors name rows by them. A row begins with its key; rows of a session's
tables begin with the id of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from ledgerstone.commands.transfer import Chunk, Row
from ledgerstone.records.reports import Defect
from ledgerstone.records.sessions import SESSION_FIELDS
from ledgerstone.records.transfer import TenantRoot

if TYPE_CHECKING:
    from hashlib import _Hash

FORMAT = b"ledgerstone root 1"


class Table(msgspec.Struct, frozen=True):
    """Columns of a row, of which the first `key` are its key.

    `rooted` False: what it says follows from other rows and may move by merely looking.
    """

    name: str
    key: int
    columns: tuple[str, ...]
    rooted: bool = True

    def key_of(self, row: Row) -> Row:
        return row[: self.key]


def _table(name: str, key: str, columns: str = "", *, rooted: bool = True) -> Table:
    keys = tuple(key.split())
    return Table(name, len(keys), (*keys, *columns.split()), rooted)


SESSIONS = _table(
    "sessions",
    "id",
    f"incarnation {' '.join(SESSION_FIELDS)} deleted_us "
    "revision ord leaf tip tip_seq messages users first_user live branched named amended fence "
    "owner token claimed_us expires_us updated_us link active_run open_run latest_run ledger "
    "checkpoint enqueued",
)
"""A session and its head; all but the runs' number, which each database counts itself."""
HEAD = SESSIONS.columns[SESSIONS.columns.index("revision") :]

TURNS = _table(
    "turns",
    "session revision",
    "id kind hash link created_us leaf first_ord count usage effects usage_digest",
)
"""In the order of the feed; where in the feed they stand is each store's own."""

IN_OWN_ORDER = (SESSIONS.name, TURNS.name)
"""Not in the order of their keys, but in the one they were made in, which can be seen: cursors over
these tables are the store's own numbers."""

BLOBS = _table("blobs", "ref", "size_bytes media_type created_us touched_us")
"""Where the bytes are is each store's own; the ref is their hash."""

BEFORE_SESSIONS = (
    _table("stubs", "id", "incarnation fence link retired"),
    _table("kept_runs", "id", "session body"),
    _table("memories", "namespace key", "value ttl_us created_us updated_us expires_us"),
    _table("spaces", "model", "dimension count changes drops"),
    _table("embeddings", "kind id", "model change vector session namespace metadata created_us"),
)
AFTER_SESSIONS = (
    _table("attachments", "session id", "uri intent_us committed_us"),
    _table("artifacts", "scope place", "id name version uri ref size_bytes created_us body"),
    _table("evidence", "session kind n", "created_us body"),
    _table("budgets", "id", "body since_us spent_nano spent_tokens"),
)

OF_A_SESSION = (
    _table(
        "nodes",
        "session ord",
        "parent seq role kind label run meta format refs created_us id salt body deleted_us "
        "deleted_rev commitment",
    ),
    _table("amendments", "session ord version", "revision created_us salt patch commitment"),
    _table("branches", "session name", "leaf"),
    _table("notes", "session node key", "format refs created_us body"),
    _table("contents", "session digest", "data"),
    _table("documents", "session name", "body"),
    _table("runs", "session id", "body"),
    _table("tickets", "session id", "body"),
    _table("executions", "session id", "body"),
    _table(
        "work",
        "session seq",
        "queue priority id source_key delivery slot merge available_us max_attempts backoff_us "
        "payloads enqueued_us attempts last_error claim claim_fence claim_token claim_owner "
        "claimed_us claim_expires_us superseded",
    ),
    _table("ended_work", "session seq", "id state ended_us reason body"),
    _table("work_sums", "session", "epoch done cancelled dead superseded"),
    _table("call_sums", "session", "calls succeeded failed duration_ms"),
    _table(
        "usage_days",
        "session day model provider source currency",
        "calls input output cached_input cache_write reasoning total cost_nano",
    ),
    _table("ready", "session queue", "priority due_us", rooted=False),
)
"""In the order they are read and written; `ready` last, since it is not compared."""

OF_A_TENANT = (*BEFORE_SESSIONS, SESSIONS, *AFTER_SESSIONS, BLOBS, TURNS)
_SESSION_TABLES = frozenset(table.name for table in OF_A_SESSION)
TABLES = {table.name: table for table in (*OF_A_TENANT, *OF_A_SESSION)}

NOT_MOVED = {
    "generation": "which log belongs to a SQLite file",
    "store": "the key of this store's own cursors",
    "heads": "part of a session's row",
    "purged": "sessions that are gone, with rows still to be removed",
    "uploads": "bytes on their way in or out of the source's own place",
    "chunks": "bytes, which travel as such and are proved by their ref",
}
"""Tables of a database that are no rows of their own here, and why."""


def unfinished_copy() -> Defect:
    """What verify says of a tenant whose copy has not ended."""
    step = "run `ledgerstone copy` again; if it was disturbed, remove this store first"
    return Defect("", "copy", "tenant", f"a copy into it was begun and has not ended: {step}")


_BEGIN_WITH_OWNER = frozenset(
    ("turns", "attachments", "artifacts", "evidence", "sessions", *(t.name for t in OF_A_SESSION))
)


def by_owner(chunk: Chunk) -> Iterator[Chunk]:
    """The rows of a chunk, those of one session, or of one scope, at a time."""
    if chunk.table not in _BEGIN_WITH_OWNER:
        yield chunk
        return
    after = chunk.after
    own_cursor = chunk.table not in _SESSION_TABLES
    for owner, group in groupby(chunk.rows, key=itemgetter(0)):
        rows = list(group)
        if not own_cursor and after is not None and after[0] != owner:
            after = None  # The page before ended with another session.
        yield Chunk(chunk.table, rows, after)
        after = TABLES[chunk.table].key_of(rows[-1]) if own_cursor else None


_encode = msgspec.msgpack.Encoder().encode


def _length_bytes(count: int) -> int:
    """How long the length of a list is."""
    if count < 16:
        return 1
    return 3 if count < 1 << 16 else 5


class Tally:
    """Counts and hashes of a tenant's rows, as they come by in their order."""

    def __init__(self) -> None:
        self._hashes: dict[str, _Hash] = {name: sha256() for name in TABLES}
        self.rows = dict.fromkeys(TABLES, 0)

    def add(self, table: str, rows: Iterable[Row]) -> int:
        """Take rows in; how many bytes they are."""
        found = rows if isinstance(rows, list) else list(rows)
        # An encoded list is its length, and then one encoded row after the other.
        data = memoryview(_encode(found))[_length_bytes(len(found)) :]
        self.rows[table] += len(found)
        if TABLES[table].rooted:
            self._hashes[table].update(data)
        return len(data)

    def differs(self, other: Tally) -> str | None:
        """The first table in which two of them are not the same; None: they are."""
        for name, table in TABLES.items():
            mine, theirs = self._hashes[name].digest(), other._hashes[name].digest()
            if table.rooted and (mine, self.rows[name]) != (theirs, other.rows[name]):
                return name
        return None

    def root(self, tenant: str) -> TenantRoot:
        """One hash for all of it."""
        found = sha256(FORMAT)
        counts = {}
        for name in sorted(TABLES):
            if TABLES[name].rooted:
                counts[name] = self.rows[name]
                found.update(_encode((name, self.rows[name], self._hashes[name].digest())))
        return TenantRoot(tenant=tenant, root=found.hexdigest(), rows=counts)


def root_of(tenants: Iterable[TenantRoot]) -> str:
    """One hash for several tenants, by name."""
    found = sha256(FORMAT)
    for one in sorted(tenants, key=lambda each: each.tenant):
        found.update(_encode((one.tenant, one.root)))
    return found.hexdigest()
