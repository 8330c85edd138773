"""A store on a disk that fails: every operation of a fixed play fails once, each time is judged.

    stage = Stage(folder)
    tally = fail_everywhere(stage, "write", "error")       # n = 1, 2, ... until none fails
    tally = cut_everywhere(stage, Random(seed), seeds=20)  # power cuts, many survivors each
    assert tally.violations == []

After each fault the files are opened by an ordinary store and must show exactly what was
acknowledged (told.py); then the play goes on to its end, and the store must stand where one that
met no fault stands.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random

import apsw
import msgspec

from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite import writer as sqlite_writer
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.disk import Disk, Fault, How, Kind
from ledgerstone.testing.faults.folder_disk import AnyDisk
from ledgerstone.testing.faults.histories import judge, read_back
from ledgerstone.testing.faults.scripts import HISTORY, PLAY, START_US, Step
from ledgerstone.testing.faults.told import (
    Sent,
    Told,
    differences,
    perform,
    resend,
)

FILE = "store.db"
CHECKPOINT_PAGES = 40
IMAGES_AFTER_AN_ERROR = 4

Change = Callable[[Backend], Backend]


class Tally(msgspec.Struct):
    """What a loop tried and what it found."""

    points: int = 0
    images: int = 0
    acked: int = 0
    unknown: int = 0
    failed: int = 0
    errors: dict[str, int] = {}
    violations: list[str] = []

    def add(self, told: Told) -> None:
        self.acked += told.acked
        self.unknown += len(told.unknown)
        self.failed += len(told.failed)
        for name, number in told.errors.items():
            self.errors[name] = self.errors.get(name, 0) + number


class Life(msgspec.Struct):
    """One store from its opening to its fault: the disk it had, where it lay, what it said."""

    disk: AnyDisk
    folder: Path
    told: Told


class Stage:
    """Copies of one small SQLite store with a history, whose log has not been moved yet.

    `born=False`: there is no file at all yet, so opening it is part of what fails. Another backend
    overrides `make_disk`, `open`, `settle` and `integrity` (folder_stage.py).
    """

    vital = ""
    """How the names of files end whose flush must not fail; empty: those of all."""

    def __init__(
        self,
        folder: Path,
        *,
        born: bool = True,
        durability: str = "power",
        steps: Sequence[Step] = PLAY,
        change: Change | None = None,
    ) -> None:
        self.folder = folder
        self.durability = durability
        self.change = change
        self.history: Sequence[Step] = HISTORY if born else ()
        self.steps: Sequence[Step] = steps if born else (*HISTORY, *steps)
        self._files: dict[Path, bytes] = {}
        if born:
            self._make()

    def make_disk(self, *faults: Fault, lying: bool = False) -> AnyDisk:
        """A disk that fails like this."""
        return Disk(*faults, lying=lying)

    def open(self, folder: Path, clock: ManualClock, disk: AnyDisk | None = None) -> Backend:
        """The store in a folder; without a disk, as any process would open it."""
        vfs = disk.name if isinstance(disk, Disk) else None
        level = None if disk is None else self.durability
        return open_sqlite(str(folder / FILE), durability=level, clock=clock, vfs=vfs)

    def settle(self, backend: Backend) -> None:
        """Wait for what the store does by itself after an answer; SQLite's does it before."""

    def integrity(self, folder: Path) -> list[str]:
        """What the engine itself finds wrong with its files."""
        return integrity(folder / FILE)

    def _make(self) -> None:
        clock = ManualClock(START_US)
        with self.empty() as made, closing(self.open(made, clock)) as backend:
            perform(backend, HISTORY, clock, Told())
            for path in made.rglob("*"):
                if path.is_file() and path.suffix != ".db-shm":
                    self._files[path.relative_to(made)] = path.read_bytes()

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A folder with the store in it, for as long as it is needed."""
        with self.empty() as made:
            for name, data in self._files.items():
                (made / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                (made / name).write_bytes(data)
            yield made

    @contextmanager
    def empty(self) -> Iterator[Path]:
        made = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield made
        finally:
            shutil.rmtree(made)


@contextmanager
def checkpoints_often(pages: int = CHECKPOINT_PAGES) -> Iterator[None]:
    """The log is moved into the file every few commits, so that faults hit that as well."""
    usual, sqlite_writer.CHECKPOINT_PAGES = sqlite_writer.CHECKPOINT_PAGES, pages
    try:
        yield
    finally:
        sqlite_writer.CHECKPOINT_PAGES = usual


@contextmanager
def lived(stage: Stage, disk: AnyDisk, *, cut: bool = False) -> Iterator[Life]:
    """Open a copy on this disk, play on it until the end or the power cut, and close it.

    `cut`: the power goes at the end of the play, so that nothing is tidied up by closing.
    """
    with stage.copy() as folder, checkpoints_often():
        disk.watch(folder)
        told = Told(stage.history)
        life = Life(disk, folder, told)
        clock = ManualClock(START_US)
        try:
            backend = stage.open(folder, clock, disk)
        except LedgerstoneError as error:
            told.errors[type(error).__name__] = 1
            told.never = _sent(stage.steps)
        except Exception as error:
            told.violations.append(f"untyped: opening raised {error!r}")
            told.never = _sent(stage.steps)
        else:
            if stage.change is not None:
                backend = stage.change(backend)
            perform(backend, stage.steps, clock, told, disk)
            if cut:
                stage.settle(backend)
                disk.cut_power()
            # After a power cut there is no process left that could close anything.
            disk.over = disk.dead
            close(backend, told)
        yield life
        disk.unregister()


def _sent(steps: Sequence[Step]) -> list[Sent]:
    return [Sent(step.now_us, one) for step in steps for one in step.commands]


def close(backend: Backend, told: Told) -> None:
    """Close a store whose disk may fail while it is being closed."""
    try:
        backend.close()
    except LedgerstoneError as error:
        told.errors[f"close: {type(error).__name__}"] = 1
    except Exception as error:
        told.violations.append(f"untyped: closing raised {error!r}")


def examine(stage: Stage, folder: Path, told: Told, *, go_on: bool = True) -> list[str]:
    """Open what is there as any process would, and judge it by what was said about it."""
    clock = ManualClock(START_US)
    try:
        with closing(stage.open(folder, clock)) as backend:
            found = _judged(backend, clock, told) + stage.integrity(folder)
            return found or (resend(backend, clock, told) if go_on else [])
    except LedgerstoneError as error:
        return [f"unusable: {type(error).__name__}: {error}"]
    except Exception as error:
        return [f"untyped: {error!r}"]


def _judged(backend: Backend, clock: ManualClock, told: Told) -> list[str]:
    found: list[str] = []
    nearest: list[str] = []
    for stored in range(len(told.unknown) + 1):
        told.stored = stored
        unlike = differences(backend, clock, told.expected(stored))
        if not unlike:
            break
        nearest = nearest if nearest and len(nearest) <= len(unlike) else unlike
    else:
        found += [f"differs: {one}" for one in nearest[:3]]
    for session in told.plain:
        found += judge(told.spoken, read_back(backend, TENANT, session)).violations
    return found


def integrity(path: Path) -> list[str]:
    """What SQLite itself finds wrong with the file."""
    try:
        with closing(apsw.Connection(str(path))) as connection:
            answers = connection.execute("PRAGMA integrity_check").fetchall()
    except apsw.Error as error:
        return [f"integrity: {error}"]
    return [] if answers == [("ok",)] else [f"integrity: {answers[:3]}"]


def fail_everywhere(
    stage: Stage,
    kind: Kind,
    how: How,
    *,
    points: Iterable[int] | None = None,
    then_cut: Random | None = None,
) -> Tally:
    """Let the n-th operation of a kind fail, for every n until none fails any more.

    `then_cut`: the store goes on as it likes, and loses its power at the end of the play.
    """
    tally = Tally()
    for at in points or count(1):
        disk = stage.make_disk(Fault(kind, at, how))
        with lived(stage, disk, cut=then_cut is not None) as life:
            if not disk.fired:
                break
            tally.points += 1
            tally.add(life.told)
            found = list(life.told.violations)
            for _ in range(IMAGES_AFTER_AN_ERROR if then_cut is not None else 0):
                seed = 0 if then_cut is None else then_cut.randrange(2**32)
                found += survivor(stage, life, seed, go_on=False)
                tally.images += 1
            found += examine(stage, life.folder, life.told)
            tally.violations += [f"{disk.fired}: {one}" for one in found]
    return tally


def cut_everywhere(
    stage: Stage,
    random: Random,
    *,
    seeds: int,
    points: Iterable[int] | None = None,
    lying: bool = False,
    enough: Callable[[Tally], bool] = lambda tally: False,
) -> Tally:
    """Cut the power at the n-th operation, for every n; judge several survivors of each cut."""
    tally = Tally()
    for at in points or count(1):
        with lived(stage, stage.make_disk(Fault("any", at, "power"), lying=lying)) as life:
            if not life.disk.fired or enough(tally):
                break
            tally.points += 1
            tally.add(life.told)
            found = list(life.told.violations)
            for n in range(seeds):
                found += survivor(stage, life, random.randrange(2**32), go_on=n == 0)
                tally.images += 1
            tally.violations += [f"{life.disk.fired}: {one}" for one in found]
    return tally


def survivor(stage: Stage, life: Life, seed: int, *, go_on: bool) -> list[str]:
    """One way in which the disk may look after the power came back, judged."""
    with stage.empty() as folder:
        life.disk.survive(folder, Random(seed))
        found = examine(stage, folder, life.told, go_on=go_on)
        return [f"image {seed}: {one}" for one in found]
