"""Places that cannot be written, disks that are full, durability that is really in force."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.engines.sqlite import writer as sqlite_writer
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import InvalidValue, LedgerstoneError, ReadOnly, StorageFull
from tests.backends.places import as_nobody, make_read_only, quick_disk, small_disk, under_a_limit
from tests.crash.plays import commit_of

BODY = "x" * 2000
WAL_BYTES_MAX = 64 * 1024 * 1024


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="ledgerstone-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder


def made(path: Path) -> Path:
    with Store.open(path) as store:
        store.messages.append("s", user("one"), user("two"), create=True)
    return path


# --- places that cannot be written


def test_a_folder_where_nothing_may_be_made(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    tried = as_nobody(open_folder / "store.db")
    assert tried.error == "ReadOnly", tried
    assert "store.db" in tried.text
    assert list(open_folder.iterdir()) == []


def test_a_file_that_may_only_be_read(open_folder: Path) -> None:
    path = made(open_folder / "store.db")
    before = path.read_bytes()
    for name in open_folder.iterdir():
        name.chmod(0o444)
    tried = as_nobody(path)
    assert tried.error == "ReadOnly", tried
    assert tried.acked == 0
    assert path.read_bytes() == before


def test_a_file_and_a_folder_that_may_only_be_read(open_folder: Path) -> None:
    path = made(open_folder / "store.db")
    before = path.read_bytes()
    for name in open_folder.iterdir():
        name.chmod(0o444)
    open_folder.chmod(0o555)
    tried = as_nobody(path)
    assert tried.error == "ReadOnly", tried
    assert path.read_bytes() == before


def test_a_file_in_a_folder_where_no_log_may_be_made(open_folder: Path) -> None:
    path = made(open_folder / "store.db")
    (open_folder / "store.db-lock").unlink()
    path.chmod(0o666)
    open_folder.chmod(0o555)
    tried = as_nobody(path)
    assert tried.error == "ReadOnly", tried
    assert tried.acked == 0


def test_a_file_that_may_not_even_be_read(open_folder: Path) -> None:
    path = made(open_folder / "store.db")
    path.chmod(0o000)
    tried = as_nobody(path)
    assert tried.error in ("ReadOnly", "Unavailable"), tried


def test_a_read_only_file_system(tmp_path: Path) -> None:
    """Where nothing may be mounted, the same is asked of a folder without rights."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        if disk is None:
            print("capability mount: no; asked of a folder instead")
            test_a_folder_where_nothing_may_be_made(tmp_path / "disk")
            return
        path = made(disk / "store.db")
        make_read_only(disk)
        before = path.read_bytes()
        for name in ("store.db", "new.db"):
            with pytest.raises(ReadOnly), Store.open(disk / name) as store:
                store.messages.append("s", user("three"), create=True)
        assert path.read_bytes() == before


# --- a full disk


def fill(store: Store) -> int:
    """Commit until there is no space; how many were acknowledged."""
    for n in range(100_000):
        try:
            store.messages.append("s", user(f"{n} {BODY}"), user("and more"), create=True)
        except StorageFull:
            return n
    raise AssertionError("the disk never got full")


def test_a_full_disk(tmp_path: Path) -> None:
    """StorageFull; what is older stays readable; freed space is used by the same handle."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        if disk is None:
            print("capability mount: no; see the limit on file sizes below")
            return
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(600_000))
        with Store.open(disk / "store.db") as store:
            acked = fill(store)
            assert acked > 10
            assert store.messages.count("s") == 2 * acked
            assert store.admin.verify().ok
            with pytest.raises(StorageFull) as caught:
                store.messages.append("s", user(BODY * 10))
            assert caught.value.retryable
            assert "no space" in str(caught.value)
            ballast.unlink()
            store.messages.append("s", user("space again"))
            more = fill(store)
            assert more > 10
        with Store.open(disk / "store.db") as store:
            assert store.messages.count("s") == 2 * (acked + more) + 1
            assert store.admin.verify().ok


def test_a_disk_that_gets_full_while_the_log_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits before it are acknowledged and kept; later ones work when there is space."""
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 150)
    with small_disk(tmp_path / "disk", "3m") as disk:
        if disk is None:
            print("capability mount: no; see the limit on file sizes below")
            return
        ballast = disk / "ballast"
        with Store.open(disk / "store.db") as store:
            store.messages.append("s", user("first"), create=True)
            free = os.statvfs(disk).f_bavail * 4096
            # Room for the log to reach its mark, none for the file to grow by as much.
            ballast.write_bytes(bytes(free - 900_000))
            acked = fill(store)
            ballast.unlink()
            store.messages.append("s", user("space again"))
            assert store.messages.count("s") == 2 * acked + 2
        with Store.open(disk / "store.db") as store:
            assert store.messages.count("s") == 2 * acked + 2
            assert store.admin.verify().ok


