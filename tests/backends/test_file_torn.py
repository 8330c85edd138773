"""A crash in the middle of a line: the line is cut off, all before it is there, and it goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.errors import Corrupt
from tests.backends.journals import bed, fill, filled, journal_of, journals, last_journal, lines
from tests.backends.places import quick_disk


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder


def purge_last(store: Store) -> None:
    """The last line of all stands in the store's own journal."""
    fill(store)
    store.sessions.purge("third")


def create_last(store: Store) -> None:
    """The last line of all is the only one of its journal."""
    fill(store)
    store.messages.append("new", user("never heard of"), create=True)


@pytest.mark.slow
def test_the_last_line_torn_at_every_byte(quick: Path) -> None:
    """Whatever is left of it: the turn before it is the last one, and the next one is taken."""
    path = filled(quick / "store")
    file = journal_of(path, "s")
    whole, last = file.read_bytes(), lines(file)[-1]
    assert file == last_journal(path)
    start = len(whole) - len(last)
    for offset in range(len(last)):
        file.write_bytes(whole[: start + offset])
        with bed(path) as backend:
            assert backend.texts("s")[-1] == "three"
            assert backend.texts("other") == ["innocent", "still innocent"]
            warnings = backend.store.admin.health().warnings
            assert backend.store.admin.health().ok
            assert any("unfinished" in text for text in warnings) == (offset > 0)
            if offset % 97 == 0:
                backend.store.messages.append("s", user("goes on", id="m4"))
                assert backend.reopen().admin.verify().ok
                assert backend.texts("s")[-1] == "goes on"
                (path / "closed.json").unlink()
        torn = file.with_name(file.name + ".torn")
        assert torn.exists() == (offset > 0)
        if offset > 0:
            assert torn.read_bytes() == last[:offset]
            assert torn.stat().st_mode & 0o777 == 0o600
            torn.unlink()
        file.write_bytes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("work", [purge_last, create_last])
def test_other_last_lines_torn_at_every_byte(quick: Path, work: Callable[[Store], None]) -> None:
    path = filled(quick / "store", work)
    # A purge that was not finished has not removed the journal of the session either.
    before = filled(quick / "before")
    file = last_journal(path)
    last = lines(file)[-1]
    start = len(file.read_bytes()) - len(last)
    for offset in range(0, len(last), 7):
        copy = quick / "copy"
        shutil.copytree(path, copy)
        for journal in journals(before):
            target = copy / journal.relative_to(before)
            if not target.exists():
                shutil.copy(journal, target)
        torn = copy / file.relative_to(path)
        torn.write_bytes(torn.read_bytes()[: start + offset])
        with bed(copy) as backend:
            assert backend.texts("third") == ["bystander"]
            assert backend.store.sessions.get("new") is None
            assert backend.store.admin.health().ok
            backend.store.messages.append("new", user("now"), create=True)
            assert backend.reopen().admin.verify().ok
            assert backend.texts("new") == ["now"]
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "rest", [bytes(600), b"\xff" * 10, b"\n", b"{}\n", bytes(5000) + b'"}\n', b"a\nb\n\nc"]
)
def test_what_a_power_cut_leaves_in_place_of_a_line(quick: Path, rest: bytes) -> None:
    """A file may have grown while the bytes did not arrive."""
    path = filled(quick / "store")
    file = journal_of(path, "s")
    with file.open("ab") as end:
        end.write(rest)
    with bed(path) as backend:
        assert backend.texts("s")[-1] == "last"
        assert any("unfinished" in text for text in backend.store.admin.health().warnings)
        assert backend.store.admin.verify().ok


def test_a_journal_that_was_made_and_never_written(quick: Path) -> None:
    path = filled(quick / "store")
    empty = path / "sessions" / "0000000077.jsonl"
    empty.touch(mode=0o600)
    with bed(path) as backend:
        assert backend.store.admin.health().warnings == []
        assert backend.store.admin.verify().ok
    assert not empty.exists()


def test_two_torn_journals_are_damage(quick: Path) -> None:
    """Commands are one after the other, so no crash tears two lines."""
    path = filled(quick / "store")
    for name in ("s", "other"):
        file = journal_of(path, name)
        file.write_bytes(file.read_bytes() + b'{"pos":99')
    before = {file: file.read_bytes() for file in journals(path)}
    with bed(path) as backend:
        for name in ("s", "other"):
            with pytest.raises(Corrupt, match=journal_of(path, name).name):
                backend.store.messages.history(name)
        assert backend.texts("third") == ["bystander"]
        assert not backend.store.admin.health().ok
    assert {file: file.read_bytes() for file in journals(path)} == before


def test_a_line_that_others_follow_is_not_torn(quick: Path) -> None:
    """The last line of its journal, but not of the store: acknowledged, so it is damage."""
    path = filled(quick / "store")
    file = journal_of(path, "other")
    for cut in (1, 2, 50, len(lines(file)[-1])):
        copy = quick / f"copy{cut}"
        shutil.copytree(path, copy)
        torn = copy / file.relative_to(path)
        torn.write_bytes(torn.read_bytes()[:-cut])
        with bed(copy) as backend:
            with pytest.raises(Corrupt, match="line 2"):
                backend.store.messages.history("other")
            assert backend.texts("s")[-1] == "last"
            defects = backend.store.admin.verify().defects
            assert [(one.session, one.kind) for one in defects] == [("other", "journal")]


def test_after_a_closing_nothing_is_torn(quick: Path) -> None:
    """A store that was closed on purpose remembers that its last line was whole."""
    path = quick / "store"
    with bed(path) as backend:
        fill(backend.store)
    file = journal_of(path, "s")
    file.write_bytes(file.read_bytes()[:-20])
    with bed(path) as backend, pytest.raises(Corrupt, match=file.name):
        backend.store.messages.history("s")
    (path / "closed.json").unlink()  # Nobody remembers, so it looks like a crash.
    with bed(path) as backend:
        assert backend.texts("s")[-1] == "three"


def test_a_torn_line_beside_an_old_damage_is_still_cut(quick: Path) -> None:
    path = filled(quick / "store")
    damaged, torn = journal_of(path, "other"), journal_of(path, "s")
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    torn.write_bytes(torn.read_bytes()[:-5])
    with bed(path) as backend:
        assert backend.texts("s")[-1] == "three"
        with pytest.raises(Corrupt):
            backend.store.messages.history("other")


def test_cut_off_bytes_are_kept(quick: Path) -> None:
    path = filled(quick / "store")
    file = journal_of(path, "s")
    for n in range(3):
        with file.open("ab") as end:
            end.write(json.dumps({"attempt": n}).encode())
        bed(path).store.close()
        (path / "closed.json").unlink(missing_ok=True)
    kept = file.with_name(file.name + ".torn").read_bytes()
    assert kept == b'{"attempt": 0}{"attempt": 1}{"attempt": 2}'
