"""The command line on a directory of journals: the same verbs, the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledgerstone.cli.app import run
from ledgerstone.engines.file.backend import open_file
from tests.backends.journals import bed, fill, filled, journal_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with bed(tmp_path / "store") as backend:
        fill(backend.store)
    return tmp_path / "store"


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run([str(word) for word in words])
    done = capsys.readouterr()
    return code, done.out, done.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["sessions"], "other"),
        (["show", "s"], "three"),
        (["tree", "s"], "side"),
        (["verify"], "no defects"),
        (["verify", "s"], "checked 1 session"),
        (["doctor"], "file, schema 2"),
    ],
)
def test_every_verb_takes_a_file_url(
    path: Path, capsys: pytest.CaptureFixture[str], words: list[str], part: str
) -> None:
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    code, out, err = call(capsys, *words, "--store", f"file:///{path}")
    assert (code, err) == (0, "")
    assert part in out
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_doctor_tells_of_a_torn_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(tmp_path / "store")
    file = journal_of(path, "s")
    file.write_bytes(file.read_bytes()[:-10])
    code, out, _ = call(capsys, "doctor", "--store", f"file:///{path}")
    assert code == 0
    assert "warning: the last line of sessions/" in out
    assert f"{file.name}.torn" in out
    assert call(capsys, "verify", "--store", f"file:///{path}")[0] == 0


def test_damage_is_a_defect(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = journal_of(path, "s")
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    url = f"file:///{path}"
    code, out, _ = call(capsys, "verify", "--json", "--store", url)
    assert code == 1
    (defect,) = json.loads(out)["defects"]
    assert (defect["session"], defect["kind"]) == ("s", "journal")
    assert defect["where"] == f"sessions/{file.name} line 1"
    code, out, _ = call(capsys, "doctor", "--store", url)
    assert code == 1
    assert "damaged" in out
    code, _, err = call(capsys, "show", "s", "--store", url)
    assert code == 1
    assert f"{file.name}" in err
    assert call(capsys, "show", "other", "--store", url)[0] == 0


def test_a_store_that_is_in_use(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backend = open_file(str(path))
    code, _, err = call(capsys, "sessions", "--store", f"file:///{path}")
    backend.close()
    assert code == 2
    assert "open already" in err


@pytest.mark.parametrize("name", ["nowhere", "empty", "a file"])
def test_looking_creates_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a file").write_bytes(b"x")
    before = sorted(tmp_path.rglob("*"))
    code, _, err = call(capsys, "sessions", "--store", f"file:///{tmp_path}/{name}")
    assert code == 2
    assert "nothing was created" in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_bare_path_to_a_directory_says_how_to_open_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, "sessions", "--store", path)
    assert code == 2
    assert f"file://{path}" in err
