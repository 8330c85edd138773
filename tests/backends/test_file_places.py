"""The directory: whose it may be, who may have it open, and that no link is ever followed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.engines.file.backend import open_file
from ledgerstone.errors import (
    Busy,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    ReadOnly,
    SchemaTooNew,
    StoreClosed,
)
from ledgerstone.testing.faults.processes import Child, Say
from tests.backends.journals import bed, fill, filled, journal_of
from tests.backends.places import NOBODY, make_read_only, small_disk

WAIT_S = 60.0


def made(path: Path) -> Path:
    with bed(path, snapshot_lines=1) as backend:
        fill(backend.store)
    return path


def tree(folder: Path) -> dict[str, object]:
    """Everything in a folder: bytes of files, targets of links."""
    return {
        str(path.relative_to(folder)): (
            str(path.readlink()) if path.is_symlink() else path.read_bytes()
        )
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


# --- links


@pytest.mark.parametrize("name", ["store", "store/"])
def test_a_directory_that_is_a_link(tmp_path: Path, name: str) -> None:
    real = made(tmp_path / "real")
    before = tree(real)
    (tmp_path / "store").symlink_to(real)
    with pytest.raises(InvalidValue, match="symbolic link"):
        open_file(f"{tmp_path}/{name}")
    (tmp_path / "store").unlink()
    (tmp_path / "store").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidValue, match="symbolic link"):
        open_file(str(tmp_path / "store"))
    assert tree(real) == before
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "name",
    ["store.json", "lock", "store.jsonl", "sessions", "snapshot.jsonl", "closed.json",
     "sessions/0000000001.jsonl", "sessions/0000000009.jsonl", "sessions/0000000001.jsonl.torn"],
)  # fmt: skip
def test_anything_inside_that_is_a_link(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "store")
    target = tmp_path / "target"
    if (path / name).exists():
        (path / name).rename(target)
    else:
        target.write_bytes(b"precious")
    (path / name).symlink_to(target)
    before, wanted = tree(path), tree(tmp_path)
    with pytest.raises(NotADatabase, match="symbolic link"):
        open_file(str(path))
    assert tree(path) == before
    assert tree(tmp_path) == wanted


def test_a_link_that_comes_while_the_store_is_open(tmp_path: Path) -> None:
    path = made(tmp_path / "store")
    with bed(path) as backend:
        file = journal_of(path, "s")
        backend.store.messages.count("s")
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        before = (tmp_path / "elsewhere").read_bytes()
        with pytest.raises(LedgerstoneError):
            backend.store.messages.append("s", user("x"))
        (tmp_path / "victim").write_bytes(b"")
        new = path / "sessions" / "0000000005.jsonl"
        new.symlink_to(tmp_path / "victim")
        with pytest.raises(LedgerstoneError):
            backend.store.messages.append("new", user("x"), create=True)
        assert (tmp_path / "elsewhere").read_bytes() == before
        assert (tmp_path / "victim").read_bytes() == b""
        assert backend.store.admin.verify("s").defects


# --- what is not ours


def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "letter.txt").write_text("Dear diary")
    before = tree(tmp_path)
    with pytest.raises(NotADatabase, match=r"letter\.txt"):
        open_file(str(tmp_path))
    assert tree(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter.txt", "sub"]


def test_our_directory_without_its_store_json(tmp_path: Path) -> None:
    for rest in ("store.jsonl", "sessions"):
        path = made(tmp_path / rest)
        for name in list(path.iterdir()):
            if name.name not in (rest, "lock"):
                shutil.rmtree(name) if name.is_dir() else name.unlink()
        before = tree(path)
        with pytest.raises(NotADatabase):
            open_file(str(path))
        assert tree(path) == before


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", NotADatabase),
        ("Dear diary", NotADatabase),
        ("[]", NotADatabase),
        ('{"format":"other program","version":1}', NotADatabase),
        ('{"format":"ledgerstone store","version":1}', NotADatabase),
        ('{"format":"ledgerstone store","version":3}', SchemaTooNew),
    ],
)
def test_another_store_json(tmp_path: Path, text: str, error: type[LedgerstoneError]) -> None:
    path = made(tmp_path / "store")
    (path / "store.json").write_text(text)
    before = tree(path)
    with pytest.raises(error):
        open_file(str(path))
    assert tree(path) == before


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for name in ("file", "file/store", "file/deep/store"):
        with pytest.raises(InvalidValue, match="file"):
            open_file(str(tmp_path / name))
    assert (tmp_path / "file").read_bytes() == b"x"


def test_an_empty_directory_and_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    for name in ("empty", "not/yet/there"):
        with bed(tmp_path / name) as backend:
            backend.store.messages.append("s", user("hi"), create=True)
        with bed(tmp_path / name) as backend:
            assert backend.texts("s") == ["hi"]
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "not").stat().st_mode & 0o777 == 0o700


def test_what_a_crash_left_of_a_new_store(tmp_path: Path) -> None:
    """Between making the directory and its store.json: the next one goes on from there."""
    for names in (["lock"], ["lock", "store.json.tmp"], ["lock", "store.json.tmp", "sessions/"]):
        path = tmp_path / str(len(names))
        path.mkdir()
        for name in names:
            (path / name).mkdir() if name.endswith("/") else (path / name).write_bytes(b"")
        with bed(path) as backend:
            backend.store.messages.append("s", user("hi"), create=True)
        assert json.loads((path / "store.json").read_bytes())["format"] == "ledgerstone store"
        assert not (path / "store.json.tmp").exists()


def test_files_of_others_beside_ours_are_left_alone(tmp_path: Path) -> None:
    """A directory may well be under version control."""
    path = made(tmp_path / "store")
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text("ref: x")
    (path / "README").write_text("notes")
    (path / "sessions" / "notes.txt").write_text("mine")
    with bed(path) as backend:
        assert backend.store.admin.health().ok
        backend.store.messages.append("s", user("hi"))
    assert (path / "sessions" / "notes.txt").read_text() == "mine"
    assert (path / ".git" / "HEAD").read_text() == "ref: x"


# --- rights


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_only_the_owner_may_look(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "deep" / "store"
    before = os.umask(umask)
    try:
        with bed(path, snapshot_lines=1) as backend:
            fill(backend.store)
            backend.store.nodes.tombstone("s", ["m2"])
            backend.store.admin.vacuum("s")
        file = journal_of(path, "s")
        with file.open("ab") as end:
            end.write(b"torn")
        bed(path).store.close()
    finally:
        os.umask(before)
    found = [path.parent, path, *path.rglob("*")]
    names = {one.name for one in found}
    assert {"lock", "store.json", "store.jsonl", "snapshot.jsonl", "closed.json"} <= names
    assert any(name.endswith(".torn") for name in names)
    for one in found:
        assert one.stat().st_mode & 0o777 == (0o700 if one.is_dir() else 0o600), one


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="ledgerstone-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def visit(say: Say, path: str) -> None:
    """What somebody without rights gets when he opens a store and writes to it."""
    # What is imported lazily must be there before: nobody may not read our site-packages.
    with tempfile.TemporaryDirectory() as folder, Store.open(f"file:///{folder}/warm") as store:
        store.messages.append("s", user("x"), create=True)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    error, acked = "", 0
    try:
        with Store.open(f"file:///{path}") as store:
            store.messages.append("s", user("from nobody"), create=True)
            acked += 1
    except LedgerstoneError as raised:
        error = type(raised).__name__
    say(json.dumps([error, acked]).encode())


def as_nobody(path: Path) -> tuple[str, int]:
    child = Child(visit, str(path))
    try:
        error, acked = json.loads(next(child.hear(WAIT_S)))
        return error, acked
    finally:
        child.kill()


@pytest.mark.parametrize(
    ("folders", "files"), [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666), (0o777, 0o000)]
)
def test_a_store_that_somebody_may_not_write(open_folder: Path, folders: int, files: int) -> None:
    path = made(open_folder / "store")
    before = tree(path)
    for one in [*path.rglob("*"), path]:
        one.chmod(folders if one.is_dir() else files)
    error, acked = as_nobody(path)
    for one in [path, *path.rglob("*")]:
        one.chmod(0o700)
    assert (error, acked) == ("ReadOnly", 0)
    assert tree(path) == before


def test_a_directory_where_nothing_may_be_made(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    assert as_nobody(open_folder / "store") == ("ReadOnly", 0)
    assert list(open_folder.iterdir()) == []


def test_a_read_only_file_system(tmp_path: Path) -> None:
    """Where nothing may be mounted, the test above asks the same of a folder without rights."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        if disk is None:
            print("capability mount: no")
            return
        path = made(disk / "store")
        make_read_only(disk)
        before = tree(path)
        for name in ("store", "new"):
            with pytest.raises(ReadOnly):
                open_file(str(disk / name))
        assert tree(path) == before


