"""What goes wrong on a command line: one line, a next step, an exit code, nothing created."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from ledgerstone.cli import main
from tests.cli.conftest import Cli

READERS = [["sessions"], ["show", "trip"], ["tree", "trip"], ["verify"], ["doctor"]]
PROGRAM = [sys.executable, "-c", "from ledgerstone.cli import main; main()"]


def only_line(text: str) -> str:
    """The one line of an error."""
    (line,) = text.splitlines()
    assert line.startswith("ledgerstone: ")
    return line


@pytest.mark.parametrize("words", READERS, ids=lambda words: str(words[0]))
class TestWhichStore:
    def test_no_store_names_both_ways_to_give_one(self, cli: Cli, words: list[str]) -> None:
        done = cli(*words)
        assert (done.code, done.out) == (2, "")
        assert "--store" in only_line(done.err)
        assert "LEDGERSTONE_STORE" in done.err

    @pytest.mark.parametrize("prefix", ["", "sqlite:///"])
    def test_a_missing_file_is_an_error_and_is_not_made(
        self, cli: Cli, tmp_path: Path, words: list[str], prefix: str
    ) -> None:
        done = cli(*words, "--store", f"{prefix}{tmp_path}/deep/none.db")
        assert done.code == 2
        assert "does not exist" in only_line(done.err)
        assert list(tmp_path.iterdir()) == []

    def test_a_directory(self, cli: Cli, tmp_path: Path, words: list[str]) -> None:
        done = cli(*words, "--store", tmp_path)
        assert done.code == 2
        assert "is a directory" in only_line(done.err)

    def test_a_file_of_something_else(self, cli: Cli, tmp_path: Path, words: list[str]) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("these are my notes, and they are longer than a header\n" * 50)
        before = path.read_bytes()
        done = cli(*words, "--store", path)
        assert done.code == 2
        assert "give the file of a store" in only_line(done.err)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_the_database_of_another_program(
        self, cli: Cli, tmp_path: Path, words: list[str]
    ) -> None:
        path = tmp_path / "other.db"
        connection = apsw.Connection(str(path))
        connection.execute("create table things (x)")
        connection.close()
        before = path.read_bytes()
        done = cli(*words, "--store", path)
        assert done.code == 2
        only_line(done.err)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("url", ["memory://", "postgresql://host/db", "ftp://x", "sqlite:x"])
    def test_a_url_that_leads_nowhere(self, cli: Cli, words: list[str], url: str) -> None:
        done = cli(*words, "--store", url)
        assert (done.code, done.out) == (2, "")
        assert len(only_line(done.err)) > 30


@pytest.mark.parametrize("verb", ["show", "tree", "verify"])
def test_an_unknown_session_names_the_verb_that_lists_them(
    cli: Cli, store: Path, verb: str
) -> None:
    done = cli(verb, "nobody", "--store", store)
    assert (done.code, done.out) == (2, "")
    assert "'nobody'" in only_line(done.err)
    assert "ledgerstone sessions" in done.err


def test_an_unknown_branch(cli: Cli, store: Path) -> None:
    done = cli("show", "trip", "--store", store, "--branch", "nope")
    assert done.code == 2
    assert "ledgerstone tree" in only_line(done.err)


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["show"],
        ["sessions", "--colour"],
        ["sessions", "--limit", "many"],
        ["sessions", "--limit", "0"],
        ["sessions", "--cursor", "garbage"],
        ["sessions", "--tenant", ""],
        ["show", "trip", "--last", "-1"],
        ["show", "a\nb"],
        ["sessions", "extra"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line(cli: Cli, store: Path, words: list[str]) -> None:
    known = words[0] in ("sessions", "show")
    done = cli(*words, *(["--store", store] if known and "--colour" not in words else []))
    assert (done.code, done.out) == (2, "")
    assert "--help" in only_line(done.err)


def test_no_verb_shows_the_help(cli: Cli) -> None:
    done = cli()
    assert (done.code, done.err) == (2, "")
    assert "doctor" in done.out


def test_damage_is_a_defect_and_points_to_verify(cli: Cli, store: Path) -> None:
    connection = apsw.Connection(str(store))
    connection.execute("update nodes set body = x'7b' where id = 'm1'")
    connection.close()
    done = cli("show", "trip", "--store", store)
    assert done.code == 1
    assert "ledgerstone verify" in only_line(done.err)


def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "ledgerstone.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "pip install 'ledgerstone[cli]'" in only_line(capsys.readouterr().err)


class TestAsAProgram:
    """In a process of its own, as a shell runs it."""

    def test_a_pipe_gets_no_escape_sequences(self, store: Path) -> None:
        for words in (["sessions"], ["tree", "trip"], ["doctor"], ["show", "trip"], ["--help"]):
            extra = [] if words == ["--help"] else ["--store", str(store)]
            done = subprocess.run([*PROGRAM, *words, *extra], capture_output=True, check=True)
            assert b"\x1b" not in done.stdout
            assert done.stderr == b""

    def test_a_terminal_gets_colours(self, store: Path) -> None:
        words = ["tree", "trip", "--store", str(store)]
        assert "\x1b[" in in_terminal(words)
        assert "├─" in in_terminal(words)
        assert re.search(r"trip.*ada.*Oslo", in_terminal(["sessions", "--store", str(store)]))

    def test_a_reader_that_leaves_early_is_no_error(self, tmp_path: Path) -> None:
        path = tmp_path / "long.db"
        with Store.open(path) as opened:
            opened.messages.append("s", *(user("x" * 500) for _ in range(2000)), create=True)
        words = ["show", "s", "--last", "0", "--store", str(path)]
        with subprocess.Popen(
            [*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""

    def test_an_ascii_terminal_gets_ascii(self, store: Path) -> None:
        done = subprocess.run(
            [*PROGRAM, "tree", "trip", "--store", str(store)],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        )
        assert b"|-* " in done.stdout
        assert b"\\u" not in done.stdout


def in_terminal(words: list[str]) -> str:
    """What a terminal shows."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen([*PROGRAM, *words], stdout=theirs, env=environment) as process:
        os.close(theirs)
        chunks = []
        while chunk := _read(ours):
            chunks.append(chunk)
        os.close(ours)
        assert process.wait() == 0
    return b"".join(chunks).decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        # Linux reports the end of a pseudo terminal as an error.
        return b""
