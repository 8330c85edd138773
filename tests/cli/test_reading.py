"""Verbs that only read change no byte of a store, nor beside it; where none is, they say so."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from tests.cli.conftest import Cli

FILL = """
import os, signal, sys
from ledgerstone import Store, user
store = Store.open(sys.argv[1])
store.messages.append("trip", user("hello", id="m1"), create=True)
store.artifacts.put("plan", b"bytes", session="trip")
store.work.enqueue("trip", 1, id="w0")
with store.work.hold() as (_, claim):
    store.work.fail(claim, "broke", bury=True)
with store.leases.hold("trip") as lease:
    store.executions.start(lease, id="e1", call_id="c1", tool="pay")
store.work.enqueue("trip", 1, id="w1")
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
store.close()
"""
PLACES = {
    "closed": ("agent.db", "close"),
    "killed": ("agent.db", "kill"),
    "file": ("file://{}/agent", "close"),
    "file killed": ("file://{}/agent", "kill"),
}
READERS = [
    ["sessions"],
    ["sessions", "--tenant", "nobody"],
    ["show", "trip"],
    ["tree", "trip"],
    ["runs"],
    ["usage"],
    ["inbox"],
    ["work"],
    ["work", "trip"],
    ["work", "--dead"],
    ["work", "--stuck"],
    ["executions"],
    ["executions", "--session", "trip"],
    ["executions", "show", "e1"],
    ["verify"],
    ["doctor"],
]


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below: its bytes, and when it was last written."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module", params=PLACES)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that another process left behind."""
    name, end = PLACES[request.param]
    folder = tmp_path_factory.mktemp("left")
    url = name.format(folder) if name.startswith("file:") else str(folder / name)
    done = subprocess.run([sys.executable, "-c", FILL, url, end], timeout=60, check=False)
    assert done.returncode == (-signal.SIGKILL if end == "kill" else 0)
    if request.param == "killed":
        assert (folder / "agent.db-wal").stat().st_size > 0
    return url


def folder_of(url: str) -> Path:
    return Path(url.removeprefix("file://")).parent


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_reading_changes_nothing(cli: Cli, left: str, words: list[str], extra: list[str]) -> None:
    before = contents(folder_of(left))
    done = cli(*words, *extra, "--store", left)
    assert (done.code, done.err) == (0, "")
    assert contents(folder_of(left)) == before


@pytest.mark.parametrize("verb", ["root", "copy", "backup"])
def test_a_source_is_only_read(cli: Cli, left: str, tmp_path: Path, verb: str) -> None:
    before = contents(folder_of(left))
    words = [verb, left] if verb == "root" else [verb, left, tmp_path / "copy.db"]
    done = cli(*words)
    if verb == "backup" and left.startswith("file:"):
        assert done.code in (0, 2)
    else:
        assert done.code == 0, done.err
    assert contents(folder_of(left)) == before


@pytest.mark.parametrize("words", [["sessions"], ["show", "trip"], ["verify"], ["executions"]])
def test_what_a_log_holds_is_read(cli: Cli, left: str, words: list[str]) -> None:
    wanted = {"sessions": "trip", "show": "hello", "verify": "no defects", "executions": "e1"}
    assert wanted[words[0]] in cli(*words, "--store", left).out


def empty_file(folder: Path) -> str:
    (folder / "a.db").touch()
    return str(folder / "a.db")


def copy_of_a_live_file(folder: Path) -> str:
    (folder / "live").mkdir()
    with Store.open(folder / "live" / "a.db") as store:
        store.messages.append("s", user("hi"), create=True)
        shutil.copy(folder / "live" / "a.db", folder / "a.db")
    return str(folder / "a.db")


def first_page(folder: Path) -> str:
    """What a copy of a live file is while the rest is in its log."""
    path = Path(copy_of_a_live_file(folder))
    path.write_bytes(path.read_bytes()[:4096])
    return str(path)


def missing_file(folder: Path) -> str:
    return str(folder / "a.db")


def other_application(folder: Path) -> str:
    connection = apsw.Connection(str(folder / "a.db"))
    connection.execute("create table notes (body); insert into notes values ('mine')")
    connection.close()
    return str(folder / "a.db")


def empty_directory(folder: Path) -> str:
    (folder / "a").mkdir()
    return str(folder / "a")


def empty_journals(folder: Path) -> str:
    return f"file://{empty_directory(folder)}"


def missing_journals(folder: Path) -> str:
    return f"file://{folder}/a"


NOWHERE: list[Callable[[Path], str]] = [
    empty_file, copy_of_a_live_file, first_page, missing_file, other_application,
    empty_directory, empty_journals, missing_journals,
]  # fmt: skip


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize("verb", ["verify", "doctor", "sessions", "executions"])
@pytest.mark.parametrize("make", NOWHERE, ids=lambda make: make.__name__)
def test_where_no_store_is(
    cli: Cli, tmp_path: Path, make: Callable[[Path], str], verb: str, extra: list[str]
) -> None:
    url = make(tmp_path)
    before = (contents(tmp_path), sorted(tmp_path.rglob("*")))
    done = cli(verb, "--store", url, *extra)
    assert done.code in (1, 2)
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("ledgerstone: ")
    assert url.removeprefix("file://") in line
    assert ";" in line  # What to do next stands behind it.
    assert (contents(tmp_path), sorted(tmp_path.rglob("*"))) == before
