"""Which log belongs to which file, by content.

SQLite overlays a log on whatever file lies beside it. So the file carries a mark, a state and a
random id, in a row on a page of its own, and so do the frames of the log that rewrite that page:

    OPEN    written to the log right before a checkpoint, hence what the file alone says while a
            store is open
    LOGGED  written to the log right after it, with the same id: what file and log together say
    CLOSED  written before the last checkpoint, after which the log is deleted

The mark also repeats the schema number of the file's header, which SQLite changes in every copy
it makes: so a copy made in the middle of a checkpoint is known as well, and counts as LOGGED.

A log was begun on the state that the file has when it names the file's id. A file that says
LOGGED is complete without a log: a copy that SQLite made of an open store, or one whose log
another SQLite program moved into it. Beside its log it says so after a checkpoint that a reader
kept from moving the newer marks. docs/adr/0007 has the whole argument.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

import apsw

from ledgerstone.errors import NotADatabase

APPLICATION_ID = 0x4C444753  # "LDGS"
MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
CLOSED, OPEN, LOGGED = range(3)
MARK_PAGE = 2
PAGE_BYTES = 4096
ID_BYTES = 16
LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
LOG_MAGIC = 0x377F0682
MARK_BYTES = 1 + 4 + ID_BYTES
# One row of one blob: length of the record, row number, length of its header, type of the blob.
_CELL = bytes((2 + MARK_BYTES, 1, 2, 12 + 2 * MARK_BYTES))
_LEAF = 0x0D

LogMismatch = Literal["gone", "foreign", "copy", "damaged"]


class Mark(NamedTuple):
    """What the row says."""

    state: int
    id: bytes
    schema: int = 0

    def stored(self) -> bytes:
        return struct.pack(">BI", self.state, self.schema) + self.id


def new_mark(state: int, schema: int = 0) -> Mark:
    """A mark that no file and no log had before."""
    return Mark(state, apsw.randomness(ID_BYTES), schema)


def parse_page(page: bytes) -> Mark | None:
    """The mark on a page; None when it is not the page of the mark."""
    if len(page) < 10 or page[0] != _LEAF or page[3:5] != b"\0\1":
        return None
    start = int.from_bytes(page[8:10], "big")
    body = page[start + len(_CELL) : start + len(_CELL) + MARK_BYTES]
    if page[start : start + len(_CELL)] != _CELL or len(body) != MARK_BYTES or body[0] > LOGGED:
        return None
    return Mark(body[0], bytes(body[5:]), int.from_bytes(body[1:5], "big"))


def read_mark(path: str, vfs: str | None = None) -> Mark | None:
    """What the file says without its log; None when it says nothing. NotADatabase for another's.

    The schema number is that of the header: a copy made by SQLite has another one than its log.
    Through SQLite's own file layer: closing any other descriptor of the file would drop the POSIX
    locks that connections of this process hold on it.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    file = apsw.VFSFile(vfs or "", path, [flags, 0])
    try:
        header = file.xRead(HEADER_BYTES, 0)
        owner = int.from_bytes(header[68:72], "big")
        if header.startswith(MAGIC) and len(header) == HEADER_BYTES and owner != APPLICATION_ID:
            raise NotADatabase(
                f"{path} is a database of another program and was not touched; give that of a store"
            )
        page_bytes = int.from_bytes(header[16:18], "big") or PAGE_BYTES
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        mark = parse_page(file.xRead(page_bytes, (MARK_PAGE - 1) * page_bytes))
        if mark is None:
            return None
        schema = int.from_bytes(header[40:44], "big")
        copied = mark.state == OPEN and mark.schema != schema
        return Mark(LOGGED if copied else mark.state, mark.id, schema)
    finally:
        file.xClose()


class Frame(NamedTuple):
    """One page in a log."""

    page: int
    salts: bytes
    mark: Mark | None