# --- who has it open


def test_a_second_opener_of_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bed(path) as backend:
        backend.store.messages.append("s", user("one"), create=True)
        for _ in range(3):
            with pytest.raises(Busy, match="open already"):
                open_file(str(path))
        backend.store.messages.append("s", user("two"))
    with bed(path) as backend:
        assert backend.texts("s") == ["one", "two"]


def hold(say: Say, path: str) -> None:
    backend = open_file(path)
    Store(backend).messages.append("s", user("held"), create=True)
    say(b"open")
    os.read(os.pipe()[0], 1)  # For ever.


def test_another_process_and_its_end(tmp_path: Path) -> None:
    path = tmp_path / "store"
    child = Child(hold, str(path))
    try:
        assert next(child.hear(WAIT_S)) == b"open"
        with pytest.raises(Busy):
            open_file(str(path))
    finally:
        child.kill()
    with bed(path) as backend:
        assert backend.texts("s") == ["held"]
        backend.store.messages.append("s", user("free again"))


def test_a_failed_opening_lets_go(tmp_path: Path) -> None:
    path = made(tmp_path / "store")
    about = (path / "store.json").read_bytes()
    (path / "store.json").write_bytes(b"x")
    for _ in range(2):
        with pytest.raises(NotADatabase):
            open_file(str(path))
    (path / "store.json").write_bytes(about)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        bed(path).store.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def test_a_fork_has_no_store(tmp_path: Path) -> None:
    """The child may not use it, and does not keep it busy when its parent has let go."""
    path = filled(tmp_path / "store")
    backend = open_file(str(path))
    store = Store(backend)
    ours, theirs = os.pipe()
    wait, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = []
            for call in (
                lambda: store.messages.count("s"),
                lambda: store.messages.append("s", user("from the child")),
                lambda: store.admin.health(),
            ):
                try:
                    call()
                    said.append("nothing")
                except StoreClosed:
                    said.append("closed")
            store.close()
            os.write(theirs, " ".join(said).encode())
            os.read(wait, 1)
        finally:
            os._exit(0)
    try:
        assert os.read(ours, 100) == b"closed closed closed"
        store.messages.append("s", user("from the parent"))
        store.close()
        with bed(path) as again:  # The child is still there.
            assert again.texts("s")[-1] == "from the parent"
    finally:
        os.write(go, b"x")
        os.waitpid(pid, 0)
        for descriptor in (ours, theirs, wait, go):
            os.close(descriptor)


