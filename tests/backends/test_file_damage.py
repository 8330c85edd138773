"""Damage: it is named by file and line, nothing of it is skipped, and the neighbours go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from ledgerstone import Store, user
from ledgerstone.engines.file import journal as file_journal
from ledgerstone.engines.file import lines as file_lines
from ledgerstone.engines.file.lines import Line, decode_line, encode_line
from ledgerstone.engines.memory.rows import Change
from ledgerstone.errors import Corrupt, SchemaTooNew
from ledgerstone.tables.graph import BRANCHES, BranchRow
from ledgerstone.testing.bed import Bed
from tests.backends.journals import bed, fill, filled, journal_of, journals, lines
from tests.backends.places import quick_disk


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A store as a crash left it, every session with several lines."""
    with quick_disk(tmp_path) as folder:
        yield filled(folder / "store", several)


def several(store: Store) -> None:
    fill(store)
    for name in ("third", "other", "s"):
        store.messages.append(name, user(f"more for {name}"))
    store.sessions.purge("third", keep_runs=True)
    store.messages.append("third", user("again"), user("and again"), create=True)
    store.messages.append("third", user("once more"))
    store.messages.append("s", user("the end"))


def damage(file: Path, line: int, random: Random) -> None:
    """Change one byte of a line, wherever; its newline stays, so the lines after it are whole."""
    found = lines(file)
    changed = bytearray(found[line])
    changed[random.randrange(len(changed) - 1)] ^= 1 << random.randrange(7)
    file.write_bytes(b"".join([*found[:line], changed, *found[line + 1 :]]))


def refuses(backend: Bed, session: str) -> str:
    """Every read and every write of the session says Corrupt; answers what it says."""
    store = backend.store
    calls: list[Callable[[], object]] = [
        lambda: store.sessions.get(session),
        lambda: store.sessions.head(session),
        lambda: store.messages.history(session),
        lambda: store.messages.count(session),
        lambda: store.nodes.find("m1"),
        lambda: list(store.nodes.iter()),
        lambda: store.turns.list(session),
        lambda: store.messages.append(session, user("x"), create=True),
        lambda: store.sessions.create(id=session),
        lambda: store.sessions.purge(session),
        lambda: store.sessions.copy(session, "copy"),
        lambda: store.sessions.get_or_create("anybody"),
        lambda: store.leases.take(session),
        lambda: store.admin.vacuum(session),
    ]
    said = set()
    for call in calls:
        with pytest.raises(Corrupt) as caught:
            call()
        said.add(str(caught.value))
    assert len(said) == 1
    return said.pop()


def test_one_damaged_line_of_every_journal(path: Path, seed: int) -> None:
    """Each line of each session but the very last of all, which a crash might have torn."""
    print(f"seed {seed}")
    random = Random(seed)
    tried = 0
    for session in ("s", "other", "third"):
        for line in range(len(lines(journal_of(path, session)))):
            if session == "s" and line == len(lines(journal_of(path, session))) - 1:
                continue
            tried += 1
            copy = path.with_name("copy")
            shutil.copytree(path, copy)
            file = journal_of(path, session)
            damage(copy / file.relative_to(path), line, random)
            check_damaged(copy, session, file.name, line + 1)
            shutil.rmtree(copy)
    assert tried > 10


def check_damaged(path: Path, session: str, name: str, line: int) -> None:
    before = {file: file.read_bytes() for file in journals(path)}
    with bed(path, snapshot_lines=1) as backend:
        said = refuses(backend, session)
        assert name in said
        assert f"line {line}:" in said
        defects = backend.store.admin.verify().defects
        assert [(one.session, one.kind) for one in defects] == [(session, "journal")]
        assert defects[0].where == f"sessions/{name} line {line}"
        health = backend.store.admin.health()
        assert not health.ok
        assert any(name in text for text in health.warnings)
        assert session in [one.id for one in backend.store.sessions.list()]
        for other in {"s", "other", "third"} - {session}:
            assert backend.texts(other)
            backend.store.messages.append(other, user("goes on"))
        backend.reopen()  # It is still known after others have written.
        assert refuses(backend, session) == said
        assert backend.store.admin.verify().sessions == 3
    assert not (path / "snapshot.jsonl").exists(), "a snapshot would hide it"
    damaged = path / "sessions" / name
    assert damaged.read_bytes() == before[damaged]


