"""Reading one journal: every line is checked, and the first one that does not hold is named."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ledgerstone.engines.file.lines import (
    LINE_START,
    STORE,
    VERSION,
    BadLine,
    Line,
    check_sum,
    decode_line,
    version_of,
)
from ledgerstone.errors import Corrupt, SchemaTooNew

STORE_JOURNAL = "store.jsonl"
SESSIONS = "sessions"
JOURNAL_END = ".jsonl"
NUMBER_DIGITS = 10


def journal_name(number: int) -> str:
    """The name of a journal in its folder: from a number, never from an id."""
    return STORE_JOURNAL if number == STORE else f"{number:0{NUMBER_DIGITS}d}{JOURNAL_END}"


def journal_path(number: int) -> str:
    """The same, seen from the store's directory: for people."""
    name = journal_name(number)
    return name if number == STORE else f"{SESSIONS}/{name}"


def journal_number(name: str) -> int | None:
    """The number that a name in the folder of sessions stands for, or None."""
    digits = name.removesuffix(JOURNAL_END)
    if digits == name or not digits.isascii() or not digits.isdigit():
        return None
    number = int(digits)
    return number if number > 0 and journal_name(number) == name else None


class Journal(msgspec.Struct):
    """Where a journal ends: what its next line has to follow.

    lines   how many stand in the file        base   the position of the line that has all rows
    """

    number: int
    tenant: str = ""
    session: str = ""
    lines: int = 0
    n: int = 0
    pos: int = 0
    size: int = 0
    base: int = 0
    sum: str = ""


class Fault(msgspec.Struct, frozen=True):
    """The first thing in a journal that does not hold.

    `torn`: a line that is not whole, and no other line follows it. What a power cut leaves of one
    write may be anything, newlines too, but not the beginning of another line.
    """

    number: int
    line: int
    reason: str
    torn: bool = False

    @property
    def where(self) -> str:
        return f"{journal_path(self.number)} line {self.line}"

    def error(self) -> Corrupt:
        advice = "restore this file from a copy"
        return Corrupt("journal", journal_path(self.number), f"line {self.line}",
                       f"{self.reason}; {advice}")  # fmt: skip


class Scan(msgspec.Struct):
    """What one journal holds: good lines in a row, where they end, and what came then.

    `witnesses` are whole lines after the fault: they are not replayed, but they tell whose journal
    it is and what else there must be.
    """

    end: Journal
    lines: list[Line] = []
    fault: Fault | None = None
    witnesses: list[Line] = []


def scan(data: bytes, start: Journal) -> Scan:
    """Check all lines that follow `start`; `data` begins where `start` ends.

    SchemaTooNew when a newer version began this journal.
    """
    found = Scan(msgspec.structs.replace(start), [], None, [])
    if start.n == 0:
        _check_version(data)
    for piece, whole in _pieces(data):
        if found.fault is not None:
            if found.fault.torn and piece.startswith(LINE_START):
                found.fault = msgspec.structs.replace(found.fault, torn=False)
            found.witnesses.extend(_whole_lines(piece) if whole else [])
            continue
        try:
            if not whole:
                raise BadLine("is cut short: it has no end", torn=True)
            line = decode_line(piece)
            _check_place(found.end, line)
        except BadLine as error:
            found.fault = Fault(start.number, found.end.lines + 1, str(error), error.torn)
            if whole:  # Without its end it was never acknowledged, and speaks for nobody.
                found.witnesses.extend(_whole_lines(piece))
            continue
        found.lines.append(line)
        follow(found.end, line, line.sum, len(piece) + 1)
    return found


def _pieces(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Line by line without the newline; False for what stands after the last newline."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            yield data[at:], False
            return
        yield data[at:end], True
        at = end + 1


def _check_version(data: bytes) -> None:
    first = data.partition(b"\n")[0]
    try:
        check_sum(first)
    except BadLine:
        return  # A damaged line says nothing about versions.
    if version_of(first) > VERSION:
        raise SchemaTooNew("journal", version_of(first), VERSION)


def _check_place(end: Journal, line: Line) -> None:
    """BadLine when a whole line stands where it was not written."""
    if line.number != end.number:
        raise BadLine(f"belongs to {journal_path(line.number)}")
    if line.n != end.n + 1 + line.skips:
        raise BadLine(f"has n {line.n}, {end.n + 1} expected: lines are missing or out of order")
    if end.n == 0:
        return
    if line.prev != end.sum:
        raise BadLine("does not follow the line before it")
    if line.pos <= end.pos:
        raise BadLine(f"has position {line.pos}, which is not after {end.pos}")
    if end.number != STORE and (line.tenant, line.session) != (end.tenant, end.session):
        raise BadLine("is of another session")


def follow(end: Journal, line: Line, checksum: str, size: int) -> None:
    """Move the end of a journal behind one more line, which has this checksum and so many bytes."""
    if end.n == 0 and end.number != STORE:
        end.tenant, end.session = line.tenant, line.session
    if line.base:
        end.base = line.pos
    end.n, end.pos, end.sum = line.n, line.pos, checksum
    end.lines += 1
    end.size += size


def _whole_lines(piece: bytes) -> list[Line]:
    try:
        return [decode_line(piece)]
    except BadLine:
        return []
