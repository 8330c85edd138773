"""One line of a journal: one command, as the rows it put and took away.

    pos   the position of the command in the whole store: 1, 2, 3, ...
    n     the place of the line in its own journal
    at    when, and `do` what
    after the line written before this one, as journal and n; so a line that is lost is missed
    base  this line stands for all lines of its journal before it
    drop  the journal that a purge removed, and how many lines it had; `drops` all those before
    feed  the last place in the feed that was given out: said when a journal with such places goes
    prev  the sum of the line before it in the same journal; `sum` covers everything else

A sum says that a line is whole, `prev` that it stands where it was written, `after` and `pos` that
none is missing at the end. Journals are numbered like their sessions; 0 is the store's own.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from ledgerstone.backends.file_rows import (
    AmendmentWire,
    BytesWire,
    HeadWire,
    NodeWire,
    NoteWire,
    SessionWire,
    TurnWire,
)
from ledgerstone.backends.file_rows_kept import (
    ArtifactWire,
    BlobWire,
    BudgetWire,
    EmbeddingWire,
    EvidenceWire,
    MemoryWire,
    SpaceWire,
    UploadWire,
)
from ledgerstone.backends.file_rows_shared import AttachmentWire, RunWire, StubWire
from ledgerstone.backends.file_rows_work import DeadWire, OutboxWire, ReadyWire, WorkWire
from ledgerstone.clock import to_datetime

VERSION = 1
SUM_BYTES = 8
STORE = 0
"""The number of the store's own journal."""

LINE_START = b'{"pos":'
_SUM_START = b',"sum":"'
_SUM_END = b'"}'
SUM_CHARS = 2 * SUM_BYTES
TAIL_BYTES = len(_SUM_START) + SUM_CHARS + len(_SUM_END)


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of every command; it stands first, where a person looks."""

    pos: int
    n: int
    at: str
    do: str
    v: int = 0
    tenant: str = ""
    session: str = ""
    number: int = STORE
    after: tuple[tuple[int, int], ...] = ()
    base: bool = False
    drop: tuple[int, int] | None = None
    drops: tuple[tuple[int, int], ...] = ()
    feed: int = 0


class Line(Said, frozen=True, kw_only=True, omit_defaults=True):
    """Then the rows, by table; `gone` has the keys of those that were removed."""

    row: SessionWire | None = None
    head: HeadWire | None = None
    turns: tuple[TurnWire, ...] = ()
    nodes: tuple[NodeWire, ...] = ()
    amendments: tuple[AmendmentWire, ...] = ()
    branches: tuple[tuple[str, int], ...] = ()
    documents: tuple[BytesWire, ...] = ()
    notes: tuple[NoteWire, ...] = ()
    values: tuple[BytesWire, ...] = ()
    work: tuple[WorkWire, ...] = ()
    ready: tuple[ReadyWire, ...] = ()
    dead_work: tuple[DeadWire, ...] = ()
    outbox: tuple[OutboxWire, ...] = ()
    session_runs: tuple[tuple[str, int, int], ...] = ()
    tickets: tuple[BytesWire, ...] = ()
    executions: tuple[BytesWire, ...] = ()
    counters: tuple[tuple[str, int], ...] = ()
    stubs: tuple[StubWire, ...] = ()
    runs: tuple[RunWire, ...] = ()
    attachments: tuple[AttachmentWire, ...] = ()
    artifacts: tuple[ArtifactWire, ...] = ()
    evidence: tuple[EvidenceWire, ...] = ()
    blobs: tuple[BlobWire, ...] = ()
    uploads: tuple[UploadWire, ...] = ()
    budgets: tuple[BudgetWire, ...] = ()
    memories: tuple[MemoryWire, ...] = ()
    embeddings: tuple[EmbeddingWire, ...] = ()
    spaces: tuple[SpaceWire, ...] = ()
    gone: dict[str, list[tuple[Any, ...]]] = {}
    prev: str
    sum: str = ""


class _Opening(msgspec.Struct):
    """The one thing that must be known before a line can be read."""

    v: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)
_openings = msgspec.json.Decoder(_Opening)


class BadLine(Exception):
    """The line does not hold. `torn`: its bytes are not whole, as a crash may leave them."""

    def __init__(self, reason: str, *, torn: bool = False) -> None:
        super().__init__(reason)
        self.torn = torn


def encode_line(line: Line) -> tuple[bytes, str]:
    """The line as it is written, newline included, and its sum."""
    covered = _encoder.encode(line)[:-1]
    found = sum_of(covered)
    return b"".join((covered, _SUM_START, found.encode(), _SUM_END, b"\n")), found


def decode_line(data: bytes) -> Line:
    """The line, its sum checked; BadLine when it is not what was written."""
    check_sum(data)
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(f"does not decode: {error}") from None


def check_sum(data: bytes) -> None:
    """BadLine when the line is cut short or was changed."""
    covered, tail = data[:-TAIL_BYTES], data[-TAIL_BYTES:]
    if not tail.startswith(_SUM_START) or not tail.endswith(_SUM_END):
        raise BadLine("is cut short: it does not end in its checksum", torn=True)
    if sum_in(data) != sum_of(covered):
        raise BadLine("does not fit its checksum", torn=True)


def version_of(data: bytes) -> int:
    """Which version of the format the first line of a journal is written in; 0 when unsaid."""
    try:
        return _openings.decode(data).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


def sum_in(data: bytes) -> str:
    """The sum that a line ends with."""
    end = len(data) - len(_SUM_END)
    return data[end - SUM_CHARS : end].decode("ascii", "replace")


def sum_of(data: bytes) -> str:
    """The checksum of a line or of a snapshot."""
    return blake2b(data, digest_size=SUM_BYTES).hexdigest()


def time_text(now_us: int) -> str:
    """RFC 3339, for people; empty when the clock is beyond the calendar."""
    try:
        return to_datetime(now_us).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except OverflowError:
        return ""
