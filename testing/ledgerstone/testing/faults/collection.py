"""Collectors against everybody who puts, attaches, replaces and deletes bytes; anybody may die.

The calls are those of the public API, each cut into single steps (see stepping): one command or
one call of the place. The clock moves between any two of them, also beyond the time that a
collector waits; only an upload that takes twice as long is taken for dead. Whatever is referred
to, and whatever was put lately, must be there to the byte; and when everything has stopped, two
collections leave nothing that nobody needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import US_PER_S, ManualClock
from ledgerstone.codec import sha256
from ledgerstone.commands import Command
from ledgerstone.commands.blobs import (
    BeginUpload,
    CountBlobs,
    FinishUpload,
    ForgetUpload,
    ListUploads,
)
from ledgerstone.connect import Equipment
from ledgerstone.errors import BackendError, LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobPlace
from ledgerstone.records.blobs import CHUNK_BYTES
from ledgerstone.records.messages import user
from ledgerstone.records.parts import Image
from ledgerstone.testing.faults.stepping import Crew, GatedBackend, GatedPlace, current

A = TypeVar("A")

TENANT = "default"
SESSIONS = ("s1", "s2", "s3")
CONTENTS = (*(b"%d" % n * 40 for n in range(15)), b"long" * (CHUNK_BYTES // 4) + b"er")
GRACE_S = 3600
INTENTS_GRACE_S = 86_400
WAITS_S = (0, 1, 60, 600, 1900, 4000, 30_000, 90_000)
"""What passes between two steps: sometimes more than a collector waits."""

WAIT_SHARE = 0.04
KILL_SHARE = 0.02
LOOK_EVERY = 25
AUTHORS = 3
COLLECTORS = 2
NAMES = ("plan", "notes", "log")
FAR_US = 1 << 60

LONELY = tuple(b"lonely %d" % n for n in range(5))
"""What is only ever announced: to forget an attachment that a message needs is a caller's fault."""

By = {sha256(data): data for data in (*CONTENTS, *LONELY)}


class Stage(msgspec.Struct):
    """A backend with its place, and how many bytes of how many keys the place holds."""

    backend: Backend
    place: BlobPlace
    clock: ManualClock
    keys: Callable[[], int]


class Watched(GatedBackend):
    """Knows who has bytes on their way, and since when."""

    def __init__(self, inner: Backend, clock: ManualClock, uploads: dict[str, int]) -> None:
        super().__init__(inner)
        self._clock = clock
        self._uploads = uploads

    def write(self, command: Command[A]) -> A:
        answer = super().write(command)
        actor = current()
        if actor is not None and isinstance(command, BeginUpload):
            self._uploads[actor.name] = self._clock.now_us()
        elif actor is not None and isinstance(command, FinishUpload | ForgetUpload):
            self._uploads.pop(actor.name, None)
        return answer


class Expected:
    """What was acknowledged: when each content was put last, and who was promised to have it."""

    def __init__(self) -> None:
        self.put: dict[str, int] = {}
        self.intended: dict[tuple[str, str], int] = {}
        self._removing: Counter[str] = Counter()
        self._removed: Counter[str] = Counter()

    @contextmanager
    def removing(self, session: str) -> Iterator[None]:
        """While the intents of a session may be removed it is promised nothing."""
        self._removing[session] += 1
        try:
            yield
        finally:
            self._removing[session] -= 1
            self._removed[session] += 1
            for place in [place for place in self.intended if place[0] == session]:
                del self.intended[place]

    def moment(self, session: str) -> tuple[int, int]:
        """Equal at two moments, with a zero: nobody removed anything in between."""
        return self._removing[session], self._removed[session]

    def needs(self, session: str, ref: str) -> bool:
        """Whether an intent of the session must still be there."""
        return self._removing[session] == 0 and (session, ref) in self.intended