def test_opening_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        if disk is None:
            print("capability mount: no; see the limit on file sizes below")
            return
        path = made(disk / "store.db")
        with pytest.raises(OSError, match="No space"):
            (disk / "ballast").write_bytes(bytes(2_000_000))
        with pytest.raises(StorageFull):
            Store.open(disk / "new.db")
        with pytest.raises(StorageFull), Store.open(path) as store:
            store.messages.append("s", user(BODY))
        (disk / "ballast").unlink()
        with Store.open(path) as store:
            assert store.messages.count("s") == 2
        with Store.open(disk / "new.db") as store:
            assert store.admin.health().ok


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """Needs no rights: a typed error, everything acknowledged readable, and it goes on after."""
    tried = under_a_limit(tmp_path / "store.db", 800_000)
    # SQLite takes the refusal for a failed write; of a COMMIT nobody knows then how it ended.
    assert tried.error in ("StorageFull", "Unavailable", "OutcomeUnknown"), tried
    assert tried.acked > 10
    assert tried.kept == tried.acked
    assert tried.ok


# --- durability


def test_power_is_the_default_and_read_back(tmp_path: Path) -> None:
    for asked in (None, "power"):
        with closing(open_sqlite(str(tmp_path / "store.db"), durability=asked)) as backend:
            assert backend.capabilities.durability == "power"
            pragma = backend._writer._connection.execute
            assert pragma("PRAGMA synchronous").fetchone() == (2,)
            assert pragma("PRAGMA journal_mode").fetchone() == ("wal",)
            assert backend.health().durability == "power"
            assert backend.health().warnings == []


def test_process_must_be_asked_for_and_is_warned_about(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db", durability="process") as store:
        assert store.capabilities.durability == "process"
        health = store.admin.health()
        assert health.durability == "process"
        assert any("power" in warning for warning in health.warnings)


@pytest.mark.parametrize("durability", ["", "disk", "Power", "none", 2])
def test_what_it_can_not_give_is_refused(tmp_path: Path, durability: str) -> None:
    with pytest.raises(LedgerstoneError) as caught:
        Store.open(tmp_path / "store.db", durability=durability)
    assert isinstance(caught.value, InvalidValue)
    assert caught.value.field == "durability"
    assert not (tmp_path / "store.db").exists()


# --- the log


def largest_log(path: str, commits: int, readers: int) -> int:
    """The greatest size of the log in bytes while somebody commits and others read all the time."""
    done = threading.Event()
    largest = 0
    with closing(open_sqlite(path, durability="process")) as backend:
        store = Store(backend)

        def read() -> None:
            while not done.is_set():
                store.messages.last("s0", 20)
                store.sessions.list()

        threads = [threading.Thread(target=read) for _ in range(readers)]
        for thread in threads:
            thread.start()
        try:
            for n in range(commits):
                backend.write(commit_of(f"s{n % 50}", f"t{n}", "hello"))
                if n % 50 == 0:
                    largest = max(largest, Path(path + "-wal").stat().st_size)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert store.admin.verify("s0").ok
    print(f"{commits} commits, {readers} readers, log at most {largest / 1e6:.1f} MB")
    return largest


@pytest.mark.slow
def test_the_log_stays_bounded_under_load(quick_folder: Path) -> None:
    assert 0 < largest_log(str(quick_folder / "store.db"), 20_000, 0) < WAL_BYTES_MAX


@pytest.mark.slow
def test_the_log_stays_bounded_while_others_read(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that take turns never leave the log alone, and still it does not grow for ever.

    Everything a tenth as large, so that it is seen in a tenth of the time.
    """
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 400)
    assert 0 < largest_log(str(quick_folder / "store.db"), 2_500, 4) < WAL_BYTES_MAX // 10
