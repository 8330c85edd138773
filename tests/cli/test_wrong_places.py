"""The verbs where no store is, and on stores with a wrong bit: told, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ledgerstone.testing.faults.bitflips import choose, grow, lay_out
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.cli.conftest import Cli, Done
from tests.faults.openers import sqlite_in
from tests.faults.wrong_places import PLACES, contents

pytestmark = pytest.mark.faults

VERBS = (["sessions"], ["show", "s"], ["tree", "s"], ["verify"], ["doctor"])
EXIT_CODES = (1, 2)


def told(done: Done) -> Iterator[str]:
    """What is wrong with the way an error is told."""
    if done.code not in EXIT_CODES:
        yield f"exit code {done.code}"
    lines = done.err.splitlines()
    if len(lines) != 1 or not lines[0].startswith("ledgerstone: ") or "Traceback" in done.err:
        yield f"stderr says {done.err[:200]!r}"


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_wrong_places(cli: Cli, tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("wrong places on the command line", "sqlite") as line:
        for name, place in PLACES.items():
            if place.readable:
                continue
            folder = tmp_path / name
            folder.mkdir()
            path = place.make(folder)
            before = contents(folder)
            for words in VERBS:
                for extra in ([], ["--json"]):
                    line.n += 1
                    try:
                        done = cli(*words, "--store", path, *extra)
                        found = list(told(done))
                    except Exception as error:
                        found = [f"{type(error).__name__}: {error!s:.120}"]
                    found += [] if not extra or not done.out or is_json(done.out) else ["no JSON"]
                    line.violations += [f"{name}, {words[0]}: {one}" for one in found]
            if contents(folder) != before:
                line.violations.append(f"{name}: looking changed something")


@pytest.mark.slow
def test_stores_with_a_wrong_bit(
    cli: Cli, tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """Whatever they say, they say it in their own words, and `verify --json` is always JSON."""
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("bit flips on the command line", "sqlite", seed) as line,
    ):
        original = grow(sqlite_in, folder / "store")
        for flip in choose(original, scale(30, 500), Random(seed)):
            for words in (["sessions"], ["show", "trip"], ["tree", "trip"], ["verify", "--json"]):
                lay_out(folder / "store", original.files, flip)
                line.n += 1
                try:
                    done = cli(*words, "--store", folder / "store" / "store.db")
                except Exception as error:
                    line.violations.append(f"{flip}, {words[0]}: {type(error).__name__}: {error}")
                    continue
                if done.err:
                    line.violations += [f"{flip}, {words[0]}: {one}" for one in told(done)]
                elif "--json" in words and not is_json(done.out):
                    line.violations.append(f"{flip}: no JSON: {done.out[:100]!r}")
