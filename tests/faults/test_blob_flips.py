"""Wrong bits in the bytes of blobs: every read of them is Corrupt, and no wrong byte gets out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from ledgerstone import Store
from ledgerstone.blobs import reading
from ledgerstone.errors import Corrupt, LedgerstoneError
from ledgerstone.records.blobs import CHUNK_BYTES
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import quick_disk

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SIZES = (1, 40, 5_000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES + 700_000)
CONTROL_FLIPS = 40
WINDOW_BYTES = 48
"""So much of a blob is enough to find it again in the file of a database."""


class Damage(msgspec.Struct, frozen=True):
    """A file as it shall be, and where in which blob it is wrong: there, or from there on."""

    ref: str
    at: int
    file: Path
    content: bytes
    onwards: bool = False


def blobs(random: Random) -> list[bytes]:
    return [random.randbytes(size) for size in SIZES]


def handed_out(store: Store, ref: str, first: int) -> tuple[bytes, str]:
    """What a reader gets before it is stopped, and what stopped it."""
    got: list[bytes] = []
    try:
        with store.blobs.open(ref, first=first) as reader:
            got.extend(reader)
    except LedgerstoneError as error:
        return b"".join(got), type(error).__name__
    return b"".join(got), ""


def whole(store: Store, ref: str) -> tuple[bytes | None, str]:
    try:
        return store.blobs.get(ref), ""
    except LedgerstoneError as error:
        return None, type(error).__name__


def judge(store: Store, damage: Damage, data: bytes, random: Random) -> Iterator[str]:
    """What is wrong with the answers about a blob that is damaged at one byte."""
    where = f"byte {damage.at} of {len(data)}"
    got, error = whole(store, damage.ref)
    if error != Corrupt.__name__:
        yield f"{where}: get said {error or 'nothing'}"
    if got is not None:
        yield f"{where}: get handed out {len(got)} bytes"
    for first in (0, random.randrange(len(data)), damage.at):
        part, error = handed_out(store, damage.ref, first)
        if part != data[first : first + len(part)]:
            yield f"{where}: wrong bytes from {first} on"
        reached = damage.onwards or damage.at // CHUNK_BYTES >= first // CHUNK_BYTES
        if reached and error != Corrupt.__name__:
            yield f"{where}: read from {first} on, it said {error or 'nothing'}"
        if not reached and (error or part != data[first:]):
            yield f"{where}: the undamaged end from {first} on is not readable: {error}"


def try_one(open_: Callable[[], Store], damage: Damage, data: bytes, random: Random) -> list[str]:
    """Lay the damaged file out, ask, and put things right again."""
    before = damage.file.read_bytes()
    damage.file.write_bytes(damage.content)
    try:
        with open_() as store:
            found = list(judge(store, damage, data, random))
    finally:
        damage.file.write_bytes(before)
    return found


# --- a directory


class InDirectory:
    """A store whose bytes lie in files of their own."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder = folder
        self.random = random
        self.data: dict[str, bytes] = {}
        self.files: dict[str, Path] = {}
        with self.open() as store:
            for data in blobs(random):
                before = set(self.all())
                ref = store.blobs.put(data).ref
                self.data[ref] = data
                (self.files[ref],) = set(self.all()) - before

    def open(self) -> Store:
        return Store.open(self.folder / "store.db", blobs=self.folder / "bytes")

    def all(self) -> list[Path]:
        return [path for path in (self.folder / "bytes").rglob("*") if path.is_file()]

    def damage(self) -> Damage:
        """A wrong bit or byte, or an end that is missing, or one too many."""
        ref = self.random.choice(list(self.data))
        data, file = self.data[ref], self.files[ref]
        at = self.random.randrange(len(data))
        kind = self.random.randrange(10)
        if kind == 0:
            return Damage(ref, at, file, data[:at], onwards=True)
        if kind == 1:
            return Damage(ref, len(data) - 1, file, data + b"\0")
        mask = self.random.randrange(1, 256) if kind < 4 else 1 << self.random.randrange(8)
        return Damage(ref, at, file, flipped(data, at, mask))


