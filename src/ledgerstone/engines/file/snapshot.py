"""A snapshot: all rows at one position, so that opening need not read every journal.

It is a cache: the journals are the truth, and a snapshot that is missing, damaged or older than
what it stands for is left aside. One that is whole is also a witness: no journal may be shorter
than it says. (Unless it was made at durability "process", while nobody knew what was on disk.)
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any

import msgspec

from ledgerstone.engines.file.codec import Put, put_of, rows_in
from ledgerstone.engines.file.folder import SNAPSHOT, Folder
from ledgerstone.engines.file.homes import Home
from ledgerstone.engines.file.journal import Journal
from ledgerstone.engines.file.lines import sum_of
from ledgerstone.engines.file.replay import Replay
from ledgerstone.engines.memory.rows import MemoryRows
from ledgerstone.tables.schema import BY_NAME
from ledgerstone.tables.sessions import PURGED
from ledgerstone.tables.table import Table

FORMAT = "ledgerstone snapshot"
VERSION = 2
DIGEST_BYTES = 16
PIECE_BYTES = 1 << 20
ROWS_PER_LINE = 200
CLOSED = "closed.json"


class Snapshot(msgspec.Struct, kw_only=True):
    """The first line: what the rows below stand for. `vouches`: all of it was on disk before.

    `dropped` and `mentions` are what the lines of the store's journal said: see Loaded. `number`
    and `serials` were given out last.
    """

    format: str = FORMAT
    version: int = VERSION
    pos: int
    last: tuple[int, int]
    vouches: bool
    journals: list[Journal]
    dropped: list[tuple[int, int]]
    mentions: list[tuple[str, Home]]
    number: int
    serials: dict[str, int]


class _End(msgspec.Struct):
    """The last line: how many lines came before it, and the digest of all of them."""

    lines: int
    digest: str


class _Rows(msgspec.Struct):
    """Any other line."""

    put: Put


class BadSnapshot(Exception):
    """It cannot be used; the text says why."""


_encoder = msgspec.json.Encoder()
_heads = msgspec.json.Decoder(Snapshot)
_rows = msgspec.json.Decoder(_Rows)
_ends = msgspec.json.Decoder(_End)


def encode_snapshot(rows: MemoryRows, head: Snapshot) -> list[bytes]:
    """The whole file, in pieces."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    pieces: list[bytes] = []
    gathered: list[bytes] = []
    size = lines = 0
    for text in _texts(rows, head):
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


def _texts(rows: MemoryRows, head: Snapshot) -> Iterator[bytes]:
    yield _encoder.encode(head)
    gone = {number for number, _ in head.dropped}
    for table, found in rows.tables.items():
        if table is PURGED:
            continue
        left = (row for row in found.values() if not is_swept(table, row, gone))
        while batch := list(islice(left, ROWS_PER_LINE)):
            yield _encoder.encode(_Rows(put_of((table, row) for row in batch)))


def is_swept(table: Table[Any], row: Any, gone: Container[int]) -> bool:
    """Whether the row is of a purged session, and only waits to be removed from memory."""
    return table.owner is not None and row.number in gone


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


def load_rows(body: bytes, replay: Replay, head: Snapshot) -> None:
    """Put all rows of the snapshot before all lines."""
    for text in body.split(b"\n")[1:]:
        try:
            found = _rows.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadSnapshot(f"a line does not decode: {error}") from None
        for table, key, row in rows_in(found.put):
            replay.put_row(table, key, row)
    replay.raise_number(head.number)
    for name, serial in head.serials.items():
        replay.raise_serial(BY_NAME[name], serial)


class Closed(msgspec.Struct, frozen=True):
    """The last line of the store, as position, journal and n."""

    pos: int
    last: tuple[int, int]
    sum: str = ""

    def signed(self) -> Closed:
        """The same with its checksum."""
        return Closed(self.pos, self.last, sum_of(msgspec.json.encode((self.pos, self.last))))


def write_closed(folder: Folder, pos: int, last: tuple[int, int]) -> None:
    """Remember where the store stands; OSError when it could not be written."""
    data = msgspec.json.encode(Closed(pos, last).signed()) + b"\n"
    folder.replace(folder.root, CLOSED, [data])


def read_closed(folder: Folder, warnings: list[str]) -> Closed | None:
    """What is remembered; None when nothing is, or when it is not whole."""
    if CLOSED not in folder.disk.names(folder.root):
        return None
    try:
        found = msgspec.json.decode(folder.disk.read(folder.root, CLOSED), type=Closed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if found is None or found != found.signed():
        warnings.append(f"{CLOSED} was not used: it is not whole")
        return None
    return found
