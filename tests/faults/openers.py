"""How the fault tests open each backend in a folder: by name, so that a child can do it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Query
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.records.reports import Verified
from ledgerstone.testing.wrappers import Wrapper


class VouchesForEverything(Wrapper):
    """Its verify never finds anything."""

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        answers = self.inner.read(queries)
        return [Verified() if isinstance(one, Verified) else one for one in answers]


def sqlite_in(folder: str, clock: ManualClock) -> Backend:
    return open_sqlite(f"{folder}/store.db", clock=clock)


def vouching_sqlite_in(folder: str, clock: ManualClock) -> Backend:
    return VouchesForEverything(sqlite_in(folder, clock))


def file_in(folder: str, clock: ManualClock) -> Backend:
    return open_file(f"{folder}/store", clock=clock)


def vouching_file_in(folder: str, clock: ManualClock) -> Backend:
    return VouchesForEverything(file_in(folder, clock))


FOLDERS: dict[str, Callable[[str, ManualClock], Backend]] = {
    "sqlite": sqlite_in,
    "file": file_in,
}
"""The backends that keep a store in a folder, by name."""

VOUCHING: dict[str, Callable[[str, ManualClock], Backend]] = {
    "sqlite": vouching_sqlite_in,
    "file": vouching_file_in,
}