def test_a_removed_line_and_swapped_lines(path: Path) -> None:
    file = journal_of(path, "s")
    found = lines(file)
    last = len(found) - 1
    for change in (
        [*found[:2], *found[3:]],
        found[1:],
        [found[1], found[0], *found[2:]],
        [*found[:3], found[4], found[3], *found[5:]],
        [*found[:2], found[1], *found[2:]],
        [*found[:last], b"\n", found[last]],
    ):
        file.write_bytes(b"".join(change))
        with bed(path) as backend:
            refuses(backend, "s")
            assert [one.session for one in backend.store.admin.verify().defects] == ["s"]
            assert backend.texts("other")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_lines_removed_from_the_end(path: Path, count: int) -> None:
    """Nothing in the journal itself tells; the lines of the others do."""
    file = journal_of(path, "other")
    file.write_bytes(b"".join(lines(file)[:-count]))
    with bed(path) as backend:
        if count < 3:
            assert "missing" in refuses(backend, "other")
            assert backend.store.admin.verify().defects
            assert backend.texts("s")
        else:
            with pytest.raises(Corrupt, match=file.name):
                backend.store.sessions.list()


def test_a_line_of_another_journal(path: Path) -> None:
    mine, theirs = journal_of(path, "s"), journal_of(path, "other")
    mine.write_bytes(mine.read_bytes() + lines(theirs)[-1])
    with bed(path) as backend:
        assert "belongs to" in refuses(backend, "s")


def test_a_journal_under_another_number(path: Path) -> None:
    shutil.copy(journal_of(path, "other"), path / "sessions" / "0000000099.jsonl")
    with bed(path) as backend:
        with pytest.raises(Corrupt, match="0000000099"):
            backend.store.sessions.get("unknown")
        assert backend.texts("s")


def test_a_removed_journal(path: Path) -> None:
    """Nobody knows any more whose it was: then every unknown id might be it."""
    file = journal_of(path, "other")
    file.unlink()
    with bed(path) as backend:
        for call in (
            lambda: backend.store.sessions.get("other"),
            lambda: backend.store.messages.history("other"),
            lambda: backend.store.messages.append("other", user("x"), create=True),
            lambda: backend.store.sessions.create(id="unknown"),
            lambda: backend.store.sessions.list(),
            lambda: backend.store.sessions.count(),
            lambda: backend.store.admin.verify(),
        ):
            with pytest.raises(Corrupt, match=file.name):
                call()
        assert backend.texts("s")
        backend.store.messages.append("s", user("goes on"))
        assert backend.texts("third")


def test_a_removed_journal_that_a_snapshot_knows(path: Path) -> None:
    bed(path, snapshot_lines=1).store.close()
    with bed(path, snapshot_lines=1) as backend:
        backend.store.messages.append("s", user("one more"))
    journal_of(path, "other").unlink()
    with bed(path) as backend:
        assert "missing" in refuses(backend, "other")
        assert "other" in [one.id for one in backend.store.sessions.list()]
        assert backend.texts("s")


def test_a_journal_with_no_readable_line(path: Path) -> None:
    file = journal_of(path, "other")
    file.write_bytes(bytes(len(file.read_bytes())))
    with bed(path) as backend:
        with pytest.raises(Corrupt, match=file.name):
            backend.store.messages.history("other")
        assert backend.texts("s")


def test_positions_that_nobody_can_place(path: Path) -> None:
    """Two journals lost their ends right after each other: any session might be one of them."""
    stop = json.loads(lines(journal_of(path, "s"))[-1])["pos"]
    for name in ("s", "third"):
        file = journal_of(path, name)
        kept = [line for line in lines(file) if json.loads(line)["pos"] < stop - 3]
        file.write_bytes(b"".join(kept))
    other = journal_of(path, "other")
    (line,) = (line for line in lines(other)[-1:] if json.loads(line)["pos"] < stop)
    said = decode_line(line.rstrip(b"\n"))
    fields = {name: getattr(said, name) for name in Line.__struct_fields__ if name != "sum"}
    later = encode_line(Line(**{**fields, "pos": stop + 5, "after": ()}))[0]
    other.write_bytes(b"".join([*lines(other)[:-1], later]))
    with pytest.raises(Corrupt, match="in no journal"):
        bed(path).store.sessions.list()


