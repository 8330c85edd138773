"""The one call that carries out planned commands: recorded writes as arrays, verdicts as answers.

Three flat arrays hold everything: whole numbers, texts and bytes. Section follows section, as
`ledger_apply` reads them (sql/functions/postgres/apply.sql).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ledgerstone.engines.postgres.drivers.port import Blobs, Row
from ledgerstone.engines.postgres.planned.known_rows import MAKES_RUN, USES
from ledgerstone.engines.postgres.planned.plan import Plan
from ledgerstone.engines.postgres.planned.sections import SECTIONS, Section
from ledgerstone.engines.postgres.planned.session_cache import CachedSession, Key, with_run
from ledgerstone.rules.rows import HeadRow
from ledgerstone.tables.runs import RunRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.table import ORD_BITS

CHECK_IDS, SKIP_LOCKED, SOME_USE, SOME_MAKE_RUNS, HAS_RARE = 1, 2, 4, 8, 16
"""How the call is made: look whether ids of nodes are taken; pass over heads that others hold. And
what is in it: uses, new runs, sections that few commands have."""

HEAD_COLUMNS = len(HeadRow.__struct_fields__)
_ORD_MASK = (1 << ORD_BITS) - 1
_BORDER, _NULL = "\x1f", "\x1e"

_json = msgspec.json.Encoder().encode


class Asked(msgspec.Struct, frozen=True):
    """One command of a group: `plan` None only asks how the session stands.

    `wants` are flags of known_rows.py that such a question carries.
    """

    key: Key
    turn: str | None
    run: str | None
    plan: Plan | None
    wants: int = 0


def stamp(known: CachedSession) -> int:
    """By what the server knows a head again: who wrote it, and its times, in 64 bits with a sign.

    The number of a transaction alone is not enough: after a failover, numbers of transactions that
    were lost are given out again.
    """
    times: int = (known.head.updated_us ^ known.head.expires_us) & 0xFFFFFFFF
    mixed = known.version << 32 | times
    return mixed - (1 << 64) if mixed >> 63 else mixed


class Parcel:
    """The arrays of one call. `at`: for each section the number of its rows, and where its numbers,
    texts and bytes begin."""

    __slots__ = ("at", "blobs", "ints", "mode", "texts")

    def __init__(self, group: Sequence[Asked]) -> None:
        self.ints: list[int | None] = []
        self.texts: list[str | None] = []
        self.blobs = Blobs()
        self.mode = 0
        self.at = [len(group), 0, 0, 0]
        for asked in group:
            self._command(asked)
        rows: dict[Section, list[tuple[int, list[Any]]]] = {}
        for place, asked in enumerate(group, start=1):
            if asked.plan is not None:
                for section, written in asked.plan.writes.items():
                    if section in rows:
                        rows[section].append((place, written))
                    else:
                        rows[section] = [(place, written)]
        for section in SECTIONS:
            if section in rows:
                self._section(section, rows[section])
            else:
                self.at += (0, 0, 0, 0)

    def arguments(self, who: str | None, now_us: int | None, mode: int) -> tuple[Any, ...] | None:
        """What `apply_planned` is called with; None when a text cannot travel as it is."""
        texts = joined(self.texts)
        if texts is None:
            return None
        return who, now_us, mode | self.mode, array(self.at), array(self.ints), texts, self.blobs

    def _command(self, asked: Asked) -> None:
        plan = asked.plan
        if plan is None:
            self.ints += (None, None, 0, asked.wants, 0)
        else:
            before, flags = plan.before, plan.flags
            self.ints += (before.head.number, stamp(before), plan.live, flags, plan.now_us)
            if flags & USES:
                self.mode |= SOME_USE
            if flags & MAKES_RUN:
                self.mode |= SOME_MAKE_RUNS
        self.texts += (*asked.key, asked.turn, asked.run)

    def _section(self, section: Section, rows: Sequence[tuple[int, list[Any]]]) -> None:
        ints, texts, blobs = self.ints, self.texts, self.blobs
        count = sum([len(written) for _, written in rows])
        self.at += (count, len(ints), len(texts), len(blobs))
        if not section.often:
            self.mode |= HAS_RARE
        for place, written in rows:
            section.carry(place, written, ints, texts, blobs)


def array(numbers: Sequence[int | None]) -> str:
    """Numbers as the text of an array, which is that of JSON but for its brackets."""
    return "{" + _json(numbers)[1:-1].decode("ascii") + "}"


def joined(texts: Sequence[str | None]) -> str | None:
    """Texts as one; None when one has in it what parts them, or what no column can hold."""
    found = _BORDER.join([_NULL if text is None else text for text in texts])
    if found.count(_BORDER) != max(len(texts) - 1, 0) or found.count(_NULL) != texts.count(None):
        return None
    if "\0" in found or "\x01" in found:
        return None
    if not found.isascii():
        try:
            found.encode()
        except UnicodeEncodeError:
            return None
    return found


class Verdict(msgspec.Struct, frozen=True):
    """What the server says of one command: ok, moved, run, known, held or slow.

    `fresh` is the session as it stands; None when there is none, or when it was not asked for.
    """

    word: str
    fresh: CachedSession | None = None


class Judged(msgspec.Struct, frozen=True):
    """The answer of one call."""

    version: int
    clock_us: int
    verdicts: dict[int, Verdict]
    """Of commands that are not ok, by their place in the group, from 1."""


def read_answer(rows: list[Row], group: Sequence[Asked]) -> Judged:
    """The first row is about the call, each further one about a command that is not ok."""
    _, _, version, clock_us, *_ = rows[0]
    verdicts = {row[0]: Verdict(row[1], _fresh(row, group[row[0] - 1])) for row in rows[1:]}
    return Judged(version or 0, clock_us, verdicts)


def _fresh(row: Row, asked: Asked) -> CachedSession | None:
    head = row[4 : 4 + HEAD_COLUMNS]
    if head[0] is None:
        return None
    tip_id, key, first_ord, last_ord, *record, state = row[4 + HEAD_COLUMNS :]
    runs: dict[str, RunRow] = {}
    if key is not None and asked.run is not None:
        place = (key >> ORD_BITS, key & _ORD_MASK, asked.run, first_ord, last_ord)
        runs = with_run(runs, RunRow(*place, asked.key[0], *record))
    state = msgspec.UNSET if state is None else state or None
    return CachedSession(Head(*head), row[2], tip_id, runs, state)
