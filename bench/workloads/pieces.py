"""W12: bytes through a store against bytes through a file, and what attachments add to a turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from bench import entries
from bench.measure import Bar, Row, Series, row
from bench.pieces import IMAGE_BYTES, IMAGES, Passed, Pieces
from bench.remote import environment
from bench.stand import Stand

WITHIN_S: Final = 900.0
# Our own bars: every byte is hashed twice, once for the whole and once for its piece.
STREAMED: Final = Bar("at least", 0.4)
ATTACHED: Final = Bar("at most", 1.5)
FLOOR: Final = "plain file, flushed"
HASHED: Final = "plain file, SHA-256"
PLACES: Final = {
    "file": FLOOR,
    "hashed": HASHED,
    "directory": "ours, in a directory",
    "database": "ours, in the database",
}


def run(stand: Stand, _seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    sizes = stand.sizes
    stand.say(f"passing {sizes.piece_rounds} x {sizes.pieces_mb} MB through files and stores")
    folder = stand.directory / "pieces"
    folder.mkdir()
    command = [sys.executable, "-m", "bench.pieces", str(folder)]
    command += [str(sizes.pieces_mb), str(sizes.piece_rounds), str(stand.seed)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=WITHIN_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"bench.pieces: {done.stderr.strip()[-400:]}")
    found = msgspec.json.decode(done.stdout, type=Pieces)
    return [*streamed(found), *with_attachments(found)]


def streamed(found: Pieces) -> list[Row]:
    rows = []
    for way in ("write", "read"):
        rates = {name: rate(way_s(passed, way), found) for name, passed in found.passed.items()}
        for name, title in PLACES.items():
            rows.append(
                row(
                    "W12",
                    f"{way} {found.size_mb} MB in pieces",
                    title,
                    "MB/s",
                    rates[name],
                    floor=(HASHED, rates["hashed"]) if name != "file" else None,
                    bar=STREAMED if name == "directory" else None,
                    note=f"{found.passed[name].grown_mb:+.1f} MB of memory at most",
                )
            )
    return rows


def way_s(passed: Passed, way: str) -> list[float]:
    return passed.write_s if way == "write" else passed.read_s


def rate(seconds: Sequence[float], found: Pieces) -> Series:
    series = Series()
    for one in seconds:
        series.add([found.size_mb / one])
    return series


def with_attachments(found: Pieces) -> list[Row]:
    ours = entries.OURS.title
    plain, attached, put = (
        rounds(one) for one in (found.plain_ms, found.attached_ms, found.put_ms)
    )
    floor = ("without", plain)
    size = f"{IMAGES} attachments of {IMAGE_BYTES >> 10} kB"
    return [
        row("W12", "a turn without attachments", ours, "ms", plain),
        row("W12", f"the same turn with {size}", ours, "ms", attached, floor=floor, bar=ATTACHED),
        row("W12", f"putting {size} before it", ours, "ms", put, floor=floor),
    ]


def rounds(samples: list[list[float]]) -> Series:
    series = Series()
    for one in samples:
        series.add(one)
    return series