def test_the_journal_of_the_store(path: Path, seed: int) -> None:
    """What all sessions share: the store does not open, and says where to look."""
    file = path / "store.jsonl"
    before = {name: name.read_bytes() for name in journals(path)}
    for line in range(len(lines(file))):
        damage(file, line, Random(seed + line))
        with pytest.raises(Corrupt, match=rf"store\.jsonl.*line {line + 1}"):
            bed(path).store.sessions.list()
        file.write_bytes(before[file])
    file.write_bytes(b"".join(lines(file)[:-1]))
    with pytest.raises(Corrupt):
        bed(path).store.sessions.list()
    file.unlink()
    with pytest.raises(Corrupt):
        bed(path).store.sessions.list()


@pytest.mark.parametrize("name", ["s", ""])
def test_a_journal_of_a_newer_version(path: Path, name: str) -> None:
    file = journal_of(path, name) if name else path / "store.jsonl"
    before = file.read_bytes()
    first = decode_line(lines(file)[0].rstrip(b"\n"))
    fields = {field: getattr(first, field) for field in Line.__struct_fields__ if field != "sum"}
    newer = encode_line(Line(**{**fields, "v": 3}))[0]
    file.write_bytes(newer + b"".join(lines(file)[1:]))
    with pytest.raises(SchemaTooNew) as caught:
        bed(path).store.sessions.list()
    assert caught.value.actual == 3
    file.write_bytes(before)
    with bed(path) as backend:
        assert backend.store.admin.verify().ok


# --- damage that comes while the store is open, or lies beneath a snapshot


def test_verify_reads_the_file_again(path: Path) -> None:
    with bed(path) as backend:
        assert backend.store.admin.verify().ok
        file = journal_of(path, "other")
        whole = file.read_bytes()
        data = bytearray(whole)
        data[len(data) // 2] ^= 1
        for change in (
            bytes(data),
            whole[:-10],
            whole[: len(lines(file)[0])],
            whole + b"{}\n",
            b"",
        ):
            file.write_bytes(change)
            defects = backend.store.admin.verify().defects
            assert {one.session for one in defects} == {"other"}
            assert all(file.name in one.where for one in defects)
        file.unlink()
        assert backend.store.admin.verify("other").defects
        file.write_bytes(whole)
        assert backend.store.admin.verify().ok


def test_verify_finds_damage_beneath_a_snapshot(path: Path) -> None:
    bed(path, snapshot_lines=1).store.close()
    file = journal_of(path, "s")
    damage(file, 1, Random(1))
    with bed(path) as backend:
        assert backend.texts("s"), "the snapshot has it"
        (defect,) = backend.store.admin.verify().defects
        assert defect.where == f"sessions/{file.name} line 2"


def test_verify_compares_the_file_with_the_tables(path: Path) -> None:
    """Rows that no line made are found, whatever they are."""
    with bed(path) as backend:
        rows = backend.port._books.rows  # type: ignore[attr-defined]
        rows.place([Change(BRANCHES, (1, "invented"), BranchRow(1, "invented", 1))])
        defects = backend.store.admin.verify("s").defects
        assert "branches" in " ".join(one.where for one in defects)


def test_nothing_is_written_after_what_somebody_else_wrote(path: Path) -> None:
    with bed(path) as backend:
        assert backend.store.admin.verify().ok
        file = journal_of(path, "other")
        whole = file.read_bytes()
        file.write_bytes(whole + b"a line by hand\n")
        with pytest.raises(Corrupt, match="somebody else"):
            backend.store.messages.append("other", user("x"))
        file.write_bytes(whole)
        backend.store.messages.append("other", user("x"))
        assert backend.store.admin.verify().ok


# --- the control


def test_control_without_checksums_damage_goes_unseen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above look at the right thing: with no sum compared, other text is returned."""
    file = journal_of(path, "other")
    file.write_bytes(file.read_bytes().replace(b"still innocent", b"still insolent"))
    with bed(path) as backend:
        refuses(backend, "other")
    monkeypatch.setattr(file_lines, "check_sum", lambda data: None)
    monkeypatch.setattr(file_journal, "check_sum", lambda data: None)
    with bed(path) as backend:
        assert "still insolent" in backend.texts("other")
