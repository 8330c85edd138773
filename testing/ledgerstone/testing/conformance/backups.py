"""Backups: made under load, a prefix of what was acknowledged; restored, exactly that."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.backups import restore
from ledgerstone.errors import Busy, Corrupt, InvalidValue, NotSupported, ReadOnly
from ledgerstone.testing.bed import Bed

ROUNDS = 3


def url_of(backend: Bed, path: Path) -> str:
    """The url of another store of the same kind."""
    return f"file://{path}" if backend.name == "file" else str(path)


def texts_in(url: str) -> list[str]:
    with Store.open(url, read_only=True) as store:
        return [message.text for message in store.messages.history("s")]


def refused(backend: Bed, path: Path) -> bool:
    """Whether the backend has no files to back up; then it says so, with the next step."""
    if backend.folder is not None:
        return False
    with pytest.raises(NotSupported, match="copy"):
        backend.store.admin.backup(path)
    assert not path.exists()
    return True


class TestBackups:
    @pytest.mark.promise(225)
    def test_a_backup_under_load_is_a_prefix_and_is_restored_as_such(
        self, backend: Bed, tmp_path: Path
    ) -> None:
        folder = tmp_path / "backups"
        folder.mkdir()
        if refused(backend, folder / "b"):
            return
        store, acked, stop = backend.store, list[str](), threading.Event()
        store.sessions.create(id="s")

        def write() -> None:
            while not stop.is_set():
                store.messages.append("s", user(f"m{len(acked)}"))
                acked.append(f"m{len(acked)}")

        writer = threading.Thread(target=write)
        writer.start()
        made = []
        try:
            for n in range(ROUNDS):
                before = len(acked)
                report = store.admin.backup(folder / f"b{n}")
                made.append((folder / f"b{n}", before, report))
        finally:
            stop.set()
            writer.join()
        for path, before, report in made:
            texts = texts_in(url_of(backend, path))
            assert before <= len(texts) == report.turns
            assert texts == acked[: len(texts)]
        assert sorted(folder.iterdir()) == [path for path, _, _ in made]
        path, _, report = made[-1]
        backend.close()
        target = folder / "restored"
        restore(url_of(backend, path), url_of(backend, target))
        assert texts_in(url_of(backend, target)) == acked[: report.turns]

    @pytest.mark.promise(225)
    def test_a_backup_has_everything_of_every_tenant(self, backend: Bed, tmp_path: Path) -> None:
        if refused(backend, tmp_path / "b"):
            return
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        ref = store.blobs.put(b"bytes" * 1000)
        other = store.for_tenant("other")
        other.messages.append("o", user("there"), create=True)
        other.blobs.put(b"more bytes")
        assert store.admin.backup(tmp_path / "b").tenants == 2
        for name in ("default", "other"):
            with Store.open(url_of(backend, tmp_path / "b"), tenant=name, read_only=True) as copy:
                assert copy.admin.root() == backend.open(name).admin.root()
                assert copy.admin.verify(blobs=True).ok
        with Store.open(url_of(backend, tmp_path / "b")) as copy:
            assert copy.blobs.get(ref) == b"bytes" * 1000
            copy.messages.append("s", user("a backup is a store"))

    @pytest.mark.promise(225)
    def test_a_restore_undoes_what_came_after_and_keeps_it_aside(
        self, backend: Bed, tmp_path: Path
    ) -> None:
        if refused(backend, tmp_path / "b"):
            return
        store = backend.store
        store.messages.append("s", user("good"), create=True)
        lease = store.leases.take("s", owner="ann", ttl_s=60)
        assert lease is not None
        store.admin.backup(tmp_path / "b")
        store.messages.append("s", user("bad"), lease=lease)
        with pytest.raises(Busy):
            restore(url_of(backend, tmp_path / "b"), backend.url)
        assert backend.texts("s") == ["good", "bad"]
        backend.close()
        done = restore(url_of(backend, tmp_path / "b"), backend.url)
        assert backend.texts("s") == ["good"]
        taken = backend.store.leases.take("s", owner="bob", ttl_s=60)
        assert taken is not None
        assert taken.fence > lease.fence + 1000
        assert backend.store.admin.verify().ok
        assert texts_in(url_of(backend, Path(done.kept[0]))) == ["good", "bad"]
        assert texts_in(url_of(backend, tmp_path / "b")) == ["good"]

    @pytest.mark.promise(225)
    def test_a_store_is_restored_where_a_link_leads_to(self, backend: Bed, tmp_path: Path) -> None:
        if refused(backend, tmp_path / "b"):
            return
        store = backend.store
        store.messages.append("s", user("good"), create=True)
        store.admin.backup(tmp_path / "b")
        store.messages.append("s", user("bad"))
        backend.close()
        link = tmp_path / "link"
        link.symlink_to(backend.url.removeprefix("sqlite:///").removeprefix("file://"))
        done = restore(url_of(backend, tmp_path / "b"), url_of(backend, link))
        assert link.is_symlink()
        assert backend.texts("s") == ["good"]
        assert texts_in(url_of(backend, Path(done.kept[0]))) == ["good", "bad"]

    @pytest.mark.promise(225)
    def test_what_is_there_is_replaced_only_by_force(self, backend: Bed, tmp_path: Path) -> None:
        if refused(backend, tmp_path / "b"):
            return
        backend.store.messages.append("s", user("one"), create=True)
        backend.store.admin.backup(tmp_path / "b")
        backend.store.messages.append("s", user("two"))
        with pytest.raises(InvalidValue, match="exists"):
            backend.store.admin.backup(tmp_path / "b")
        assert texts_in(url_of(backend, tmp_path / "b")) == ["one"]
        names = {path.name for path in tmp_path.iterdir()}
        backend.store.admin.backup(tmp_path / "b", force=True)
        assert texts_in(url_of(backend, tmp_path / "b")) == ["one", "two"]
        assert {path.name for path in tmp_path.iterdir()} <= names
        with pytest.raises((Busy, InvalidValue)):
            backend.store.admin.backup(backend.url, force=True)
        assert backend.texts("s") == ["one", "two"]

    @pytest.mark.promise(225)
    def test_a_damaged_backup_is_refused_before_the_store_is_touched(
        self, backend: Bed, tmp_path: Path
    ) -> None:
        if refused(backend, tmp_path / "b"):
            return
        backend.store.messages.append("s", user("canary-7f3a"), create=True)
        backend.store.admin.backup(tmp_path / "b")
        backend.store.messages.append("s", user("later"))
        backend.close()
        files = [path for path in (tmp_path / "b").rglob("*") if path.is_file()]
        for path in files or [tmp_path / "b"]:
            path.write_bytes(path.read_bytes().replace(b"canary-7f3a", b"canary-7f3b"))
        with pytest.raises(Corrupt):
            restore(url_of(backend, tmp_path / "b"), backend.url)
        assert backend.texts("s") == ["canary-7f3a", "later"]


class TestReadOnly:
    @pytest.mark.promise(228)
    def test_reading_writes_nothing_and_every_write_is_refused(self, backend: Bed) -> None:
        if not backend.persistent:
            with pytest.raises(NotSupported, match="nothing to read"):
                Store.open(backend.url, read_only=True)
            return
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        store.work.enqueue("s", {"job": 0})
        ref = store.blobs.put(b"bytes")
        root = store.admin.root()
        backend.close()
        before = _files(backend)
        with Store.open(backend.url, clock=backend.clock, read_only=True) as reader:
            assert [message.text for message in reader.messages.history("s")] == ["hi"]
            assert reader.blobs.get(ref) == b"bytes"
            assert reader.admin.root() == root
            assert reader.admin.health().ok
            assert reader.admin.verify(blobs=True).ok
            for write in (
                lambda: reader.messages.append("s", user("no")),
                lambda: reader.sessions.create(id="t"),
                lambda: reader.leases.take("s", owner="me"),
                lambda: reader.work.enqueue("s", {"job": 1}),
                lambda: reader.work.take(owner="me"),
                lambda: reader.blobs.put(b"other"),
                lambda: reader.memories.put("n", "k", {"a": 1}),
                lambda: reader.sessions.purge("s"),
                reader.admin.after_restore,
                reader.admin.vacuum,
            ):
                with pytest.raises(ReadOnly):
                    write()
        assert _files(backend) == before
        assert backend.store.admin.root() == root

    @pytest.mark.promise(228)
    def test_a_reader_sees_what_a_writer_commits(self, backend: Bed) -> None:
        if backend.shared:
            return  # One at a time: nobody can read beside a writer.
        backend.store.messages.append("s", user("one"), create=True)
        with Store.open(backend.url, clock=backend.clock, read_only=True) as reader:
            assert len(reader.messages.history("s")) == 1
            backend.store.messages.append("s", user("two"))
            assert len(reader.messages.history("s")) == 2


def _files(backend: Bed) -> dict[str, tuple[int, bytes]]:
    """Every file of the store with its time and content; nothing where there are none."""
    if backend.folder is None:
        return {}
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(backend.folder.rglob("*"))
    }
