"""`ledgerstone gc`: what it shows, what it asks, and that it removes nothing unasked."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ledgerstone import Store
from tests.cli.conftest import Cli

USED = b"used" * 1000
LOST = b"lost" * 1000


class Terminal(io.StringIO):
    """Somebody who can be asked."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=["sqlite", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with a blob that an artifact uses, and one that nothing does."""
    url = str(tmp_path / "agent.db") if request.param == "sqlite" else f"file://{tmp_path}/agent"
    with Store.open(url) as store:
        store.sessions.create(id="trip")
        store.artifacts.put("plan", USED, session="trip")
        store.blobs.put(LOST)
        store.memories.put("notes", "old", 1, ttl_s=0.000_001)
    return url


def blobs(place: str) -> int:
    with Store.open(place) as store:
        return store.admin.gc(dry_run=True, older_than_s=0).deleted


class TestGc:
    def test_what_is_young_stays(self, cli: Cli, place: str) -> None:
        done = cli("gc", "--store", place)
        assert done.code == 2  # A memory has expired, and nobody is here to ask.
        lines = {line[:30].strip(): line.split()[-1] for line in done.out.splitlines()}
        assert lines["blobs that stay"] == "2"
        assert lines["blobs that nothing refers to"] == "0"
        assert lines["memories that expired"] == "1"
        assert blobs(place) == 1

    def test_with_yes_it_goes(self, cli: Cli, place: str) -> None:
        done = cli("gc", "--store", place, "--older-than", "0s", "--yes")
        assert (done.code, done.err) == (0, "")
        assert "to free: 4.0 kB" in done.out
        assert "removed 1 blob, 4.0 kB are free again" in done.out
        again = cli("gc", "--store", place, "--older-than", "0s", "--yes")
        assert "nothing to remove" in again.out
        with Store.open(place) as store:
            kept = store.artifacts.read("plan", session="trip")
            assert kept is not None
            assert kept.data == USED

    @pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
    def test_it_asks(
        self, cli: Cli, place: str, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
    ) -> None:
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        done = cli("gc", "--store", place, "--older-than", "0s")
        assert done.code == 0
        assert "Remove this, 1 blob included?" in done.out + done.err
        assert ("nothing was removed" in done.out) is bool(left)
        assert blobs(place) == left

    def test_nobody_is_there_to_ask(self, cli: Cli, place: str) -> None:
        done = cli("gc", "--store", place, "--older-than", "0s")
        assert done.code == 2
        assert "nobody is here to ask; add --yes to remove it" in done.err
        assert blobs(place) == 1

    def test_nobody_answers(self, cli: Cli, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", Terminal(""))
        assert cli("gc", "--store", place, "--older-than", "0s").code == 130
        assert blobs(place) == 1

    def test_json_looks_only(self, cli: Cli, place: str) -> None:
        found = cli("gc", "--store", place, "--older-than", "0s", "--json").json
        assert (found["dry_run"], found["deleted"], found["retained"]) == (True, 1, 1)
        assert (found["freed_bytes"], found["memories"]) == (len(LOST), 1)
        assert blobs(place) == 1

    def test_json_with_yes_removes(self, cli: Cli, place: str) -> None:
        found = cli("gc", "--store", place, "--older-than", "0s", "--json", "--yes").json
        assert (found["dry_run"], found["deleted"], found["freed_bytes"]) == (False, 1, len(LOST))
        assert found["memories"] == 1
        assert blobs(place) == 0

    @pytest.mark.parametrize("text", ["", "soon", "1", "h", "-1h", "1.5h", "9" * 12 + "d"])
    def test_times_that_are_none(self, cli: Cli, place: str, text: str) -> None:
        done = cli("gc", "--store", place, f"--older-than={text}")
        assert done.code == 2
        assert "is no time; write 90s, 15m, 1h, 7d or 2w" in done.err
        assert done.out == ""

    @pytest.mark.parametrize("text", ["0s", "90s", "15m", "1h", "7d", "2w"])
    def test_times(self, cli: Cli, place: str, text: str) -> None:
        assert cli("gc", "--store", place, "--older-than", text, "--json").code == 0

    def test_of_another_tenant(self, cli: Cli, place: str) -> None:
        done = cli("gc", "--store", place, "--older-than", "0s", "--tenant", "red", "--yes")
        assert "nothing to remove" in done.out
        assert blobs(place) == 1

    def test_bytes_that_are_elsewhere(self, cli: Cli, tmp_path: Path) -> None:
        elsewhere = tmp_path / "bytes"
        with Store.open(tmp_path / "s.db", blobs=elsewhere) as store:
            store.blobs.put(LOST)
        words = ("--store", tmp_path / "s.db", "--older-than", "0s", "--yes")
        lost = cli("gc", *words)
        assert "1 more could go, but lie elsewhere: name the place with --blobs" in lost.out
        assert "removed" not in lost.out
        assert "removed 1 blob" in cli("gc", *words, "--blobs", elsewhere).out
        assert [one for one in elsewhere.rglob("*") if one.is_file()] == []
