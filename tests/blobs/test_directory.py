"""A directory for bytes: nothing leads out of it, nobody else reads it, nothing half is left."""

from __future__ import annotations

import errno
import gc
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ledgerstone.blobs.directory import KEPT_MAX, TEMP_END, Directory
from ledgerstone.blobs.names import key_name, tenant_name
from ledgerstone.engines.file.disk import Disk
from ledgerstone.errors import (
    AlreadyExists,
    BlobNotFound,
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    ReadOnly,
    StorageFull,
    StoreClosed,
    Unavailable,
)
from ledgerstone.records.blobs import CHUNK_BYTES
from ledgerstone.testing.scoreboard import Scoreboard
from tests.backends.places import make_read_only, small_disk
from tests.blobs.hostile import NAMES

TENANT, KEY = "acme", "k"
SECRET = b"not for you"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bytes"


@pytest.fixture
def place(root: Path) -> Iterator[Directory]:
    with closing(Directory(str(root))) as opened:
        yield opened


def put(place: Directory, key: str, *pieces: bytes, tenant: str = TENANT) -> None:
    writer = place.begin(tenant, key)
    for piece in pieces:
        writer.write(piece)
    writer.finish()


def get(place: Directory, key: str, tenant: str = TENANT) -> bytes:
    return b"".join(place.read(tenant, key))


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if not path.is_dir()]


def folder_of(root: Path, key: str = KEY, tenant: str = TENANT) -> Path:
    owner, name = tenant_name(tenant), key_name(key)
    return root / owner[:2] / owner / name[:2]


def file_of(root: Path, key: str = KEY, tenant: str = TENANT) -> Path:
    return folder_of(root, key, tenant) / key_name(key)


def open_files() -> int:
    gc.collect()  # What other tests left to be collected must not go in between.
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def fill(place: Directory, count: int) -> Iterator[str]:
    """Small blobs until there is no room; the keys of those that went in."""
    for n in range(count):
        put(place, str(n), b"x")
        yield str(n)


class TestNames:
    def test_there_are_enough_of_them(self) -> None:
        assert len(NAMES) >= 300

    @pytest.mark.faults
    @pytest.mark.parametrize("role", ["tenants", "keys"])
    def test_nothing_gets_out(
        self, tmp_path: Path, root: Path, role: str, scoreboard: Scoreboard
    ) -> None:
        pairs = [(one, KEY) if role == "tenants" else (TENANT, one) for one in NAMES]
        with (
            scoreboard.line(f"hostile names as {role} of bytes", "directory") as line,
            closing(Directory(str(root))) as place,
        ):
            for n, (tenant, key) in enumerate(pairs):
                put(place, key, str(n).encode(), tenant=tenant)
                line.n += 1
            if [path.name for path in tmp_path.iterdir()] != [root.name]:
                line.violations.append("something is beside the root")
            if len(files(root)) != len(NAMES):
                line.violations.append("two names became one file")
            for n, (tenant, key) in enumerate(pairs):
                if get(place, key, tenant) != str(n).encode():
                    line.violations.append(f"{pairs[n]!r} has other bytes")
            for path in root.rglob("*"):
                if not set(path.name) <= set("0123456789abcdef"):
                    line.violations.append(f"{path.name!r} shows")
            for tenant, key in pairs:
                place.delete(tenant, key)
        assert files(root) == []

    def test_a_key_can_not_be_a_temporary_file(self, place: Directory) -> None:
        put(place, KEY, b"one")
        put(place, KEY + TEMP_END, b"two")
        place.delete(TENANT, KEY)
        assert get(place, KEY + TEMP_END) == b"two"


class TestModes:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
    def test_for_the_owner_alone(self, root: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            with closing(Directory(str(root))) as place:
                put(place, KEY, b"bytes")
                writer = place.begin(TENANT, "unfinished")
                modes = {stat.S_IMODE(path.stat().st_mode) for path in files(root)}
                folders = [path for path in root.rglob("*") if path.is_dir()]
                writer.abort()
        finally:
            os.umask(before)
        assert modes == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in [root, *folders]} == {0o700}

    def test_what_the_caller_made_stays_as_it_is(self, root: Path) -> None:
        root.mkdir(mode=0o755)
        Directory(str(root)).close()
        assert stat.S_IMODE(root.stat().st_mode) == 0o755


