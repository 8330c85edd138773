"""What operators' calls cost: a probe and a restore must not grow with the store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.file.disk import Disk
from ledgerstone.engines.postgres.interactive import Interactive
from ledgerstone.engines.postgres.transaction import PgTx
from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.engines.sqlite.writing import WritingRows
from ledgerstone.testing.servers.places import Places

STEPS_MAX = 200
STATEMENTS_MAX = 10


def fill(store: Store, first: int, last: int) -> None:
    for n in range(first, last):
        store.messages.append(f"s{n}", user("hi"), create=True)
        store.work.enqueue(f"s{n}", n)


def machine_steps(backend: SqliteBackend) -> int:
    """The instructions of SQLite's virtual machine that a look at the health takes."""
    connection, steps = backend._writer._connection, 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    def refuse(work: Any) -> Any:
        raise AssertionError(f"health asked {work}")

    connection.set_progress_handler(count, 1)
    backend._find_out = refuse  # type: ignore[method-assign]
    try:
        assert backend.health().ok
    finally:
        connection.set_progress_handler(None)
        del backend._find_out
    return steps


def test_health_of_sqlite_reads_no_rows(tmp_path: Path) -> None:
    backend = open_sqlite(str(tmp_path / "a.db"))
    with Store(backend) as store:
        fill(store, 0, 2)
        before = machine_steps(backend)
        fill(store, 2, 200)
        assert machine_steps(backend) == before < STEPS_MAX
        # The control: what counts does grow, and goes by the way that is refused above.
        assert store.admin.stats().counts["sessions"] == 200


class Counted(Disk):
    """Notes how often a folder is listed."""

    listed = 0

    def names(self, folder: int) -> list[str]:
        self.listed += 1
        return super().names(folder)


def test_health_of_files_lists_no_folder(tmp_path: Path) -> None:
    disk = Counted()
    with Store(open_file(str(tmp_path / "store"), disk=disk)) as store:
        fill(store, 0, 3)
        disk.listed = 0
        assert store.admin.health().ok
        assert disk.listed == 0
        assert store.admin.stats().sizes_bytes["journals"] > 0
        assert disk.listed > 0


@pytest.fixture
def postgres(postgres_places: Places) -> Iterator[Store]:
    with Store.open(postgres_places.fresh()) as store:
        yield store


def test_health_of_postgresql_counts_nothing(
    postgres: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = Interactive.ask

    async def ask(self: Interactive, query: str) -> Any:
        asked.append(query)
        return await real(self, query)

    monkeypatch.setattr(Interactive, "ask", ask)
    assert postgres.admin.health().ok
    assert asked == ["store_version"]
    postgres.admin.stats()
    assert asked == ["store_version", "count_rows", "database_sizes"]


def test_a_restore_takes_as_many_statements_for_many_sessions_of_postgresql(
    postgres: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    real = PgTx.fetch

    def noting(self: PgTx, text: str, arguments: Any) -> Any:
        sent.append(text)
        return real(self, text, arguments)

    monkeypatch.setattr(PgTx, "fetch", noting)
    found = restored_with(postgres, sent)
    assert any("update heads" in text for text in found[0] & found[1])


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_restore_does_as_much_for_each_session_whatever_their_number(
    tmp_path: Path, kind: str
) -> None:
    """Calls, and not time: 40 s of the processor for 20,000 sessions were quadratic in them."""
    opening = open_sqlite if kind == "sqlite" else open_file
    with Store(opening(str(tmp_path / "a"))) as store:
        counted = []
        for last in (100, 200):
            fill(store, last - 100, last)
            calls = 0

            def count(frame: Any, event: str, of: Any) -> None:
                nonlocal calls
                calls += event == "call"

            sys.setprofile(count)
            try:
                store.admin.after_restore()
            finally:
                sys.setprofile(None)
            counted.append(calls)
    assert counted[1] < 2.5 * counted[0]


def test_a_restore_of_held_sessions_looks_at_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what is done for each session would be noticed."""
    sent: list[str] = []
    _note_looks(monkeypatch, sent)
    with Store(open_sqlite(str(tmp_path / "a.db"))) as store:
        fill(store, 0, STATEMENTS_MAX)
        for n in range(STATEMENTS_MAX):
            store.leases.take(f"s{n}", owner="ann")
        sent.clear()
        store.admin.after_restore()
        assert len(sent) > STATEMENTS_MAX


def _note_looks(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> None:
    """Note every statement of a writer, one for many rows once."""
    real = WritingRows.__init__

    def begin(self: Any, connection: Any) -> None:
        real(self, connection)
        execute, run = self._execute, self._run

        def executing(text: str, *bound: Any) -> Any:
            if not text.startswith("PRAGMA"):
                sent.append(text)
            return execute(text, *bound)

        def running(text: str, rows: list[Any]) -> None:
            if len(rows) > 1:
                sent.append(text)
            run(text, rows)

        self._execute, self._run = executing, running

    monkeypatch.setattr(WritingRows, "__init__", begin)


def restored_with(store: Store, sent: list[str]) -> list[set[str]]:
    """The statements of a restore with few sessions, and with many."""
    found = []
    fill(store, 0, 2)
    for last in (2, 60):
        fill(store, 2, last)
        sent.clear()
        assert store.admin.after_restore() == last
        found.append(set(sent))
        assert len(sent) <= STATEMENTS_MAX, sent
    assert store.admin.verify().ok
    store.close()
    return found
