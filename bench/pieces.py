"""`python -m bench.pieces DIRECTORY MEGABYTES ROUNDS`: bytes through a store and through a file.

Runs in a process of its own and prints one line of JSON. A stream of that size is written and read
back in pieces of 1 MiB, in turn by a plain file (flushed at the end), a plain file whose bytes are
hashed, and a store with its bytes in a directory and in the database. Then turns, with and without
three attachments. Bytes are made piece by piece, so whoever keeps them all is seen in the memory.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.memory import resident_mb
from bench.work import Work
from ledgerstone import Store, assistant, user

PIECE_BYTES: Final = 1 << 20
IMAGE_BYTES: Final = 64 << 10
IMAGES: Final = 3
TURNS_PER_ROUND: Final = 20


class Passed(msgspec.Struct, kw_only=True):
    """Seconds per round, and the greatest growth of the process while bytes passed."""

    write_s: list[float] = []
    read_s: list[float] = []
    grown_mb: float = 0.0


class Pieces(msgspec.Struct, kw_only=True):
    size_mb: int
    passed: dict[str, Passed]
    plain_ms: list[list[float]]
    attached_ms: list[list[float]]
    put_ms: list[list[float]]


class Watch:
    """Looks at the memory at every piece."""

    def __init__(self) -> None:
        self.start_mb = self.most_mb = resident_mb()

    def look(self) -> None:
        self.most_mb = max(self.most_mb, resident_mb())

    @property
    def grown_mb(self) -> float:
        return self.most_mb - self.start_mb


def pieces(size_mb: int, place: int, watch: Watch) -> Iterator[bytes]:
    """Different in every round: a store keeps the same content only once."""
    body = os.urandom(PIECE_BYTES - 16)
    for n in range(size_mb):
        watch.look()
        yield body + place.to_bytes(8, "big") + n.to_bytes(8, "big")


def through_file(path: Path, given: Iterator[bytes], hashed: bool) -> Callable[[], Iterator[bytes]]:
    digest = hashlib.sha256()
    with path.open("wb", buffering=0) as file:
        for piece in given:
            if hashed:
                digest.update(piece)
            file.write(piece)
        os.fsync(file.fileno())

    def read() -> Iterator[bytes]:
        again = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE_BYTES):
                if hashed:
                    again.update(piece)
                yield piece
        if hashed and again.digest() != digest.digest():
            raise RuntimeError("the file gave other bytes")
        path.unlink()

    return read


def through_store(store: Store, given: Iterator[bytes]) -> Callable[[], Iterator[bytes]]:
    ref = store.blobs.put(given)

    def read() -> Iterator[bytes]:
        with store.blobs.open(ref) as reader:
            yield from reader

    return read


def stream(directory: Path, size_mb: int, rounds: int) -> dict[str, Passed]:
    beside = Store.open(str(directory / "beside.db"), blobs=directory / "bytes")
    inside = Store.open(str(directory / "inside.db"))
    plain = directory / "plain"
    ways: dict[str, Callable[[Iterator[bytes]], Callable[[], Iterator[bytes]]]] = {
        "file": lambda given: through_file(plain, given, False),
        "hashed": lambda given: through_file(plain, given, True),
        "directory": lambda given: through_store(beside, given),
        "database": lambda given: through_store(inside, given),
    }
    found = {name: Passed() for name in ways}
    with beside, inside:
        for place in range(rounds):
            for name in sorted(ways, key=lambda name: (place + len(name)) % len(ways)):
                one_way(ways[name], found[name], size_mb, place)
    return found


def one_way(
    way: Callable[[Iterator[bytes]], Callable[[], Iterator[bytes]]],
    passed: Passed,
    size_mb: int,
    place: int,
) -> None:
    watch = Watch()
    begun = time.perf_counter()
    read = way(pieces(size_mb, place, watch))
    between = time.perf_counter()
    seen = 0
    for piece in read():
        seen += len(piece)
        watch.look()
    done = time.perf_counter()
    if seen != size_mb * PIECE_BYTES:
        raise RuntimeError(f"{seen} bytes came back of {size_mb} MiB")
    passed.write_s.append(between - begun)
    passed.read_s.append(done - between)
    passed.grown_mb = max(passed.grown_mb, watch.grown_mb)


def turns(directory: Path, rounds: int, seed: int) -> tuple[list[list[float]], ...]:
    """The same turn with three images and without; putting their bytes is timed by itself."""
    given = Work(seed).turns[0]
    found: tuple[list[list[float]], ...] = ([], [], [])
    with Store.open(str(directory / "turns.db"), blobs=directory / "images") as store:
        for session in ("plain", "attached"):
            store.sessions.create(id=session)
        for _ in range(rounds):
            plain, attached, put = [], [], []
            for _ in range(TURNS_PER_ROUND):
                images = [os.urandom(IMAGE_BYTES) for _ in range(IMAGES)]
                begun = time.perf_counter()
                refs = [store.attachments.put("attached", image).id for image in images]
                put.append((time.perf_counter() - begun) * 1000)
                plain.append(commit(store, "plain", given.user, []))
                attached.append(commit(store, "attached", given.user, refs))
            for samples, mine in zip(found, (plain, attached, put), strict=True):
                samples.append(mine)
    return found


def commit(store: Store, session: str, text: str, refs: list[str]) -> float:
    begun = time.perf_counter()
    turn = store.turns.begin(session)
    parts = [{"type": "text", "text": text}]
    parts += [{"type": "image", "blob": ref, "media_type": "image/png"} for ref in refs]
    turn.add(user(parts), assistant(text))
    turn.attach(*refs)
    turn.commit()
    return (time.perf_counter() - begun) * 1000


def main(directory: Path, size_mb: int, rounds: int, seed: int) -> Pieces:
    passed = stream(directory, size_mb, rounds)
    plain, attached, put = turns(directory, rounds, seed)
    return Pieces(size_mb=size_mb, passed=passed, plain_ms=plain, attached_ms=attached, put_ms=put)


if __name__ == "__main__":
    result = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    print(msgspec.json.encode(result).decode())