def flipped(data: bytes, at: int, mask: int) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


class InDatabase:
    """A store whose bytes are rows of its database."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.file = folder / "store.db"
        self.random = random
        self.data: dict[str, bytes] = {}
        with self.open() as store:
            for data in blobs(random):
                self.data[store.blobs.put(data).ref] = data
        self.stored = self.file.read_bytes()

    def open(self) -> Store:
        return Store.open(self.file)

    def damage(self) -> Damage:
        """A wrong bit where the file holds a piece of a blob, which is cut up by pages there."""
        while True:
            ref = self.random.choice([one for one, data in self.data.items() if len(data) > 1])
            data = self.data[ref]
            start = self.random.randrange(max(1, len(data) - WINDOW_BYTES))
            window = data[start : start + WINDOW_BYTES]
            step = self.random.randrange(len(window))
            wrong = flipped(window, step, 1 << self.random.randrange(8))
            # All of them: a page that was moved leaves what it held behind, where nobody reads.
            content = self.stored.replace(window, wrong)
            if content != self.stored:
                return Damage(ref, start + step, self.file, content)

    def anywhere(self) -> Damage:
        """A wrong byte somewhere in the file: in a page, a key, a row, or where nothing is."""
        at = self.random.randrange(len(self.stored))
        mask = self.random.randrange(1, 256)
        return Damage("", 0, self.file, flipped(self.stored, at, mask))


BEDS: dict[str, type[InDirectory] | type[InDatabase]] = {
    "directory": InDirectory,
    "database": InDatabase,
}


@contextmanager
def bed_of(name: str, tmp_path: Path, seed: int) -> Iterator[InDirectory | InDatabase]:
    with quick_disk(tmp_path) as folder:
        yield BEDS[name](folder, Random(seed))


def flip_often(bed: InDirectory | InDatabase, times: int, line: Line) -> None:
    for _ in range(times):
        damage = bed.damage()
        line.violations += try_one(bed.open, damage, bed.data[damage.ref], bed.random)
        line.n += 1


@pytest.mark.parametrize("name", BEDS)
def test_flips_in_the_bytes(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int, name: str
) -> None:
    with (
        bed_of(name, tmp_path, seed) as bed,
        scoreboard.line("bit flips in the bytes of blobs", name, seed) as line,
    ):
        flip_often(bed, scale(300, 5_000), line)
        with bed.open() as store:
            assert all(store.blobs.get(ref) == data for ref, data in bed.data.items())


def test_flips_anywhere_in_a_database(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """Rows and keys are hit as well, so a blob may be gone: but it is right, or it is an error."""
    with (
        bed_of("database", tmp_path, seed) as bed,
        scoreboard.line("bit flips beside the bytes of blobs", "database", seed) as line,
    ):
        assert isinstance(bed, InDatabase)
        kinds: Counter[str] = Counter()
        for _ in range(scale(100, 3_000)):
            line.n += 1
            bed.file.write_bytes(bed.anywhere().content)
            try:
                with bed.open() as store:
                    for ref, data in bed.data.items():
                        got, error = whole(store, ref)
                        kinds[error or ("right" if got == data else "gone")] += 1
                        if got not in (None, data):
                            line.violations.append(f"{ref} has other bytes")
            except LedgerstoneError as error:
                kinds[f"refused: {type(error).__name__}"] += 1
            for leftover in bed.file.parent.glob("store.db?*"):
                leftover.unlink()
        bed.file.write_bytes(bed.stored)
        line.note = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())


@pytest.mark.parametrize("name", BEDS)
def test_control_a_reader_that_checks_nothing(
    tmp_path: Path,
    scoreboard: Scoreboard,
    seed: int,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_check", lambda *_: None)
    monkeypatch.setattr(reading, "_check_end", lambda *_: None)
    with (
        bed_of(name, tmp_path, seed) as bed,
        scoreboard.line("bit flips, blobs unchecked", name, seed, control=True) as line,
    ):
        flip_often(bed, CONTROL_FLIPS, line)
