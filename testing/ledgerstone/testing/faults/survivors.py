"""What a disk shows after the power came back: all that was flushed, and some of the rest.

A flush makes everything written to that file before it durable. What was written since may be
there or not, sector by sector: kept, lost, torn in the middle of one write, written in another
order, or garbled. Only the bytes of such a write are ever uncertain, never their neighbours:
SQLite relies on that (its "powersafe overwrite"), and so does every disk of today.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

SECTOR_BYTES = 512
MOODS = (0.0, 0.1, 0.5, 0.9, 1.0)
REORDERED = 0.5


class Written(msgspec.Struct, frozen=True):
    """Bytes that were handed to the disk."""

    offset: int
    data: bytes


class Cut(msgspec.Struct, frozen=True):
    """A new length."""

    size: int


Change = Written | Cut


class Kept(msgspec.Struct):
    """One file: what is durable, and what was asked for since, oldest first.

    `limbo` is what a failed flush left behind: the process still sees it, later flushes pass it
    over, and the power cut decides.
    """

    durable: bytearray
    pending: list[Change] = []
    limbo: list[Change] = []

    def flush(self) -> None:
        """Everything pending is durable from now on."""
        for change in self.pending:
            apply(self.durable, change)
            self.limbo = [old for old in self.limbo if not _meet(old, change)]
        self.pending = []

    def flush_failed(self) -> None:
        """The operating system forgets what it could not write, and says so only once."""
        self.limbo += self.pending
        self.pending = []

    def survivor(self, random: Random) -> bytes:
        """The content after a power cut."""
        content = bytearray(self.durable)
        for change in _fate([*self.limbo, *self.pending], random):
            apply(content, change)
        return bytes(content)


def apply(content: bytearray, change: Change) -> None:
    """Carry one change out; a gap before a write is zeros."""
    if isinstance(change, Cut):
        grow = change.size - len(content)
        if grow > 0:
            content.extend(bytes(grow))
        del content[change.size :]
        return
    end = change.offset + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.offset : end] = change.data


def _meet(one: Change, other: Change) -> bool:
    if isinstance(one, Cut) or isinstance(other, Cut):
        return True
    ends = (one.offset + len(one.data), other.offset + len(other.data))
    return one.offset < ends[1] and other.offset < ends[0]


def _fate(changes: list[Change], random: Random) -> list[Change]:
    """Which pieces reach the platter, and in which order."""
    keep = random.choice(MOODS)
    left = [piece for change in changes for piece in _pieces(change, keep, random)]
    if random.random() < REORDERED:
        random.shuffle(left)
    return left


def _pieces(change: Change, keep: float, random: Random) -> Iterator[Change]:
    if random.random() < keep:
        yield change
        return
    fate = random.choice(("lost", "torn", "scattered", "garbled"))
    if isinstance(change, Cut) or fate == "lost":
        return
    sectors = list(_sectors(change))
    if fate == "torn":
        yield from sectors[: random.randrange(len(sectors) + 1)]
    elif fate == "scattered":
        yield from (one for one in sectors if random.random() < 0.5)
    else:
        at = random.randrange(len(sectors))
        for n, one in enumerate(sectors):
            noise = random.randbytes(len(one.data))
            yield Written(one.offset, noise) if n == at else one


def _sectors(change: Written) -> Iterator[Written]:
    """The write, cut where the file's sectors end."""
    at = change.offset
    end = at + len(change.data)
    while at < end:
        stop = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        start = at - change.offset
        yield Written(at, change.data[start : start + stop - at])
        at = stop
