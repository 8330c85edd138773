"""The books of a queue: what went in, what was claimed, what was committed, and what is wrong.

Every process writes down what it is about to do and what it was told, one line each, in a file of
its own (`Diary`); a killed process leaves all of its lines. What was really done is read from the
sessions: a turn that completes a claim leaves one message for each item of it.

    lost         enqueued and acknowledged, never committed
    unexpected   committed, never enqueued, or under a claim that nobody was given
    duplicated   committed more than once
    doubled      two claims under one fence, or one that went on after the next had begun
    inverted     two items of one session and one priority, committed in the wrong order
    left         still queued, or dead, although everything was worked off
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path

import msgspec

from ledgerstone.api_sync.store import Store

READ_MAX = 500


class Sent(msgspec.Struct, frozen=True, tag=True):
    """An item that is about to be enqueued."""

    item: str


class Put(msgspec.Struct, frozen=True, tag=True):
    """An item that was enqueued, and acknowledged."""

    session: str
    item: str
    seq: int
    priority: int


class Claimed(msgspec.Struct, frozen=True, tag=True):
    """Items that a worker was given, and between which moments."""

    worker: str
    session: str
    claim: str
    fence: int
    items: tuple[str, ...]
    start_s: float
    end_s: float


class Completed(msgspec.Struct, frozen=True, tag=True):
    """A turn that completed its claim; `start_s` is before it was sent."""

    session: str
    claim: str
    fence: int
    start_s: float


class Refused(msgspec.Struct, frozen=True, tag=True):
    """What a worker met instead."""

    claim: str
    error: str


Event = Sent | Put | Claimed | Completed | Refused
_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


class Diary:
    """A file of lines; each is with the system before the next thing is done."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._file, b"\n")  # The one before may have died in the middle of a line.

    def write(self, event: Event) -> None:
        os.write(self._file, _encoder.encode(event) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_diary(path: Path) -> list[Event]:
    """What it says, but for lines that were not finished."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [_decoder.decode(line) for line in lines if line.endswith(b"}")]


class Entry(msgspec.Struct, frozen=True):
    """One committed item, as the message in its session says."""

    session: str
    item: str
    claim: str
    fence: int


class Books(msgspec.Struct):
    """Everything that was said, and everything that is stored."""

    sent: set[str] = msgspec.field(default_factory=set)
    put: dict[str, Put] = msgspec.field(default_factory=dict)
    claimed: list[Claimed] = msgspec.field(default_factory=list)
    completed: list[Completed] = msgspec.field(default_factory=list)
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    stored: list[Entry] = msgspec.field(default_factory=list)
    left: list[str] = msgspec.field(default_factory=list)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Sent):
                self.sent.add(event.item)
            elif isinstance(event, Put):
                self.put[event.item] = event
            elif isinstance(event, Claimed):
                self.claimed.append(event)
            elif isinstance(event, Completed):
                self.completed.append(event)
            else:
                self.refused[event.error] += 1

    def read(self, store: Store, sessions: Iterable[str]) -> None:
        """Take over what the store shows, each session in its own order."""
        for session in sessions:
            for message in store.messages.history(session):
                told = message.metadata
                entry = Entry(session, message.text, told["claim"], told["fence"])
                self.stored.append(entry)
            self.left += [f"queued: {one.id}" for one in store.work.list(session)]
        self.left += [f"dead: {one.id}" for one in store.work.dead(limit=READ_MAX).items]

    @property
    def recovered(self) -> int:
        """How many items were first given to somebody who did not finish them."""
        first: dict[str, int] = {}
        for claim in sorted(self.claimed, key=lambda one: one.fence):
            for item in claim.items:
                first.setdefault(item, claim.fence)
        return sum(first.get(entry.item, entry.fence) != entry.fence for entry in self.stored)

    def violations(self) -> list[str]:
        """Every promise that was broken, by name."""
        return [
            *(f"lost: {item}" for item in sorted(self.put.keys() - self._items())),
            *(f"unexpected: {text}" for text in self._unexpected()),
            *(f"duplicated: {text}" for text in self._duplicated()),
            *(f"doubled: {text}" for text in self._doubled()),
            *(f"inverted: {text}" for text in self._inverted()),
            *(f"left: {text}" for text in self.left),
        ]

    def _items(self) -> set[str]:
        return {entry.item for entry in self.stored}

    def _unexpected(self) -> Iterator[str]:
        given = {
            (one.session, one.claim, one.fence, item) for one in self.claimed for item in one.items
        }
        for entry in self.stored:
            if entry.item not in self.sent:
                yield f"{entry.item} was never enqueued"
            elif (entry.session, entry.claim, entry.fence, entry.item) not in given:
                yield f"{entry.item} under {entry.claim}, which nobody was given"
        stored = {(entry.session, entry.claim) for entry in self.stored}
        for done in self.completed:
            if (done.session, done.claim) not in stored:
                yield f"{done.claim} was answered as completed and left nothing"

    def _duplicated(self) -> Iterator[str]:
        for item, count in Counter(entry.item for entry in self.stored).items():
            if count > 1:
                yield f"{item} was committed {count} times"

    def _doubled(self) -> Iterator[str]:
        """Claims of one session by fence: one each, later ones begin later, old ones are over."""
        begun = sorted(self.claimed, key=lambda one: (one.session, one.fence))
        ends = {(one.session, one.claim): one for one in self.completed}
        for session, claims in groupby(begun, key=lambda one: one.session):
            for earlier, later in pairwise(claims):
                if earlier.fence == later.fence:
                    yield f"{session}: {earlier.claim} and {later.claim} under {later.fence}"
                elif later.end_s < earlier.start_s:
                    yield f"{session}: fence {later.fence} was there before {earlier.fence}"
                done = ends.get((session, earlier.claim))
                if done is not None and done.start_s > later.end_s:
                    yield f"{session}: {earlier.claim} completed after {later.claim} had begun"
        for session, entries in groupby(self.stored, key=lambda one: one.session):
            for first, second in pairwise(entries):
                same = first.claim == second.claim
                if second.fence < first.fence or (second.fence == first.fence and not same):
                    yield f"{session}: committed under {second.fence} after {first.fence}"

    def _inverted(self) -> Iterator[str]:
        known = [entry for entry in self.stored if entry.item in self.put]
        last: dict[tuple[str, int], Put] = {}
        for entry in known:
            put = self.put[entry.item]
            before = last.get((put.session, put.priority))
            if before is not None and put.seq < before.seq:
                yield f"{put.session}: {put.item} came after {before.item}"
            last[put.session, put.priority] = put
