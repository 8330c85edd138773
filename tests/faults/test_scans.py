"""Every list of the API read page by page while another thread appends, deletes and branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store
from ledgerstone.api_sync import (
    artifacts,
    embeddings,
    evidence,
    memories,
    message_reads,
    nodes,
    pages,
    sessions,
    usage,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults import scans
from ledgerstone.testing.faults.crowds import switching_often
from ledgerstone.testing.faults.kept_scans import KEPT_SCANS, KeptDisturber
from ledgerstone.testing.faults.scans import CountsReads, Disturber, PagesByOffset, Scan, judged
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place

pytestmark = [pytest.mark.faults, pytest.mark.slow]

Lasting = Callable[[Any], list[str]]
Change = Callable[[Backend], Backend]

NOUNS: dict[str, tuple[dict[str, Scan], Lasting, type[Disturber]]] = {
    "messages": (scans.MESSAGE_SCANS, lambda one: one.messages, Disturber),
    "nodes": (scans.NODE_SCANS, lambda one: one.messages, Disturber),
    "turns": (scans.TURN_SCANS, lambda one: one.turns, Disturber),
    "sessions": (scans.SESSION_SCANS, lambda one: one.sessions, Disturber),
    "what is kept": (KEPT_SCANS, lambda one: one.kept, KeptDisturber),
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The iterators fetch 500 at a time; here a page is seven, so that there are many."""
    monkeypatch.setattr(message_reads, "CHUNK", scans.PAGE)
    monkeypatch.setattr(nodes, "CHUNK", scans.PAGE)
    monkeypatch.setattr(sessions, "LIMIT_MAX", scans.PAGE)
    for module in (memories, embeddings, artifacts):
        monkeypatch.setattr(module, "CHUNK", scans.PAGE)
    monkeypatch.setattr(usage, "LIMIT_MAX", scans.PAGE)
    # What is not told a chunk takes the usual one, which was fixed when the class was made.
    usual = {**(pages.Pages.__init__.__kwdefaults__ or {}), "chunk": scans.PAGE}
    monkeypatch.setattr(pages.Pages.__init__, "__kwdefaults__", usual)
    monkeypatch.setattr(evidence.Evidence._rows, "__defaults__", (scans.PAGE,))


@contextmanager
def two_handles(place: Place, folder: Path) -> Iterator[tuple[Backend, Backend]]:
    """One for the reader and one for the writer, where the place allows two."""
    reader = place.at(folder)()
    writer = place.at(folder)() if place.processes else reader
    try:
        yield reader, writer
    finally:
        reader.close()
        writer.close()


def scan_all(
    noun: str, place: Place, folder: Path, change: Change, pages: int, seed: int, line: Line
) -> None:
    """Every way to read this noun, each on a new store and with its share of the pages."""
    ways, lasting_of, disturb = NOUNS[noun]
    changes = 0
    for n, (way, scan) in enumerate(ways.items()):
        home = folder / f"{n}"
        home.mkdir()
        with (
            two_handles(place, home) as (reader, writer),
            switching_often(),
            disturb(Store(writer), seed) as disturber,
        ):
            counter = CountsReads(change(reader), disturber)
            store = Store(counter)
            while counter.count < pages / len(ways):
                lasting = lasting_of(disturber).copy()
                found = judged(scan(store), lasting, moving=way in scans.MOVING)
                line.violations += [f"{noun} {way}: {text}" for text in found]
        line.n += counter.count
        changes += disturber.disturbed
    line.note = f"{changes:,} changes meanwhile"
    assert changes > line.n / 2


@every_place
@pytest.mark.parametrize("noun", NOUNS)
def test_nothing_is_skipped_and_nothing_comes_twice(
    noun: str, place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line(f"paging while others write: {noun}", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        scan_all(noun, place, folder, lambda reader: reader, scale(1_000, 10_000), seed, line)


@pytest.mark.parametrize("noun", ["messages", "nodes", "sessions"])
def test_control_pages_by_offset_are_found_out(
    noun: str, tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    """Turns are only ever added at the end, where counting is as good as a key."""
    with (
        scoreboard.line(f"paging of {noun} by offset", "sqlite", seed, control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        scan_all(noun, PLACES["sqlite"], folder, PagesByOffset, 500, seed, line)