class TestRoots:
    def test_a_file(self, root: Path) -> None:
        root.write_bytes(b"mine")
        with pytest.raises(InvalidValue, match="is a file"):
            Directory(str(root))
        assert root.read_bytes() == b"mine"

    def test_below_a_file(self, root: Path) -> None:
        root.write_bytes(b"mine")
        with pytest.raises(InvalidValue, match="a part of"):
            Directory(str(root / "below"))

    def test_a_link(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        root.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(InvalidValue, match="symbolic link"):
            Directory(str(root))

    def test_links_in_a_circle(self, root: Path, tmp_path: Path) -> None:
        root.symlink_to(tmp_path / "there")
        (tmp_path / "there").symlink_to(root)
        for path in (root, root / "below"):
            with pytest.raises(InvalidValue):
                Directory(str(path))

    def test_too_long(self, root: Path) -> None:
        with pytest.raises(InvalidValue, match="leads nowhere"):
            Directory(str(root / ("x" * 300)))

    def test_those_above_are_made(self, root: Path) -> None:
        with closing(Directory(str(root / "a" / "b"))) as place:
            put(place, KEY, b"x")
        assert files(root / "a" / "b") != []

    def test_closed(self, place: Directory) -> None:
        put(place, KEY, b"x")
        place.close()
        for call in (
            lambda: place.begin(TENANT, "new"),
            lambda: get(place, KEY),
            lambda: place.delete(TENANT, KEY),
        ):
            with pytest.raises(StoreClosed):
                call()

    def test_it_is_found_again(self, root: Path) -> None:
        with closing(Directory(str(root))) as place:
            put(place, KEY, b"kept")
        with closing(Directory(str(root))) as place:
            assert get(place, KEY) == b"kept"


class TestLinks:
    """Somebody who may write into the directory plants links that lead out of it."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        folder = tmp_path / "outside"
        folder.mkdir()
        (folder / "file").write_bytes(SECRET)
        return folder

    def test_in_the_place_of_bytes(self, place: Directory, root: Path, outside: Path) -> None:
        put(place, KEY, b"x")
        file_of(root).unlink()
        file_of(root).symlink_to(outside / "file")
        with pytest.raises(Corrupt, match="link"):
            get(place, KEY)
        with pytest.raises(AlreadyExists):
            place.begin(TENANT, KEY)
        place.delete(TENANT, KEY)
        assert (outside / "file").read_bytes() == SECRET
        assert not file_of(root).is_symlink()

    def test_in_the_place_of_a_temporary_file(
        self, place: Directory, root: Path, outside: Path
    ) -> None:
        put(place, "other", b"x")
        folder_of(root).mkdir(parents=True, exist_ok=True)
        (folder_of(root) / (key_name(KEY) + TEMP_END)).symlink_to(outside / "file")
        with pytest.raises(AlreadyExists):
            place.begin(TENANT, KEY)
        assert (outside / "file").read_bytes() == SECRET

    @pytest.mark.parametrize("level", [0, 1, 2])
    def test_in_the_place_of_a_folder(
        self, place: Directory, root: Path, outside: Path, level: int
    ) -> None:
        planted = [*folder_of(root).parents[:2][::-1], folder_of(root)][level]
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.symlink_to(outside)
        for call in (
            lambda: place.begin(TENANT, KEY),
            lambda: get(place, KEY),
            lambda: place.delete(TENANT, KEY),
        ):
            with pytest.raises(NotADatabase, match="not touched"):
                call()
        assert [path.name for path in outside.iterdir()] == ["file"]

    @pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
    def test_what_is_no_file(self, place: Directory, root: Path, kind: str) -> None:
        folder_of(root).mkdir(parents=True)
        if kind == "folder":
            file_of(root).mkdir()
        elif kind == "pipe":
            os.mkfifo(file_of(root))
        else:
            try:
                os.mknod(file_of(root), stat.S_IFCHR | 0o600, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("only root makes devices")
        with pytest.raises((Corrupt, Unavailable)):
            get(place, KEY)


class TestOnce:
    def test_a_key_has_bytes_already(self, place: Directory, root: Path) -> None:
        put(place, KEY, b"first")
        with pytest.raises(AlreadyExists):
            place.begin(TENANT, KEY)
        assert get(place, KEY) == b"first"
        assert files(root) == [file_of(root)]

    def test_a_key_is_being_written(self, place: Directory) -> None:
        writer = place.begin(TENANT, KEY)
        writer.write(b"first")
        with pytest.raises(AlreadyExists):
            place.begin(TENANT, KEY)
        writer.finish()
        assert get(place, KEY) == b"first"

    def test_what_a_kill_left_is_deleted_by_its_key(self, place: Directory, root: Path) -> None:
        writer = place.begin(TENANT, KEY)
        writer.write(b"half")
        assert len(files(root)) == 1
        place.delete(TENANT, KEY)
        assert files(root) == []
        with pytest.raises(BlobNotFound):
            writer.finish()
        assert files(root) == []

    def test_a_reader_outlives_deletion(self, place: Directory) -> None:
        put(place, KEY, b"a" * CHUNK_BYTES, b"b" * CHUNK_BYTES)
        reading = place.read(TENANT, KEY)
        first = next(reading)
        place.delete(TENANT, KEY)
        assert first + b"".join(reading) == b"a" * CHUNK_BYTES + b"b" * CHUNK_BYTES

    def test_descriptors_are_given_back(self, place: Directory) -> None:
        put(place, KEY, b"x" * CHUNK_BYTES, b"y")
        before = open_files()
        for n in range(50):
            put(place, f"k{n}", b"x")
            place.begin(TENANT, f"a{n}").abort()
            next(iter(place.read(TENANT, KEY)))
            with pytest.raises(BlobNotFound):
                get(place, "none")
            place.delete(TENANT, f"k{n}")
        assert open_files() == before

    def test_a_place_that_is_forgotten(self, root: Path) -> None:
        before = open_files()
        for n in range(10):
            put(Directory(str(root)), str(n), b"x")
        assert open_files() == before

    def test_closing_while_others_write(self, root: Path) -> None:
        """They finish, or are told: nothing is written anywhere else."""
        place = Directory(str(root))
        told: list[type[Exception]] = []

        def write(n: int) -> None:
            try:
                for m in range(50):
                    put(place, f"{n} {m}", b"x")
            except StoreClosed as error:
                told.append(type(error))

        with ThreadPoolExecutor(4) as threads:
            for n in range(4):
                threads.submit(write, n)
            while len(files(root)) < 20:
                pass
            place.close()
        assert told == [StoreClosed] * 4
        assert not [path for path in files(root) if path.suffix == TEMP_END]


class TestFull:
    def test_half_way(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "3m") as disk:
            if disk is None:
                pytest.skip("nothing can be mounted here; test_failing_calls tries the same")
            root = disk / "bytes"
            with closing(Directory(str(root))) as place:
                put(place, "early", b"kept")
                writer = place.begin(TENANT, KEY)
                writer.write(b"x" * CHUNK_BYTES)
                with pytest.raises(StorageFull):
                    writer.write(b"x" * 5 * CHUNK_BYTES)
                writer.abort()
                assert files(root) == [file_of(root, "early")]
                assert get(place, "early") == b"kept"
                put(place, "late", b"y" * CHUNK_BYTES)
                assert get(place, "late") == b"y" * CHUNK_BYTES

    def test_no_inodes(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "3m,nr_inodes=20") as disk:
            if disk is None:
                pytest.skip("nothing can be mounted here; test_failing_calls tries the same")
            with closing(Directory(str(disk / "bytes"))) as place:
                kept: list[str] = []
                with pytest.raises(StorageFull):
                    kept.extend(fill(place, 40))
                assert kept
                assert all(get(place, key) == b"x" for key in kept)
                assert not [path for path in files(disk) if path.suffix == TEMP_END]

    def test_a_disk_that_may_only_be_read(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "3m") as disk:
            if disk is None:
                pytest.skip("nothing can be mounted here; test_failing_calls tries the same")
            root = disk / "bytes"
            with closing(Directory(str(root))) as place:
                put(place, KEY, b"kept")
                make_read_only(disk)
                with pytest.raises(ReadOnly):
                    put(place, "new", b"x")
                with pytest.raises(ReadOnly):
                    place.delete(TENANT, KEY)
                assert get(place, KEY) == b"kept"
            with pytest.raises(ReadOnly):
                Directory(str(root))


class Failing(Disk):
    """The n-th call of those that write does not succeed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.left = -1

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(self.number, os.strerror(self.number))

    def make_folder(self, name: str, parent: int | None = None) -> None:
        self._count()
        super().make_folder(name, parent)

    def create(self, folder: int, name: str) -> int:
        self._count()
        return super().create(folder, name)

    def append(self, file: int, data: bytes) -> int:
        self._count()
        return super().append(file, data[: len(data) // 2 + 1])

    def sync(self, file: int) -> None:
        self._count()
        super().sync(file)

    def sync_folder(self, folder: int) -> None:
        self._count()
        super().sync_folder(folder)

    def rename(self, folder: int, old: str, new: str) -> None:
        self._count()
        super().rename(folder, old, new)


def outcome(place: Directory, tenant: str) -> type[LedgerstoneError] | None:
    try:
        put(place, KEY, b"one", b"two", tenant=tenant)
    except LedgerstoneError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, StorageFull), (errno.EIO, Unavailable), (errno.EROFS, ReadOnly)],
)
def test_failing_calls(root: Path, number: int, expected: type[LedgerstoneError]) -> None:
    """Each call in turn fails: the error says so, nothing is left, and the next upload works."""
    disk = Failing(number)
    failures = 0
    with closing(Directory(str(root), disk)) as place:
        put(place, "early", b"kept")
        for n in range(1, 100):
            tenant = f"t{n}"
            disk.left = n
            said = outcome(place, tenant)
            disk.left = -1
            if said is None:
                break
            assert said is expected
            assert files(root) == [file_of(root, "early")]
            failures += 1
            put(place, KEY, b"again", tenant=tenant)
            assert get(place, KEY, tenant) == b"again"
            place.delete(tenant, KEY)
            assert get(place, "early") == b"kept"
    assert failures >= 10, "folders, their flushes, the file, its bytes, its name"


