"""The value domain: equal canonical bytes on every backend, or the same refusal on every one."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.faults.value_places import JSON_PLACES, TEXT_PLACES, Place
from ledgerstone.testing.faults.values import LARGE, TEXTS, VALUES, try_values
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.openers import FOLDERS

pytestmark = [pytest.mark.faults, pytest.mark.slow]

A = TypeVar("A")
Results = dict[tuple[str, str], object]

FEW_PLACES = ("tool arguments", "session metadata", "message text")


class Normalises(Wrapper):
    """Stores text in its composed form, as some file systems and databases do."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn):
            nodes = tuple(
                msgspec.structs.replace(
                    node, body=unicodedata.normalize("NFC", node.body.decode()).encode()
                )
                for node in command.nodes
            )
            changed = msgspec.structs.replace(command, nodes=nodes)
            return self.inner.write(changed)  # type: ignore[return-value]
        return self.inner.write(command)


@contextmanager
def bed(name: str, folder: Path) -> Iterator[Bed]:
    clock = ManualClock()
    if name == "memory":
        backend: Backend = MemoryBackend(clock)
        with Bed(name, lambda: backend, clock=clock, persistent=False) as made:
            yield made
        return
    with (
        quick_disk(folder) as place,
        Bed(name, lambda: FOLDERS[name](str(place), clock), clock=clock) as made,
    ):
        yield made


def compared(
    folder: Path, values: Mapping[str, Any], places: Mapping[str, Place]
) -> tuple[int, list[str]]:
    """How many were tried, and what is wrong with them on any backend or between two."""
    tried, violations = 0, []
    seen: dict[str, Results] = {}
    for name in ("memory", *FOLDERS):
        (folder / name).mkdir()
        with bed(name, folder / name) as made:
            seen[name] = {
                (value, place): found for value, place, found in try_values(made, values, places)
            }
        tried += len(seen[name])
        violations += [
            f"{value} as {place} on {name}: {found}"
            for (value, place), found in seen[name].items()
            if isinstance(found, str)
        ]
    for name in FOLDERS:
        violations += [
            f"{value} as {place}: {name} says {found}, memory says {seen['memory'][value, place]}"
            for (value, place), found in seen[name].items()
            if found != seen["memory"][value, place]
        ]
    return tried, violations


@pytest.mark.parametrize(
    ("kind", "values", "places"),
    [("JSON", VALUES, JSON_PLACES), ("text", TEXTS, TEXT_PLACES)],
    ids=["json", "text"],
)
def test_every_value_in_every_place(
    tmp_path: Path,
    scoreboard: Scoreboard,
    kind: str,
    values: dict[str, Any],
    places: dict[str, Place],
) -> None:
    with scoreboard.line(f"value domain, {kind}", "all") as line:
        line.n, found = compared(tmp_path, values, places)
        line.violations += found
        line.note = f"{len(values)} values, {len(places)} places, {1 + len(FOLDERS)} backends"


def test_sixteen_mebibytes(tmp_path: Path, scoreboard: Scoreboard, scale: Scale) -> None:
    """One store per place and size, so that no more than one of them is on the disk."""
    places = {**JSON_PLACES, "message text": TEXT_PLACES["message text"]}
    names = list(places)[: scale(0, len(places))] or FEW_PLACES
    with scoreboard.line("value domain, 16 MiB", "all") as line:
        for name in names:
            for size, value in LARGE.items():
                folder = tmp_path / f"{name} {size}"
                folder.mkdir()
                tried, found = compared(folder, {size: value}, {name: places[name]})
                line.n += tried
                line.violations += found
        line.note = f"{len(names)} places"


def test_a_backend_that_normalises_text_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    clock = ManualClock()
    backend = Normalises(MemoryBackend(clock))
    combining = {name: TEXTS[name] for name in ("combining", "spaces")}
    places = {"message text": TEXT_PLACES["message text"]}
    with (
        scoreboard.line("value domain, text is normalised", "memory", control=True) as line,
        Bed("lossy", lambda: backend, clock=clock, persistent=False) as made,
    ):
        for value, place, found in try_values(made, combining, places):
            line.n += 1
            line.violations += [f"{value} as {place}: {found}"] if isinstance(found, str) else []
    assert len(line.violations) == 1
