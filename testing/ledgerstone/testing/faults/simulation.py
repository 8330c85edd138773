"""Whole lives of a store, drawn from one number: commands, full disks, lost flushes, power cuts.

    outcome = simulate(folder, seed)
    assert outcome.violations == []
    assert simulate(folder, seed).digest == outcome.digest      # the same bytes again

One thread, a simulated clock and a simulated disk; ids, salts and times come from the seed, and so
does what SQLite itself draws at random (the salts of its log). After every life the store is judged
by the model, which carried out what was acknowledged; then the next life goes on from there. What
is not simulated is the schedule of threads: groups of commands are the business of the other loops.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec

from ledgerstone.clock import US_PER_S, ManualClock
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import BreakLease, GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.nodes import AnnotateNodes, NewNote, VacuumSession
from ledgerstone.commands.sessions import (
    CopySession,
    DeleteSession,
    PurgeSession,
    RestoreSession,
    SweepPurged,
    UpdateSession,
)
from ledgerstone.commands.turns import Amendment, Rewind
from ledgerstone.commands.work import AbandonClaim, ListWork, RenewClaim, ReplayWork
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.disk import Fault
from ledgerstone.testing.faults.folder_disk import AnyDisk
from ledgerstone.testing.faults.scripts import (
    SALT,
    SESSIONS,
    START_US,
    Step,
    batch,
    completed,
    enqueue,
    fail,
    rich_turn,
    take,
    talk,
    token_of,
    turn,
)
from ledgerstone.testing.faults.storage import Change, Stage, checkpoints_often, close, examine
from ledgerstone.testing.faults.told import Told, perform

LIVES = 4
COMMANDS_MAX = 30
OPERATIONS_MAX = 500
BODY_CHARS_MAX = 15_000
PATCH = b'{"metadata":{"changed":true}}'


class Outcome(msgspec.Struct):
    """What one simulation did; the digest covers every answer and every byte that survived."""

    seed: int
    lives: int = 0
    commands: int = 0
    acked: int = 0
    digest: str = ""
    violations: list[str] = []


class _Dice(apsw.VFS):
    """The default file layer for a moment: SQLite takes its randomness from here."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        super().__init__("ledgerstone-dice", "", makedefault=True)

    def xRandomness(self, numbytes: int) -> bytes:
        return self._random.randbytes(numbytes)


@contextmanager
def sqlite_randomness(seed: int) -> Iterator[None]:
    """What SQLite draws at random in this process follows from the seed."""
    apsw.randomness(1)  # The very first draw brings SQLite up, with a default layer of its own.
    apsw.randomness(0)  # It forgets its state and asks for a new one at the next draw.
    dice = _Dice(seed)
    apsw.randomness(1)
    dice.unregister()
    try:
        yield
    finally:
        apsw.randomness(0)


