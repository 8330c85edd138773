"""The one call that carries out planned commands: recorded writes as arrays, verdicts as answers.

Three flat arrays hold everything: whole numbers, texts and bytes. Section follows section, as
`ledger_apply` reads them (sql/functions/postgres/apply.sql).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from ledgerstone.backends.postgres_heads import Key, Known, keep_run
from ledgerstone.backends.postgres_plan import EXPIRES, MAKES_RUN, UPDATED, USES, Plan
from ledgerstone.backends.postgres_port import Blobs
from ledgerstone.sql.tx import Row

CHECK_IDS, SKIP_LOCKED, SOME_USE, SOME_MAKE_RUNS, HAS_RARE = 1, 2, 4, 8, 16
"""How the call is made: look whether ids of nodes are taken; pass over heads that others hold. And
what is in it: uses, new runs, sections that few commands have."""

HEAD_COLUMNS = 29
_BORDER, _NULL = "\x1f", "\x1e"

_json = msgspec.json.Encoder().encode

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
    Section("complete_claim", _some(0, 2), _some(1, 3), _some()),
    Section("settle_ready", _some(0, 2), _some(1), _some()),
    Section("replace_note", _some(0, 5), _some(1, 2, 3, 4), _some(6)),
    Section("drop_notes", _some(0), _some(1, 2, 3), _some()),
    Section("keep_note", _some(0, 5), _some(1, 2, 3, 4), _some(6)),
)
"""In the order in which the handlers write, where that matters."""

_OFTEN = frozenset({"insert_node", "insert_turn", "save_run", "add_usage_day"})
"""What most turns have; the rest is `HAS_RARE`."""

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
        self._heads(group)
        rows: dict[str, list[tuple[int, list[Row]]]] = {}
        for place, asked in enumerate(group, start=1):
            if asked.plan is not None:
                for statement, written in asked.plan.writes.items():
                    if statement in rows:
                        rows[statement].append((place, written))
                    else:
                        rows[statement] = [(place, written)]
        for section in SECTIONS:
            if section.statement in rows:
                self._section(section, rows[section.statement])
            else:
                self.at += (0, 0, 0, 0)

    def arguments(self, who: str | None, now_us: int | None, mode: int) -> tuple[Any, ...] | None:
        """What `apply_planned` is called with; None when a text cannot travel as it is."""
        texts = _BORDER.join([_NULL if text is None else text for text in self.texts])
        if not _is_plain(texts, len(self.texts) - 1, self.texts.count(None)):
            return None
        return who, now_us, mode | self.mode, array(self.at), array(self.ints), texts, self.blobs

    def _command(self, asked: Asked) -> None:
        plan = asked.plan
        if plan is None:
            self.ints += (None, None, 0, asked.wants, 0)
        else:
            before, flags = plan.before, plan.flags
            self.ints += (before.head[0], stamp(before), plan.live, flags, plan.now_us)
            if flags & USES:
                self.mode |= SOME_USE
            if flags & MAKES_RUN:
                self.mode |= SOME_MAKE_RUNS
        self.texts += (*asked.key, asked.turn, asked.run)

    def _begin(self, count: int) -> None:
        self.at += (count, len(self.ints), len(self.texts), len(self.blobs))

    def _heads(self, group: Sequence[Asked]) -> None:
        moved = [
            (place, asked.plan.after.head)
            for place, asked in enumerate(group, start=1)
            if asked.plan is not None and asked.plan.after.head is not asked.plan.before.head
        ]
        self._begin(len(moved))
        for place, head in moved:
            self.ints.append(place)
            self.ints += _head_ints(head)
            self.texts += _head_texts(head)
            self.blobs += _head_bytes(head)

    def _section(self, section: Section, rows: Sequence[tuple[int, list[Row]]]) -> None:
        self._begin(sum([len(written) for _, written in rows]))
        if section.statement not in _OFTEN:
            self.mode |= HAS_RARE
        ints, texts, blobs = self.ints, self.texts, self.blobs
        ints_of, texts_of, blobs_of = section.ints, section.texts, section.blobs
        for place, written in rows:
            for row in written:
                ints.append(place)
                ints += ints_of(row)
                texts += texts_of(row)
                blobs += blobs_of(row)


def array(numbers: Sequence[int | None]) -> str:
    """Numbers as the text of an array, which is that of JSON but for its brackets."""
    return "{" + _json(numbers)[1:-1].decode("ascii") + "}"


def _is_plain(joined: str, borders: int, nulls: int) -> bool:
    """Whether no text has in it what parts them, or what no column can hold."""
    if joined.count(_BORDER) != borders or joined.count(_NULL) != nulls:
        return False
    if "\0" in joined or "\x01" in joined:
        return False
    if not joined.isascii():
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