def test_what_is_flushed(root: Path) -> None:
    """Bytes before their name, the name before the answer, and folders before all of it."""
    said: list[str] = []

    class Heard(Disk):
        def make_folder(self, name: str, parent: int | None = None) -> None:
            said.append("folder")
            super().make_folder(name, parent)

        def sync(self, file: int) -> None:
            said.append("bytes")
            super().sync(file)

        def sync_folder(self, folder: int) -> None:
            said.append("names")
            super().sync_folder(folder)

        def rename(self, folder: int, old: str, new: str) -> None:
            said.append("rename")
            super().rename(folder, old, new)

    with closing(Directory(str(root), Heard())) as place:
        said.clear()
        put(place, KEY, b"x")
        assert said == ["folder", "names"] * 3 + ["bytes", "rename", "names"]
        said.clear()
        put(place, KEY, b"x", tenant="other")
        assert said[-3:] == ["bytes", "rename", "names"]
        said.clear()
        place.delete(TENANT, KEY)
        assert said == ["names"]
    with closing(Directory(str(root), Heard())) as place:
        said.clear()
        put(place, KEY, b"x")
        # Whoever made these folders may have died before they were safe.
        assert said == ["names"] * 3 + ["bytes", "rename", "names"]


def test_what_is_remembered_is_bounded(root: Path) -> None:
    with closing(Directory(str(root))) as place:
        place._kept.update(str(n) for n in range(KEPT_MAX))
        put(place, KEY, b"x")
        assert len(place._kept) < 10