class Author:
    """Somebody who puts, attaches, replaces and deletes."""

    def __init__(self, store: Store, clock: ManualClock, expected: Expected, seed: int) -> None:
        self._store = store
        self._clock = clock
        self._expected = expected
        self._random = Random(seed)
        self.refused: Counter[str] = Counter()
        self.done = 0

    def live(self) -> None:
        """One thing after the other. What was collected meanwhile may be refused, no more."""
        acts: dict[Callable[[], None], int] = {
            self.put: 6,
            self.put_a_stream: 3,
            self.attach: 6,
            self.attach_without_commit: 3,
            self.show: 6,
            self.put_artifact: 6,
            self.name_what_is_there: 4,
            self.delete_artifact: 9,
            self.forget: 3,
            self.purge: 5,
            self.copy: 3,
        }
        while True:
            (act,) = self._random.choices(list(acts), list(acts.values()))
            try:
                act()
                self.done += 1
            except LedgerstoneError as error:
                if isinstance(error, BackendError):
                    raise
                self.refused[type(error).__name__] += 1

    def _data(self) -> bytes:
        return self._random.choice((*CONTENTS[:2] * 4, *CONTENTS))

    def _session(self) -> str:
        return self._random.choice(SESSIONS)

    def _acknowledged(self, ref: str, since_us: int) -> None:
        self._expected.put[ref] = max(since_us, self._expected.put.get(ref, 0))

    def put(self) -> None:
        since_us = self._clock.now_us()
        ref = self._store.blobs.put(self._data(), media_type="text/plain")
        self._acknowledged(ref.ref, since_us)

    def put_a_stream(self) -> None:
        since_us, data = self._clock.now_us(), self._data()
        pieces = (data[at : at + 70_000] for at in range(0, len(data), 70_000))
        self._acknowledged(self._store.blobs.put(pieces).ref, since_us)

    def attach(self) -> None:
        session = self._session()
        attached = self._store.attachments.put(session, self._data())
        with self._store.turns.begin(session, create=True) as turn:
            turn.user("see what I have")
            turn.attach(attached)

    def attach_without_commit(self) -> None:
        """A process that never comes to its commit; the bytes wait for it for a day.

        The day begins with the first intent for these bytes: a repeated one changes nothing.
        """
        session, data = self._session(), self._random.choice(LONELY)
        given: Any = data if self._random.random() < 0.5 else iter((data,))
        before = self._expected.moment(session)
        attached = self._store.attachments.put(session, given)
        if before == self._expected.moment(session) and before[0] == 0:
            self._expected.intended[session, attached.id] = attached.intent_us

    def show(self) -> None:
        """A message that names bytes which were put before."""
        ref = self._store.blobs.put(self._data())
        self._store.messages.append(self._session(), user([Image(blob=ref.ref)]), create=True)

    def put_artifact(self) -> None:
        id = self._random.choice((None, "x1", "x2"))
        self._store.artifacts.put(self._name(), self._data(), session=SESSIONS[0], id=id)

    def name_what_is_there(self) -> None:
        """No bytes travel: the blob may go while the artifact is made."""
        ref = self._store.blobs.stat(self._random.choice(list(By)))
        if ref is not None:
            self._store.artifacts.put(self._name(), blob=ref, user="u1")

    def delete_artifact(self) -> None:
        of: dict[str, Any] = self._random.choice(({"session": SESSIONS[0]}, {"user": "u1"}))
        self._store.artifacts.delete(self._name(), **of)

    def _name(self) -> str:
        return self._random.choice(NAMES)

    def forget(self) -> None:
        session, data = self._session(), self._random.choice(LONELY)
        with self._expected.removing(session):
            self._store.attachments.forget(session, sha256(data))

    def purge(self) -> None:
        session = self._session()
        with self._expected.removing(session):
            self._store.sessions.purge(session)

    def copy(self) -> None:
        """What the messages of one session need, the messages of its copy need too."""
        source, target = SESSIONS[0], SESSIONS[-1]
        with self._expected.removing(target):
            self._store.sessions.purge(target)
        self._store.sessions.copy(source, target)


