"""A snapshot: all rows at one position, so that opening need not read every journal.

It is a cache: the journals are the truth, and a snapshot that is missing, damaged or older than
what it stands for is left aside. One that is whole is also a witness: no journal may be shorter
than it says. (Unless it was made at durability "process", while nobody knew what was on disk.)
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from ledgerstone.backends.file_changes import rows_fields, rows_of
from ledgerstone.backends.file_folder import SNAPSHOT, Folder
from ledgerstone.backends.file_journal import Journal
from ledgerstone.backends.file_lines import Line
from ledgerstone.backends.file_replay import LAST_FEED, put_common, put_own
from ledgerstone.backends.file_shared import SHARED
from ledgerstone.backends.file_wire import Mention
from ledgerstone.model.state import Change, State
from ledgerstone.model.tables import ABSENT

FORMAT = "ledgerstone snapshot"
VERSION = 1
DIGEST_BYTES = 16
PIECE_BYTES = 1 << 20


class Snapshot(msgspec.Struct, kw_only=True):
    """The first line: what the rows below stand for. `vouches`: all of it was on disk before.

    `dropped` and `mentions` are what the lines of the store's journal said: see Loaded.
    """

    format: str = FORMAT
    version: int = VERSION
    pos: int
    last: tuple[int, int]
    vouches: bool
    journals: list[Journal]
    dropped: list[tuple[int, int]]
    mentions: list[Mention]


class _End(msgspec.Struct):
    """The last line: how many lines came before it, and the digest of all of them."""

    lines: int
    digest: str


class BadSnapshot(Exception):
    """It cannot be used; the text says why."""


_encoder = msgspec.json.Encoder()
_heads = msgspec.json.Decoder(Snapshot)
_lines = msgspec.json.Decoder(Line)
_ends = msgspec.json.Decoder(_End)


def encode_snapshot(state: State, head: Snapshot) -> list[bytes]:
    """The whole file, in pieces."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    pieces: list[bytes] = []
    gathered: list[bytes] = []
    size = lines = 0
    for text in _texts(state, head):
        data = text + b"\n"
        digest.update(data)
        gathered.append(data)
        size += len(data)
        lines += 1
        if size >= PIECE_BYTES:
            pieces.append(b"".join(gathered))
            gathered, size = [], 0
    end = _encoder.encode(_End(lines, digest.hexdigest())) + b"\n"
    return [*pieces, b"".join([*gathered, end])]


def _texts(state: State, head: Snapshot) -> Iterator[bytes]:
    yield _encoder.encode(head)
    pos = head.pos
    said: dict[str, Any] = {"n": 0, "at": "", "do": "", "prev": ""}
    tables = state.tables()
    shared = (Change(name, key, ABSENT, row) for name in SHARED for key, row in tables[name].scan())
    feed = state.counters.get(LAST_FEED) or 0
    yield _encoder.encode(Line(pos=pos, feed=feed, **said, **rows_fields(shared)))
    for journal in head.journals:
        if not journal.session:
            continue
        rows = rows_of(state, journal.tenant, journal.session, journal.number)
        own = (change for change in rows if change.table not in SHARED)
        line = Line(
            pos=pos,
            tenant=journal.tenant,
            session=journal.session,
            number=journal.number,
            **said,
            **rows_fields(own),
        )
        yield _encoder.encode(line)


def read_snapshot(folder: Folder) -> bytes | None:
    """The bytes of the snapshot, checked; None when there is none, BadSnapshot when it is bad."""
    if SNAPSHOT not in folder.disk.names(folder.root):
        return None
    try:
        data = folder.disk.read(folder.root, SNAPSHOT)
    except OSError as error:
        raise BadSnapshot(f"it cannot be read: {error.strerror}") from error
    body, _, end = data.removesuffix(b"\n").rpartition(b"\n")
    try:
        said = _ends.decode(end)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadSnapshot("it is cut short") from None
    if blake2b(body + b"\n", digest_size=DIGEST_BYTES).hexdigest() != said.digest:
        raise BadSnapshot("it does not fit its checksum")
    return body


def decode_head(body: bytes) -> Snapshot:
    """What the snapshot stands for; BadSnapshot when another version wrote it."""
    try:
        head = _heads.decode(body.partition(b"\n")[0])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadSnapshot("its first line does not decode") from None
    if head.format != FORMAT or head.version != VERSION:
        raise BadSnapshot(f"it has version {head.version}, this code knows {VERSION}")
    return head


def load_rows(body: bytes, state: State) -> None:
    """Put all rows of the snapshot into an empty state."""
    at = body.find(b"\n") + 1
    while 0 < at < len(body):
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end
        try:
            line = _lines.decode(body[at:end])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadSnapshot(f"a line does not decode: {error}") from None
        put_own(state, line)
        put_common(state, line)
        at = end + 1
