"""Wrong places and places that change under an open store: a typed error, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import Damaged, LedgerstoneError, Unavailable
from ledgerstone.testing.faults.bitflips import Original, grow_with_log, lay_out, verified
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly
from ledgerstone.testing.faults.specimen import read_all
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk, small_disk
from tests.faults.openers import sqlite_in
from tests.faults.shifting_places import SCENES, folder_renamed
from tests.faults.wrong_places import PLACES, Place, closed_store, judge_opening

pytestmark = pytest.mark.faults

FRAME_BYTES = 4096 + 24
HEADER_BYTES = 32


def test_no_store_is_opened_in_a_wrong_place(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("wrong places: typed, told, untouched", "sqlite") as line:
        for name, place in PLACES.items():
            folder = tmp_path / name
            folder.mkdir()
            line.n += 1
            line.violations += [f"{name}: {found}" for found in judge_opening(place, folder)]


def test_places_that_change_under_an_open_store(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("places that change under an open store", "sqlite") as line:
        for name, scene in SCENES.items():
            folder = tmp_path / name
            folder.mkdir()
            line.n += 1
            try:
                line.violations += [f"{name}: {found}" for found in scene(folder)]
            except LedgerstoneError as error:
                line.violations.append(f"{name}: {type(error).__name__}: {error}")


def test_what_is_no_wrong_place_is_found_out(tmp_path: Path, scoreboard: Scoreboard) -> None:
    """A healthy store among the wrong places, and one that acknowledges before it writes."""
    healthy = Place(lambda folder: closed_store(folder / "store.db"), (LedgerstoneError,))
    with scoreboard.line("wrong places, nothing is wrong", "sqlite", control=True) as line:
        (tmp_path / "healthy").mkdir()
        line.n, line.violations = 1, list(judge_opening(healthy, tmp_path / "healthy"))
    with scoreboard.line("shifting places, acknowledged early", "sqlite", control=True) as line:
        (tmp_path / "early").mkdir()
        line.n, line.violations = 1, list(folder_renamed(tmp_path / "early", early))


def early(path: Path) -> Store:
    return Store(AcknowledgesEarly(open_sqlite(str(path))))


def test_no_inode_is_left_for_the_files_beside_it(tmp_path: Path, scoreboard: Scoreboard) -> None:
    """Log, index and lock: whichever cannot be made, it is told, and the store stays as it is."""
    whole = closed_store(tmp_path / "store.db")
    with scoreboard.line("no inode left for log, index or lock", "sqlite") as line:
        for inodes in range(2, 7):
            with small_disk(tmp_path / f"{inodes}", f"2m,nr_inodes={inodes}") as disk:
                if disk is None:
                    pytest.skip("MOUNT IS NOT ALLOWED HERE: nothing was proved about inodes")
                path = disk / "store.db"
                path.write_bytes(whole.read_bytes())
                line.n += 1
                try:
                    with Store.open(path) as store:
                        store.messages.append("s", user("more"))
                except Unavailable as error:
                    if str(path) not in str(error):
                        line.violations.append(f"{inodes} inodes: the path is not named: {error}")
                    if path.read_bytes() != whole.read_bytes():
                        line.violations.append(f"{inodes} inodes: the file was changed")
                    line.note += f"{type(error).__name__} "
    assert "StorageFull" in line.note


@pytest.mark.slow
def test_a_log_cut_at_many_places_is_a_prefix(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """At the edges of frames, beside them, and anywhere."""
    random = Random(seed)
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("log cut short", "sqlite", seed) as line,
    ):
        original = grow_with_log(sqlite_in, folder / "store", logs=("-wal",))
        size = len(original.files["store.db-wal"])
        edges = range(HEADER_BYTES, size + 1, FRAME_BYTES)
        cuts = {0, 1, HEADER_BYTES - 1, size, *edges, *(edge - 1 for edge in edges)}
        cuts |= {random.randrange(size) for _ in range(1000)}
        seen = set()
        for cut in {0, *random.sample(sorted(cuts), min(len(cuts), scale(100, 1000)))}:
            line.n += 1
            state = state_after_cut(original, cut, folder / "store")
            seen.add(state)
            if isinstance(state, str):
                line.violations.append(f"cut at {cut}: {state}")
        line.note = f"{len(seen)} different moments of the history"
    assert len(seen) > 10


def state_after_cut(original: Original, cut: int, folder: Path) -> int | str:
    """Which moment of the history the store stands at; a text when it is none.

    -1 when it is refused, as it must be when nothing is left of the log.
    """
    log = original.files["store.db-wal"][:cut]
    lay_out(folder, {**original.files, "store.db-wal": log})
    clock = ManualClock(original.now_us)
    if cut < HEADER_BYTES + FRAME_BYTES:
        with pytest.raises(Damaged, match="missing or empty"):
            sqlite_in(str(folder), clock)
        return -1
    backend = sqlite_in(str(folder), clock)
    try:
        if defect := verified(backend, clock):
            return f"verify says {defect}"
        answers = read_all(backend)
    finally:
        backend.close()
    if answers not in original.earlier:
        return "the store stands where it never stood"
    return original.earlier.index(answers)
