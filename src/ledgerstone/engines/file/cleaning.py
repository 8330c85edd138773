"""The store's journal without what has to leave the disk.

Besides what purges and vacuums took away, rows go that a later line of this journal put again or
removed: nothing reads them any more. Lines of which nothing is left go too, except the last.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.engines.file.codec import Keys, keys_in, put_of, rows_in
from ledgerstone.engines.file.homes import LOOSE, ONLY_SHARED, Home
from ledgerstone.engines.file.lines import VERSION, Line, Part, changed, encode_line
from ledgerstone.engines.file.replay import Outdated
from ledgerstone.tables.table import Key, Table


class Cleaned(msgspec.Struct):
    """The journal as it will be, its lines, and the sum of the last one."""

    data: list[bytes]
    lines: list[Line]
    sum: str

    @property
    def size(self) -> int:
        return sum(map(len, self.data))


def clean(
    lines: list[Line],
    outdated: Outdated,
    gone: tuple[str, str] | None,
    feed: int,
    unerased: set[int],
) -> Cleaned:
    """The lines without what counts no more.

    `gone` names a session of which nothing stays; `feed` is the last place in the feed. Those in
    `unerased` wait until their own journals were written anew.
    """
    kept: list[Line] = []
    later: set[tuple[Table[Any], Key]] = set()
    for line in reversed(lines):
        parts = [_left(line, part, outdated, gone, later) for part in reversed([*line.all_parts()])]
        own, *others = reversed(parts)
        erases = line.erases if line.erases in unerased else 0
        if not kept or own or any(others) or erases:
            own = own or Part()
            rest = tuple(part for part in others if part is not None)
            left: dict[str, Any] = {"put": own.put, "gone": own.gone, "parts": rest}
            kept.append(changed(line, erases=erases, drops=(), session="", feed=0, **left))
    kept.reverse()
    last = kept[-1]
    drops = tuple(sorted(outdated.dropped.items()))
    kept[-1] = changed(last, drops=drops, feed=feed, session=lines[-1].session)
    return _chained(kept)


def _left(
    line: Line,
    part: Part,
    outdated: Outdated,
    gone: tuple[str, str] | None,
    later: set[tuple[Table[Any], Key]],
) -> Part | None:
    """What is left of a part of a line; `later` are the rows that lines behind it change."""
    without = _without(line, part.home, outdated, gone)
    rows = []
    for table, key, row in reversed([*rows_in(part.put)]):
        if without is not None and table not in without and (table, key) not in later:
            rows.append((table, row))
        later.add((table, key))
    keys: Keys = {}
    for table, key in keys_in(part.gone):
        # A row of these tables was put in this journal only, and that goes as well.
        stays = without is not None and table not in (*without, *ONLY_SHARED)
        if stays and (table, key) not in later:
            keys.setdefault(table.name, []).append(key)
        later.add((table, key))
    if not rows and not keys:
        return None
    rows.reverse()
    return msgspec.structs.replace(part, put=put_of(rows), gone=keys)


def _without(
    line: Line, home: Home, outdated: Outdated, gone: tuple[str, str] | None
) -> tuple[Table[Any], ...] | None:
    """The tables whose rows go; None for all of them."""
    if outdated.all_of(line, home) or (line.tenant, home.session) == gone:
        return None
    return LOOSE if outdated.loose_of(line, home) else ()


def _chained(lines: list[Line]) -> Cleaned:
    """The lines, each following the one before it."""
    found = Cleaned([], [], "")
    n = 0
    for left in lines:
        version = 0 if found.lines else VERSION
        line = changed(left, v=version, skips=left.n - n - 1, prev=found.sum)
        data, found.sum = encode_line(line)
        found.data.append(data)
        found.lines.append(line)
        n = line.n
    return found