class Author:
    """Writes the next command; small pools, so that commands meet."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._turns = 0
        self._sent: list[Command[Any]] = []

    def command(self, told: Told) -> Command[Any]:
        """Something that fits what was acknowledged so far, more often than not."""
        random = self._random
        if self._sent and random.random() < 0.1:
            return random.choice(self._sent)
        session = random.choice(SESSIONS[:6])
        lease = told.model.backend.read([GetLease(tenant=TENANT, session=session)])[0]
        guard = Guard() if lease is None else Guard(lease.fence, lease.token)
        draw = random.random()
        if draw < 0.5:
            made = self._turn(session, guard)
        elif draw < 0.75:
            made = self._work(session, guard, told)
        else:
            made = self._other(session, lease)
        self._sent.append(made)
        return made

    def _node(self) -> str:
        return f"t{self._random.randint(1, max(self._turns, 1))}.q"

    def _turn(self, session: str, guard: Guard) -> Command[Any]:
        self._turns += 1
        id, random = f"t{self._turns}", self._random
        rest: dict[str, Any] = {"guard": guard, "create": Session(id=session)}
        kind = random.choice(("talk", "talk", "talk", "rich", "amend", "tombstone", "pop"))
        if kind == "talk":
            return talk(session, id, random.randrange(BODY_CHARS_MAX), **rest)
        if kind == "rich":
            return rich_turn(session, id, **rest)
        if kind == "amend":
            return turn(
                session, id, kind=kind, amendments=(Amendment(self._node(), PATCH, SALT),), **rest
            )
        if kind == "tombstone":
            return turn(session, id, kind=kind, tombstones=(self._node(),), **rest)
        return turn(session, id, kind=kind, rewind=Rewind(pop=1), **rest)

    def _work(self, session: str, guard: Guard, told: Told) -> Command[Any]:
        """Something about the queue; claims are those that stand in it, of whatever generation."""
        random = self._random
        place: dict[str, Any] = {"tenant": TENANT, "session": session}
        self._turns += 1
        id, ttl_us = f"t{self._turns}", random.choice((1, 60)) * US_PER_S
        queued = told.model.backend.read([ListWork(**place)])[0]
        claims = [one.claim for one in queued if one.claim is not None] or ["none"]
        claim = random.choice(claims)
        owned: dict[str, Any] = {**place, "claim": claim, "token": token_of(claim)}
        rest: dict[str, Any] = {"priority": random.choice((1, 128)), **_attempts(session)}
        target = random.choice(SESSIONS[:6])
        sent = batch(target, id, **_attempts(target))
        makers: list[Callable[[], Command[Any]]] = [
            lambda: enqueue(session, f"w{random.randint(1, 30)}", **rest),
            lambda: enqueue(session, id, delay_us=ttl_us, **rest),
            lambda: take(id, ttl_us),
            lambda: take(id, ttl_us),
            lambda: fail(session, claim),
            lambda: RenewClaim(ttl_us=ttl_us, **owned),
            lambda: AbandonClaim(**owned),
            lambda: ReplayWork(tenant=TENANT, batch=f"w{random.randint(1, 30)}"),
            lambda: talk(session, id, guard=guard, enqueue=(sent,)),
            lambda: talk(session, id, guard=guard, complete=(completed(claim),), release=True),
        ]
        return random.choice(makers)()

    def _other(self, session: str, lease: Any) -> Command[Any]:
        random = self._random
        at: dict[str, Any] = {"tenant": TENANT, "session": session}
        of: dict[str, Any] = {"tenant": TENANT, "id": session}
        token = f"k{random.randint(1, 3)}"
        ttl_us = random.choice((1, 60)) * US_PER_S
        held: dict[str, Any] = {"owner": "ann", "token": token, "fence": 1}
        if lease is not None:
            held = {"owner": lease.owner, "token": lease.token, "fence": lease.fence}
        target = Session(id=random.choice(SESSIONS[:6]))
        makers: list[Callable[[], Command[Any]]] = [
            lambda: TakeLease(owner="ann", token=token, ttl_us=ttl_us, **at),
            lambda: RenewLease(ttl_us=ttl_us, **held, **at),
            lambda: ReleaseLease(**held, **at),
            lambda: BreakLease(by="op", reason="stuck", **at),
            lambda: AnnotateNodes(notes=(NewNote(self._node(), token, b"1"),), **at),
            lambda: VacuumSession(**at),
            lambda: UpdateSession(title=token, document=b'{"d":1}', **of),
            lambda: DeleteSession(**of),
            lambda: RestoreSession(**of),
            lambda: RestoreSession(**of),
            lambda: PurgeSession(**of),
            lambda: SweepPurged(tenant=TENANT, limit=1000),
            lambda: CopySession(
                tenant=TENANT,
                source=session,
                target=target,
                whole=random.random() < 0.5,
                turn=f"copy {token}",
            ),
        ]
        return random.choice(makers)()


def _attempts(session: str) -> dict[str, Any]:
    """Batches die in one session only.

    A take that buries in several sessions writes a line in each of their journals, and a disk that
    fails between two of them leaves the first: each is right by itself, but they are not one.
    """
    return {"max_attempts": 2 if session == SESSIONS[0] else None}


class Simulation:
    """The lives of one store, one after the other."""

    def __init__(self, folder: Path, seed: int, stage: Stage, lying: bool) -> None:
        self._random = Random(seed)
        self._folder = folder
        self._stage = stage
        self._lying = lying
        self._author = Author(self._random)
        self._clock = ManualClock(START_US)
        self._digest = hashlib.sha256()
        self.told = Told(plain=())
        self.outcome = Outcome(seed)

    def run(self) -> Outcome:
        place = self._new_folder()
        for _ in range(LIVES):
            place = self._live(place)
            if self.outcome.violations:
                break
        self.outcome.acked = self.told.acked
        self.outcome.digest = self._digest.hexdigest()
        return self.outcome

    def _live(self, place: Path) -> Path:
        """One life; answers where the next one begins."""
        stage, told = self._stage, self.told
        disk = stage.make_disk(*self._faults(), lying=self._lying)
        disk.watch(place)
        self.outcome.lives += 1
        try:
            opened = stage.open(place, self._clock, disk)
            backend = opened if stage.change is None else stage.change(opened)
        except LedgerstoneError as error:
            self._note(type(error).__name__)
        else:
            self._work(backend, disk)
            if self._random.random() < 0.2:
                close(backend, told)
            stage.settle(opened)
            disk.cut_power()
            disk.over = True
            close(backend, told)
        disk.unregister()
        survived = self._new_folder()
        disk.survive(survived, self._random)
        for path in sorted(survived.rglob("*")):
            if path.is_file():
                self._digest.update(str(path.relative_to(survived)).encode() + path.read_bytes())
        # A copy is judged: opening mends and draws at random what the next life shall do itself.
        judged = shutil.copytree(survived, self._new_folder(), dirs_exist_ok=True)
        found = [*told.violations, *examine(stage, judged, told, go_on=False)]
        place_of = f"life {self.outcome.lives}, {disk.fired or 'power cut at its end'}"
        self.outcome.violations += [f"{place_of}: {one}" for one in found]
        told.next_life()
        return survived

    def _work(self, backend: Backend, disk: AnyDisk) -> None:
        for _ in range(self._random.randint(5, COMMANDS_MAX)):
            self._clock.advance(self._random.choice((0.0, 0.001, 1.0, 30.0)))
            command = self._author.command(self.told)
            self.outcome.commands += 1
            before = len(self.told.done)
            perform(backend, [Step(self._clock.now_us(), (command,))], self._clock, self.told, disk)
            # What the store does by itself must not race the next command: seeds repeat exactly.
            self._stage.settle(backend)
            self._note(len(self.told.done) - before, command, self.told.errors)
            if disk.dead:
                return

    def _faults(self) -> list[Fault]:
        random = self._random
        faults = []
        if random.random() < 0.3:
            faults.append(Fault("write", random.randint(1, OPERATIONS_MAX), "full"))
        if random.random() < 0.3:
            faults.append(Fault("write", random.randint(1, OPERATIONS_MAX), "short"))
        if random.random() < 0.2:
            faults.append(Fault("sync", random.randint(1, OPERATIONS_MAX // 10), "once"))
        faults.append(Fault("any", random.randint(1, OPERATIONS_MAX), "power"))
        return faults

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))

    def _note(self, *what: object) -> None:
        self._digest.update(repr(what).encode("utf-8", "backslashreplace"))


def simulate(
    folder: Path,
    seed: int,
    *,
    stage: type[Stage] = Stage,
    change: Change | None = None,
    lying: bool = False,
) -> Outcome:
    """Live as the seed says, in a new place below the folder.

    `stage` says which backend; `change` and `lying` sabotage the store and its disk, for negative
    controls.
    """
    with (
        tempfile.TemporaryDirectory(dir=folder) as made,
        sqlite_randomness(seed),
        checkpoints_often(),
    ):
        place = stage(Path(made), born=False, change=change)
        return Simulation(Path(made), seed, place, lying).run()