class Fight:
    """Authors and collectors on one stage, step by step."""

    def __init__(self, stage: Stage, seed: int, *, look_every: int = LOOK_EVERY) -> None:
        self._stage = stage
        self._look_every = look_every
        self._random = Random(seed)
        self._expected = Expected()
        self._free = _store(stage, stage.backend, stage.place)
        self.refused: Counter[str] = Counter()
        self.steps = 0
        self.collections = 0
        self.collected = 0
        self.uploads = 0
        self.acts = 0
        plays: dict[str, Callable[[], None]] = {}
        for n in range(AUTHORS):
            plays[f"author {n}"] = self._author
        for n in range(COLLECTORS):
            plays[f"collector {n}"] = self._collect
        self._uploads: dict[str, int] = {}
        self.crew = Crew(plays, self._random, KILL_SHARE, self._is_too_slow)

    def run(self, steps: int) -> Generator[str, None, None]:
        """What went wrong, as it is found."""
        try:
            for n in range(steps):
                if self._random.random() < WAIT_SHARE:
                    self._stage.clock.advance(self._random.choice(WAITS_S))
                self.crew.step()
                self.steps += 1
                if n % self._look_every == 0:
                    yield from self.missing()
        finally:
            self.crew.stop()
        yield from self.missing()
        yield from self.left_over()

    def _is_too_slow(self, name: str) -> bool:
        """An upload that takes twice as long as a collector waits is as good as dead."""
        waited_us = self._stage.clock.now_us() - self._uploads.get(name, FAR_US)
        if waited_us < 2 * GRACE_S * US_PER_S:
            return False
        del self._uploads[name]
        return True

    def _watched(self) -> Store:
        """A store whose calls wait for their turn, for an actor that begins."""
        actor = current()
        assert actor is not None
        self._uploads.pop(actor.name, None)
        watched = Watched(self._stage.backend, self._stage.clock, self._uploads)
        return _store(self._stage, watched, GatedPlace(self._stage.place))

    def _author(self) -> None:
        seed = self._random.getrandbits(32)
        author = Author(self._watched(), self._stage.clock, self._expected, seed)
        try:
            author.live()
        finally:
            self.acts += author.done
            self.refused += author.refused

    def _collect(self) -> None:
        store = self._watched()
        while True:
            found = store.admin.gc(older_than_s=GRACE_S, attachments_older_than_s=INTENTS_GRACE_S)
            self.collections += 1
            self.collected += found.deleted
            self.uploads += found.uploads

    # --- what must hold

    def missing(self) -> Iterator[str]:
        """Bytes that are needed or were promised, and are not there as they were put."""
        for why, ref in self._needed():
            try:
                found = self._free.blobs.get(ref)
            except LedgerstoneError as error:
                yield f"{why}: {type(error).__name__}: {error}"
                continue
            if found != By[ref]:
                yield f"{why}: its bytes {ref[:8]} are " + ("gone" if found is None else "wrong")

    def _needed(self) -> Iterator[tuple[str, str]]:
        now_us, store = self._stage.clock.now_us(), self._free
        for of in ({"session": SESSIONS[0]}, {"user": "u1"}):
            for one in store.artifacts.list(newest=False, **of):
                yield f"artifact {one.name} v{one.version}", one.ref
        for session in SESSIONS:
            for row in store.attachments.list(session):
                if row.committed_us is not None:
                    yield f"attachment of {session}", row.id
            for message in store.messages.history(session):
                for part in message.parts:
                    if isinstance(part, Image) and part.blob is not None:
                        yield f"message of {session}", part.blob
        for ref, put_us in self._expected.put.items():
            if now_us - put_us < GRACE_S * US_PER_S:
                yield "put lately", ref
        for (session, ref), at_us in self._expected.intended.items():
            young = now_us - at_us < INTENTS_GRACE_S * US_PER_S
            if young and self._expected.needs(session, ref):
                yield f"intent of {session}", ref

    def left_over(self) -> Iterator[str]:
        """After two collections: only what something refers to."""
        for _ in range(2):
            self._stage.clock.advance(2 * INTENTS_GRACE_S)
            self._free.admin.gc(older_than_s=GRACE_S, attachments_older_than_s=INTENTS_GRACE_S)
        yield from self.missing()
        needed = {ref for _, ref in self._needed()}
        counts, uploads = self._free.read(
            CountBlobs(tenant=TENANT), ListUploads(tenant=TENANT, before_us=FAR_US)
        )
        if counts.blobs != len(needed):
            yield f"orphan: {counts.blobs} blobs are there, {len(needed)} are needed"
        if uploads:
            yield f"orphan: {len(uploads)} uploads were never collected"
        if (keys := self._stage.keys()) != counts.blobs:
            yield f"orphan: {keys} keys have bytes, {counts.blobs} blobs are there"
        if defects := self._free.admin.verify().defects:
            yield f"verify: {defects[0]}"


def _store(stage: Stage, backend: Backend, place: BlobPlace) -> Store:
    equipment = Equipment(backend)
    equipment.__dict__["place"] = place
    return Store(backend, tenant=TENANT, clock=stage.clock, equipment=equipment)
