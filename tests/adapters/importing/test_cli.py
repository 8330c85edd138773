"""`ledgerstone import`: what it prints, refuses and leaves alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone import Store
from ledgerstone.adapters.importing import importers
from ledgerstone.adapters.importing.importers import IMPORTERS, prepared
from ledgerstone.adapters.langgraph.saver import LedgerSaver
from ledgerstone.cli.app import run
from ledgerstone.errors import InvalidValue
from tests.adapters.importing.origins import filled, sqlite_origin

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A file of LangGraph's SqliteSaver."""
    origin = sqlite_origin(tmp_path)
    with origin.opened() as saver:
        filled(saver)
    return origin.source


def test_threads_are_imported_and_counted(cli: Cli, source: str, tmp_path: Path) -> None:
    code, out, err = cli("import", "langgraph", source, tmp_path / "agent.db")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split()[:3] == ["SESSIONS", "CHECKPOINTS", "WRITES"]
    assert "imported 2 sessions" in out
    code, out, _ = cli("import", "langgraph", source, tmp_path / "agent.db", "--json")
    told: dict[str, Any] = json.loads(out)
    assert (code, told["checkpoints"], told["sessions"]) == (0, 0, 2)
    assert told["known"] > 20
    with Store.open(tmp_path / "agent.db") as store:
        assert store.messages.count("one") > 2


def test_a_tenant_of_its_own(cli: Cli, source: str, tmp_path: Path) -> None:
    cli("import", "langgraph", source, tmp_path / "agent.db", "--tenant", "red")
    with Store.open(tmp_path / "agent.db", tenant="red") as store:
        assert store.sessions.get("one") is not None
        assert store.for_tenant("default").sessions.get("one") is None


def test_a_dry_run_makes_nothing(cli: Cli, source: str, tmp_path: Path) -> None:
    target = tmp_path / "agent.db"
    code, out, _ = cli("import", "langgraph", source, target, "--dry-run", "--json")
    told = json.loads(out)
    assert (code, told["dry_run"], told["sessions"]) == (0, True, 2)
    assert told["checkpoints"] > 20
    assert not target.exists()
    code, out, _ = cli("import", "langgraph", source, target, "--dry-run")
    assert "this was a dry run" in out


def damaged(source: str, thread: str) -> None:
    connection = apsw.Connection(source)
    connection.execute("update checkpoints set checkpoint = x'c1' where thread_id = ?", (thread,))
    connection.close()


