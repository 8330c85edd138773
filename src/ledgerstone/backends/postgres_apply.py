"""The one call that carries out planned commands: recorded writes as arrays, verdicts as answers.

Three flat arrays hold everything: whole numbers, texts and bytes. Section follows section, as
`ledger_apply` reads them (sql/functions/postgres/apply.sql); `sizes` says how many rows each has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from ledgerstone.backends.postgres_heads import Key, Known, keep_run
from ledgerstone.backends.postgres_plan import EXPIRES, UPDATED, Plan
from ledgerstone.backends.postgres_port import Blobs, Ints, Texts
from ledgerstone.sql.tx import Row

CALL = "select * from ledger_apply($1, $2, $3, $4, $5, $6, $7)"
CHECK_IDS, SKIP_LOCKED = 1, 2
"""How the call is made: look whether ids of nodes are taken; pass over heads that others hold."""

HEAD_COLUMNS = 29
_UNSAFE = ("\0", "\x01")

Pick = Callable[[Row], Row]


def _nothing(row: Row) -> Row:
    return ()


def _some(*places: int) -> Pick:
    """These columns of a row, always as a tuple."""
    if not places:
        return _nothing
    if len(places) == 1:
        (only,) = places
        return lambda row: (row[only],)
    return itemgetter(*places)


class Section(msgspec.Struct, frozen=True):
    """How the rows of one statement travel: which of its arguments are numbers, texts, bytes.

    Each row is preceded by the place of its command in the group.
    """

    statement: str
    ints: Pick
    texts: Pick
    blobs: Pick


SECTIONS = (
    Section("insert_node", _some(0, 1, 2, 3, 6, 10), _some(4, 5, 8, 9, 11), _some(7, 12, 13)),
    Section("insert_turn", _some(0, 1, 6, 7, 8, 9), _some(2, 3), _some(4, 5, 10, 11)),
    Section("save_run", _some(0, 2, 3, 7), _some(1, 4, 5, 6), _some(8)),
    Section("change_run", _some(0, 1, 2), _some(3, 4), _some(5)),
    Section("extend_run", _some(0, 1, 2), _some(), _some()),
    Section("add_usage_day", _some(0, 1, *range(6, 14)), _some(2, 3, 4, 5), _some()),
    Section("move_recency", _some(0, 1), _some(), _some()),
    Section("put_value", _some(0), _some(1), _some(2)),
    Section("put_document", _some(0), _some(1), _some(2)),
    Section("insert_batch", _some(0, 1, 2, 4, 10, 11, 12, 14), _some(3, 5, 6, 7, 8, 9), _some(13)),
    Section("raise_ready", _some(0, 3, 4), _some(1), _some()),
    Section("complete_claim", _some(0, 2), _some(1), _some()),
    Section("settle_ready", _some(0, 2), _some(1), _some()),
)
"""In the order in which the handlers write, where that matters."""

_head_ints = itemgetter(0, *range(3, 16), 18, 19, 20, 27, 28)
_head_texts = itemgetter(16, 17, 22, 23, 24, 26)
_head_bytes = itemgetter(21, 25)


class Asked(msgspec.Struct, frozen=True):
    """One command of a group: `plan` None only asks how the session stands.

    `wants` are flags of postgres_plan that such a question carries.
    """

    key: Key
    turn: str | None
    run: str | None
    plan: Plan | None
    wants: int = 0


def stamp(known: Known) -> int:
    """By what the server knows a head again: who wrote it, and its times, in 64 bits with a sign.

    The number of a transaction alone is not enough: after a failover, numbers of transactions that
    were lost are given out again.
    """
    times: int = (known.head[UPDATED] ^ known.head[EXPIRES]) & 0xFFFFFFFF
    mixed = known.version << 32 | times
    return mixed - (1 << 64) if mixed >> 63 else mixed


class Parcel:
    """The arrays of one call."""

    __slots__ = ("blobs", "ints", "sizes", "texts")

    def __init__(self, group: Sequence[Asked]) -> None:
        self.ints, self.texts, self.blobs = Ints(), Texts(), Blobs()
        self.sizes = Ints([len(group)])
        for asked in group:
            self._command(asked)
        self._heads(group)
        for section in SECTIONS:
            self._section(section, group)

    def arguments(self, who: str | None, now_us: int | None, mode: int) -> tuple[Any, ...]:
        """What `CALL` is called with."""
        return who, now_us, mode, self.sizes, self.ints, self.texts, self.blobs

    def _command(self, asked: Asked) -> None:
        plan = asked.plan
        if plan is None:
            self.ints += (None, None, 0, asked.wants, 0)
        else:
            before = plan.before
            self.ints += (before.head[0], stamp(before), plan.live, plan.flags, plan.now_us)
        self.texts += (*asked.key, asked.turn, asked.run)

    def _heads(self, group: Sequence[Asked]) -> None:
        count = 0
        for at, asked in enumerate(group, start=1):
            plan = asked.plan
            if plan is None or plan.after.head is plan.before.head:
                continue
            count += 1
            head = plan.after.head
            self.ints.append(at)
            self.ints += _head_ints(head)
            self.texts += _head_texts(head)
            self.blobs += _head_bytes(head)
        self.sizes.append(count)

    def _section(self, section: Section, group: Sequence[Asked]) -> None:
        count = 0
        ints, texts, blobs = self.ints, self.texts, self.blobs
        for at, asked in enumerate(group, start=1):
            if asked.plan is None:
                continue
            rows = asked.plan.writes.get(section.statement)
            if rows:
                count += len(rows)
                for row in rows:
                    ints.append(at)
                    ints += section.ints(row)
                    texts += section.texts(row)
                    blobs += section.blobs(row)
        self.sizes.append(count)

    def is_plain(self) -> bool:
        """Whether all texts can travel as they are; the slow way escapes what can not."""
        joined = "".join([text for text in self.texts if text is not None])
        if any(odd in joined for odd in _UNSAFE):
            return False
        if joined.isascii():
            return True
        try:
            joined.encode()
        except UnicodeEncodeError:
            return False
        return True


class Verdict(msgspec.Struct, frozen=True):
    """What the server says of one command: ok, moved, run, known, held or slow.

    `fresh` is the session as it stands; None when there is none, or when it was not asked for.
    """

    word: str
    fresh: Known | None = None


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


def _fresh(row: Row, asked: Asked) -> Known | None:
    head = row[4 : 4 + HEAD_COLUMNS]
    if head[0] is None:
        return None
    tip_id, key, first_ord, last_ord, body, state = row[4 + HEAD_COLUMNS :]
    runs: dict[str, Row] = {}
    if key is not None and asked.run is not None:
        runs = keep_run(runs, asked.run, (key, first_ord, last_ord, body))
    return Known(head, row[2], tip_id, runs, msgspec.UNSET if state is None else state or None)
