"""`ledgerstone backup`, `restore` and `restored`: what they print, refuse and never touch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.errors import Damaged
from tests.cli.conftest import Cli


def test_a_backup_is_made_verified_and_restored(cli: Cli, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "monday.db"
    root = cli("root", store, "--json").json
    told = cli("backup", store, target, "--json").json
    assert (told["path"], told["tenants"]) == (str(target), 2)
    assert cli("root", target, "--json").json == root
    with Store.open(store) as opened:
        opened.messages.append("trip", user("a mistake"))
    done = cli("restore", target, store, "--yes")
    assert (done.code, done.err) == (0, "")
    assert "kept: " in done.out
    assert cli("verify", "--store", store).code == 0
    with Store.open(store, read_only=True) as opened:
        assert "a mistake" not in [m.text for m in opened.messages.history("trip")]


def test_what_is_there_is_not_replaced(cli: Cli, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "other.txt"
    target.write_text("mine")
    for extra in ([], ["--force"]):
        done = cli("backup", store, target, *extra)
        assert done.code == 2
        assert target.read_text() == "mine"


def test_a_store_is_not_replaced_by_its_own_backup(cli: Cli, store: Path, tmp_path: Path) -> None:
    """What others commit while it is made would be lost."""
    (tmp_path / "link").symlink_to(store.parent)
    for target in (store, tmp_path / "link" / store.name):
        done = cli("backup", store, target, "--force")
        assert (done.code, "the store itself" in done.err) == (2, True)


def test_blobs_in_a_directory_come_along(cli: Cli, tmp_path: Path) -> None:
    blobs = tmp_path / "bytes"
    with Store.open(tmp_path / "a.db", blobs=blobs) as opened:
        ref = opened.blobs.put(b"some bytes")
    assert "blobs=" in cli("backup", tmp_path / "a.db", tmp_path / "b.db").err
    assert cli("backup", tmp_path / "a.db", tmp_path / "b.db", "--blobs", blobs).code == 0
    shutil.rmtree(blobs)
    done = cli("restore", tmp_path / "b.db", tmp_path / "a.db", "--blobs", blobs, "--yes")
    assert done.code == 0, done.err
    with Store.open(tmp_path / "a.db", blobs=blobs, read_only=True) as opened:
        assert opened.blobs.get(ref) == b"some bytes"


def test_an_open_store_is_not_replaced(cli: Cli, store: Path, tmp_path: Path) -> None:
    cli("backup", store, tmp_path / "b.db")
    with Store.open(store):
        done = cli("restore", tmp_path / "b.db", store, "--yes")
    assert done.code == 2
    assert "is open" in done.err


@pytest.mark.parametrize("verb", ["restore", "restored"])
def test_without_a_terminal_it_needs_yes(cli: Cli, store: Path, tmp_path: Path, verb: str) -> None:
    cli("backup", store, tmp_path / "b.db")
    words = ["restore", tmp_path / "b.db", store]
    if verb == "restored":
        words = ["restored", "--store", store]
    with Store.open(store) as opened:
        lease = opened.leases.take("trip", owner="ann", ttl_s=600)
        assert lease is not None
    done = cli(*words)
    assert done.code == 2
    assert "--yes" in done.err
    with Store.open(store, read_only=True) as opened:
        head = opened.sessions.head("trip")
        assert head is not None
        assert head.lease is not None
    assert cli(*words, "--yes").code == 0
    with Store.open(store, read_only=True) as opened:
        head = opened.sessions.head("trip")
        assert head is not None
        assert head.lease is None


def test_servers_and_memory_get_a_word(cli: Cli, tmp_path: Path) -> None:
    done = cli("restore", tmp_path / "b.db", "postgresql://localhost/x", "--yes")
    assert "ledgerstone restored" in done.err
    assert done.code == 2


@pytest.mark.parametrize("content", [b"", b"\0" * 4096], ids=["empty", "zeros"])
@pytest.mark.parametrize("verb", ["sessions", "verify", "doctor"])
def test_a_file_without_a_store_is_refused_and_not_written(
    cli: Cli, tmp_path: Path, verb: str, content: bytes
) -> None:
    path = tmp_path / "empty.db"
    path.write_bytes(content)
    assert cli(verb, "--store", path).code != 0
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["empty.db"]


@pytest.mark.parametrize("verb", ["sessions", "verify", "doctor"])
def test_a_copy_of_a_live_file_alone_is_refused(cli: Cli, tmp_path: Path, verb: str) -> None:
    with Store.open(tmp_path / "a.db") as opened:
        opened.messages.append("s", user("hi"), create=True)
        shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
    assert cli(verb, "--store", tmp_path / "copy.db").code != 0


def test_a_backup_put_beside_an_old_log_by_hand_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as opened:
        opened.messages.append("s", user("good"), create=True)
        opened.admin.backup(tmp_path / "b.db")
        opened.messages.append("s", user("bad"))
        log = (tmp_path / "a.db-wal").read_bytes()
    (tmp_path / "c").mkdir()
    shutil.copy(tmp_path / "b.db", tmp_path / "c" / "a.db")
    (tmp_path / "c" / "a.db-wal").write_bytes(log)
    for read_only in (True, False):
        with pytest.raises(Damaged):
            Store.open(tmp_path / "c" / "a.db", read_only=read_only)