@pytest.fixture(params=("sqlite:///{}/agent.db", "file:{}/new/agent"))
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is not there yet."""
    place: str = request.param
    (tmp_path / "out").mkdir()
    return place.format(tmp_path / "out")


@pytest.mark.parametrize(
    ("thread", "told"),
    [("one", "nothing was imported"), ("two", "1 session came before it and stay")],
)
def test_damage_and_how_to_go_on(
    cli: Cli, source: str, tmp_path: Path, target: str, thread: str, told: str
) -> None:
    damaged(source, thread)
    code, _, err = cli("import", "langgraph", source, target)
    assert code == 1
    assert "corrupt checkpoints" in err
    assert told in err
    assert "--skip-unreadable" in err
    assert err.count("\n") == 1
    assert any((tmp_path / "out").iterdir()) is (thread == "two")
    done = cli("import", "langgraph", source, target, "--skip-unreadable", "--json")
    assert json.loads(done[1])["damaged"] > 0


@pytest.mark.parametrize("puts", [0, 60])
def test_an_interruption_is_told(
    cli: Cli,
    source: str,
    tmp_path: Path,
    target: str,
    puts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, put = [puts], LedgerSaver.put

    def interrupted(*given: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return put(*given)

    monkeypatch.setattr(LedgerSaver, "put", interrupted)
    code, _, err = cli("import", "langgraph", source, target)
    early = puts < 60
    assert (code, "nothing was imported" in err) == (130, early)
    assert ("started again, it goes on there" in err, err.count("\n")) == (not early, 1)
    # Nothing is made for a first session that never came.
    assert any((tmp_path / "out").iterdir()) is not early
    monkeypatch.undo()
    done = json.loads(cli("import", "langgraph", source, target, "--json")[1])
    assert (done["sessions"], done["checkpoints"] + done["known"]) == (2, 44)
    assert (done["known"] > 0) is not early


def test_what_stays_of_a_dry_run(cli: Cli, source: str, tmp_path: Path) -> None:
    damaged(source, "two")
    code, _, err = cli("import", "langgraph", source, str(tmp_path / "agent.db"), "--dry-run")
    assert (code, "1 session came before it; this was a dry run" in err) == (1, True)
    assert "stay" not in err


def test_a_file_with_damaged_pages(cli: Cli, source: str, tmp_path: Path) -> None:
    raw = Path(source).read_bytes()
    half = len(raw) // 2 // 4096 * 4096
    Path(source).write_bytes(raw[:half] + b"\xaa" * (len(raw) - half))
    given = ("import", "langgraph", source, str(tmp_path / "agent.db"), "--skip-unreadable")
    code, _, err = cli(*given)
    assert (code, ".recover" in err, "leaves out" in err) == (1, True, False)


@pytest.mark.parametrize("place", ["agent.db", "file:agent"])
def test_a_target_that_is_there_is_not_rehearsed_for(
    cli: Cli, source: str, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Store.open(place).close()
    monkeypatch.setattr("ledgerstone.cli.import_._rehearse", None)
    assert cli("import", "langgraph", source, place)[0] == 0


def test_flushed_at_the_end_also_while_another_has_the_store(
    cli: Cli, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "agent.db"
    levels: list[str] = []
    flushed: list[str] = []
    work, fsync = importers.prepared, os.fsync

    def prepared(*given: Any, **options: Any) -> Any:
        run = work(*given, **options)

        def noting(store: Store, progress: Any) -> Any:
            levels.append(store.capabilities.durability)
            return run(store, progress)

        return noting

    def noted(file: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{file}").resolve().name)
        fsync(file)

    monkeypatch.setattr("ledgerstone.cli.import_.prepared", prepared)
    monkeypatch.setattr(os, "fsync", noted)
    assert cli("import", "langgraph", source, target)[0] == 0
    assert "agent.db-wal" not in flushed
    with Store.open(target):
        assert cli("import", "langgraph", source, target)[0] == 0
    assert "agent.db-wal" in flushed
    assert levels == ["none", "process", "process"]  # The first one is the rehearsal.


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (("langgraph", "absent.sqlite", "agent.db"), "is no file"),
        (("pickles", "absent.sqlite", "agent.db"), "--help"),
        (("langgraph", "SOURCE", "memory://"), "memory://"),
        (("langgraph", "SOURCE", "agent.db", "--allow", "no class"), "MODULE:CLASS"),
        (("openai-agents", "SOURCE", "agent.db", "--allow", "a:B"), "no such option; see --help"),
        (("openai-agents", "SOURCE", "agent.db"), "no table agent_sessions"),
        (("openai-agents", "", "agent.db"), "give a SQLite file"),
        (("langgraph", "mysql://ada:secret@host/x", "agent.db"), "give a SQLite file"),
        (("langgraph", "postgresql://ada:se@cret@127.0.0.1/x", "agent.db"), "%40"),
        (("langgraph", "postgresql://ada:secret@127.0.0.1:1/x", "agent.db"), "host and port"),
        (("langgraph", "SOURCE", "agent.db", "--tenant", ""), "invalid tenant"),
    ],
)
def test_misuse_is_one_line(
    cli: Cli,
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    word: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("import", *(source if one == "SOURCE" else one for one in given))
    assert (code, out) == (2, "")
    assert word in err
    assert "cret" not in err
    assert err.count("\n") == 1
    assert not (tmp_path / "agent.db").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("framework", IMPORTERS)
def test_every_importer_can_be_called_so(cli: Cli, framework: str, tmp_path: Path) -> None:
    """Another file is refused by each, after its module was found and its options understood."""
    (tmp_path / "other").write_text("not a database, but long enough to be one" * 100)
    code, _, err = cli("import", framework, tmp_path / "other", tmp_path / "agent.db")
    assert code == 2
    assert "is not a database" in err
    assert "check the second argument" in err
    assert [one.name for one in tmp_path.iterdir()] == ["other"]


def test_the_source_as_the_target(cli: Cli, source: str) -> None:
    before = Path(source).read_bytes()
    code, _, err = cli("import", "langgraph", source, source)
    assert (code, "was not touched" in err, "third argument" in err) == (2, True, True)
    assert "--store" not in err
    assert Path(source).read_bytes() == before


def test_unknown_names_are_told() -> None:
    with pytest.raises(InvalidValue, match="langgraph"):
        prepared("pickles", "x")
    with pytest.raises(InvalidValue, match="colour"):
        prepared("langgraph", "x", colour="red")