class Log:
    """A log as it lies there; never written. A context manager."""

    def __init__(self, path: str) -> None:
        self._file = -1
        self._count = 0
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        self._header = os.pread(self._file, LOG_HEADER_BYTES, 0)
        size = int.from_bytes(self._header[8:12], "big")
        sane = 512 <= size <= 65536 and size & (size - 1) == 0
        self._page_bytes = size if sane else PAGE_BYTES
        self._salts = self._header[16:24]
        content = os.fstat(self._file).st_size - LOG_HEADER_BYTES
        self._count = max(0, content) // (FRAME_HEADER_BYTES + self._page_bytes)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)

    @property
    def empty(self) -> bool:
        """Whether it is not there, or has no frame."""
        return self._count == 0

    def frames(self) -> Iterator[Frame]:
        """All frames, also those of an earlier log that was overwritten from its beginning."""
        step = FRAME_HEADER_BYTES + self._page_bytes
        for start in range(LOG_HEADER_BYTES, LOG_HEADER_BYTES + self._count * step, step):
            header = os.pread(self._file, FRAME_HEADER_BYTES, start)
            page, mark = int.from_bytes(header[:4], "big"), None
            if page == MARK_PAGE:
                mark = parse_page(os.pread(self._file, self._page_bytes, start + len(header)))
            yield Frame(page, header[8:16], mark)

    def live(self) -> Iterator[Frame]:
        """The frames that SQLite would read; more at most, when the end of the log is torn."""
        if self._begins_well():
            for frame in self.frames():
                if frame.salts != self._salts:
                    return
                yield frame

    def is_torn(self) -> bool:
        """Whether its beginning is damaged although content follows: SQLite would ignore it all.

        The first frame of a log is flushed before the second one is written. A power cut may
        leave zeros where a first frame was to be; no page has the number 0.
        """
        if self._begins_well() or self._begins_anew():
            return False
        return any(
            frame.salts == self._salts and frame.page not in (0, MARK_PAGE)
            for frame in self.frames()
        )

    def is_moved_to(self, mark: Mark | None) -> bool:
        """Whether it ends with what the file says: all of it is there, or on its way.

        Only then is a log begun anew, and its header written again; a power cut in that very write
        may leave anything in the place of it.
        """
        last: Mark | None = None
        for frame in self.frames():
            if frame.salts != self._salts:
                break
            last = frame.mark
        return last is not None and last == mark

    def _begins_well(self) -> bool:
        sums = _header_sums(self._header) if self._count else None
        if sums is None:
            return False
        frame = os.pread(self._file, FRAME_HEADER_BYTES + self._page_bytes, LOG_HEADER_BYTES)
        if frame[8:16] != self._salts:
            return False
        sums = _checksum(self._header, frame[:8] + frame[FRAME_HEADER_BYTES:], sums)
        return struct.pack(">2I", *sums) == frame[16:24]

    def _begins_anew(self) -> bool:
        """Whether the write of a new header was cut off after its sequence number.

        SQLite begins a log anew when all of it is in the file. The other halves need no look: when
        the salts are new, no frame has them.
        """
        number = int.from_bytes(self._header[12:16], "big")
        if not number:
            return False
        before = struct.pack(">I", number - 1)
        return _header_sums(self._header[:12] + before + self._header[16:]) is not None


def _header_sums(header: bytes) -> tuple[int, int] | None:
    """The checksum of a log's header; None when the header does not say the same."""
    if int.from_bytes(header[:4], "big") & ~1 != LOG_MAGIC:
        return None
    sums = _checksum(header, header[:24], (0, 0))
    return sums if struct.pack(">2I", *sums) == header[24:32] else None


def _checksum(header: bytes, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """As SQLite's file format says (4.2, checksum algorithm), in the byte order of this log."""
    one, two = sums
    order = ">" if header[3] & 1 else "<"
    for even, odd in struct.iter_unpack(order + "2I", data):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two


def find_log_mismatch(mark: Mark | None, log: Log) -> LogMismatch | None:
    """Why this log cannot be used with a file that says this; None when it can.

    gone     the file was not closed, and its log is missing or empty
    foreign  the log was begun on another file, or on another state of this one
    copy     the file is a copy that was made while the store with this log was open
    damaged  the log cannot be read from its beginning
    """
    if log.empty:
        return "gone" if mark is not None and mark.state == OPEN else None
    if log.is_torn() and not log.is_moved_to(mark):
        return "damaged"
    first = next(log.live(), None)
    if mark is None:
        # A checkpoint was cut off in the middle of this very page; then the log names it.
        begun = any(one.mark and one.mark.state != LOGGED for one in log.live())
        return None if begun or first is None else "foreign"
    if first is None:
        # It was about to begin anew: SQLite ignores what is left of the old one.
        left = mark.state != OPEN or any(one.mark == mark for one in log.frames())
        return None if left else "damaged"
    marks = [one.mark for one in log.live() if one.mark]
    named = any(one.id == mark.id for one in marks)
    if mark.state == OPEN:
        return None if named else "foreign"
    if all(one.page == MARK_PAGE for one in log.live()):
        return None  # An opening was interrupted.
    settled = [(one.id, one.schema) for one in marks if one.state != OPEN]
    if settled[-1:] == [(mark.id, mark.schema)]:
        return None  # A reader, or another program, made the file say what its log says.
    return "copy" if named else "foreign"