def test_closing_twice_and_using_it_after(tmp_path: Path) -> None:
    backend = open_file(str(tmp_path / "store"))
    store = Store(backend)
    store.messages.append("s", user("one"), create=True)
    backend.close()
    backend.close()
    with pytest.raises(StoreClosed):
        store.messages.count("s")
    with pytest.raises(StoreClosed):
        store.messages.append("s", user("two"))
    with pytest.raises(StoreClosed):
        backend.health()


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    path = made(tmp_path / "store")
    backend = open_file(str(path))
    store = Store(backend)
    path.rename(tmp_path / "moved")
    with pytest.raises(ReadOnly, match="gone"):
        backend.health()
    path.mkdir()
    with pytest.raises(ReadOnly, match="another directory"):
        backend.health()
    store.messages.append("s", user("it follows the directory"))
    backend.close()
    with bed(tmp_path / "moved") as again:
        assert again.texts("s")[-1] == "it follows the directory"


@pytest.mark.parametrize("durability", ["", "none", "disk", 2])
def test_a_durability_it_does_not_know(tmp_path: Path, durability: str) -> None:
    with pytest.raises(InvalidValue, match="durability"):
        Store.open(f"file:///{tmp_path}/store", durability=durability)
    assert not (tmp_path / "store").exists()
