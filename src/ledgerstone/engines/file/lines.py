"""One line of a journal: one change set, as the rows it put and the keys it took away.

    pos     the position of the change set in the whole store: 1, 2, 3, ...
    n       the place of the line in its own journal
    at      when, and `do` what
    after   the line written before this one, as journal and n; so a line that is lost is missed
    skips   how many lines before this one were left out, since nothing of them is there any more
    base    this line has all rows of its journal; those before it count no more
    drops   journals that purges removed, and how many lines each had
    erases  the session of which bytes have to leave the disk after this line
    feed    the last place in the feed that was given out: said when a journal with such places goes
    put     rows by table, and `gone` keys by table: those of the session, or of nobody
    parts   the same in the store's journal, for each session that the change set concerns
    prev    the sum of the line before it in the same journal; `sum` covers everything else

A sum says that a line is whole, `prev` that it stands where it was written, `after` and `pos` that
none is missing at the end. Journals are numbered like their sessions; 0 is the store's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from ledgerstone.clock import to_datetime
from ledgerstone.engines.file.codec import Keys, Put
from ledgerstone.engines.file.homes import Home

VERSION = 2
SUM_BYTES = 8
STORE = 0
"""The number of the store's own journal."""

LINE_START = b'{"pos":'
_SUM_START = b',"sum":"'
_SUM_END = b'"}'
SUM_CHARS = 2 * SUM_BYTES
TAIL_BYTES = len(_SUM_START) + SUM_CHARS + len(_SUM_END)


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a line of the store's journal says of one session: its number, or its name."""

    number: int = 0
    session: str = ""
    put: Put | None = None
    gone: Keys = {}

    @property
    def home(self) -> Home:
        return Home(self.number, self.session)


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person looks for stands first."""

    pos: int
    n: int
    at: str
    do: str
    v: int = 0
    tenant: str = ""
    session: str = ""
    number: int = STORE
    after: tuple[tuple[int, int], ...] = ()
    skips: int = 0
    base: bool = False
    drops: tuple[tuple[int, int], ...] = ()
    erases: int = 0
    feed: int = 0
    put: Put | None = None
    gone: Keys = {}
    parts: tuple[Part, ...] = ()
    prev: str
    sum: str = ""

    def all_parts(self) -> Iterator[Part]:
        """What it says of everybody."""
        yield Part(number=self.number, put=self.put, gone=self.gone)
        yield from self.parts


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


def changed(line: Line, **fields: Any) -> Line:
    """The line with other fields, and without a sum."""
    return msgspec.structs.replace(line, sum="", **fields)


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
