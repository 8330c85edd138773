"""Random bits and bytes flipped in what is stored: found or harmless, never wrong content."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw
import msgspec
import pytest

from ledgerstone.testing.faults.bitflips import (
    Flip,
    choose,
    flip_often,
    grow,
    grow_with_log,
    lay_out,
)
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.openers import FOLDERS, VOUCHING, sqlite_in

pytestmark = [pytest.mark.faults, pytest.mark.slow]

CONTROL_FLIPS = 60
# Nodes of the first session: its number in the upper half of the key.
FIRST = 1 << 32
# The ends of the names of files that a killed process leaves with an unfinished end.
LOGS = {"sqlite": ("-wal",), "file": (".jsonl",)}


@pytest.mark.parametrize("name", FOLDERS)
def test_flips_in_a_closed_store(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int, name: str
) -> None:
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("bit flips in stored files", name, seed) as line,
    ):
        original = grow(FOLDERS[name], folder / "place")
        flips = choose(original, scale(150, 10_000), Random(seed))
        flipped = flip_often(FOLDERS[name], original, flips, folder / "place")
        line.n = len(flips)
        line.violations += flipped.violations
        line.note = flipped.note()


@pytest.mark.parametrize("name", FOLDERS)
def test_flips_in_the_log(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int, name: str
) -> None:
    """A log ends where its checksums end: what is lost is a tail, as after a crash."""
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("bit flips in the log of a killed process", name, seed) as line,
    ):
        original = grow_with_log(FOLDERS[name], folder / "place", logs=LOGS[name])
        flips = choose(original, scale(80, 2_000), Random(seed), logs_only=True)
        flipped = flip_often(FOLDERS[name], original, flips, folder / "place")
        line.n = len(flips)
        line.violations += flipped.violations
        line.note = flipped.note()


@pytest.mark.parametrize("name", FOLDERS)
def test_a_verify_that_finds_nothing_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard, seed: int, name: str
) -> None:
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("bit flips, verify is silent", name, seed, control=True) as line,
    ):
        original = grow(FOLDERS[name], folder / "place")
        flips = choose(original, CONTROL_FLIPS, Random(seed))
        flipped = flip_often(VOUCHING[name], original, flips, folder / "place")
        line.n = len(flips)
        line.violations += flipped.violations


@pytest.mark.parametrize(("child", "parent"), [(1, 1), (1, 7), (3, 6), (6, 6), (7, 7)])
def test_a_circle_of_parents_traps_nobody(tmp_path: Path, child: int, parent: int) -> None:
    """Flips that make a node its own ancestor are rare, and each read has to get out of them."""
    folder = tmp_path / "place"
    original = grow(sqlite_in, folder)
    lay_out(folder, original.files)
    connection = apsw.Connection(str(folder / "store.db"))
    connection.execute("update nodes set parent = ? where key = ?", (parent, FIRST + child))
    connection.close()
    circle = msgspec.structs.replace(
        original, files={"store.db": (folder / "store.db").read_bytes()}
    )
    flipped = flip_often(sqlite_in, circle, [Flip("store.db", 0, 0)], folder)
    assert flipped.counts == {"found": 1}, flipped.violations


@pytest.mark.parametrize("name", FOLDERS)
def test_no_flip_at_all_is_harmless(tmp_path: Path, name: str) -> None:
    """The other control: a store that is laid out anew answers as it did."""
    original = grow(FOLDERS[name], tmp_path / "place")
    nothing = [Flip(file, 0, 0) for file, data in original.files.items() if data]
    flipped = flip_often(FOLDERS[name], original, nothing, tmp_path / "place")
    assert flipped.counts == {"harmless": len(nothing)}
