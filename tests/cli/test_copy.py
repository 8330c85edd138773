"""`ledgerstone copy` and `ledgerstone root`: what they print, refuse and never create."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from tests.cli.conftest import ESCAPE, Cli


def text(store: Path) -> str:
    with Store.open(store, tenant="red") as opened:
        return opened.messages.history("red-1")[0].text


@pytest.fixture(params=["sqlite", "file"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "b.db") if request.param == "sqlite" else f"file://{tmp_path}/b"


def test_a_store_is_copied_and_proved(cli: Cli, store: Path, target: str) -> None:
    done = cli("copy", store, target)
    assert (done.code, done.err) == (0, "")
    assert "copied 2 tenants" in done.out
    root = cli("root", store, "--json").json
    assert cli("root", target, "--json").json == root
    assert root["root"] in done.out
    assert {one["tenant"] for one in root["tenants"]} == {"default", "red"}
    assert cli("verify", "--store", target, "--bytes").code == 0


def test_a_second_copy_says_that_nothing_was_written(cli: Cli, store: Path, target: str) -> None:
    cli("copy", store, target)
    assert "0 rows written" in cli("copy", store, target).out


def test_json_for_programs(cli: Cli, store: Path, target: str) -> None:
    told = cli("copy", store, target, "--tenant", "red", "--json").json
    (one,) = told["tenants"]
    assert one["tenant"] == "red"
    assert one["rows"]["sessions"] == 1
    assert one["written"] == sum(one["rows"].values())
    assert cli("root", target, "--json").json["tenants"][0]["root"] == one["root"]


def test_the_root_of_one_tenant(cli: Cli, store: Path) -> None:
    whole = cli("root", store, "--json").json["tenants"]
    (red,) = cli("root", store, "--tenant", "red", "--json").json["tenants"]
    assert red in whole
    assert red["root"] in cli("root", store, "--tenant", "red").out


def test_names_from_a_store_do_not_steer_the_terminal(cli: Cli, tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db", tenant="odd name") as store:
        store.sessions.create(id="s", title=ESCAPE)
    done = cli("copy", tmp_path / "a.db", tmp_path / "b.db")
    assert done.code == 0
    assert "\x1b" not in done.out + cli("root", tmp_path / "b.db").out


def test_other_content_is_refused_with_its_row(cli: Cli, store: Path, target: str) -> None:
    with Store.open(target) as opened:
        opened.messages.append("mine", user("keep me"), create=True)
    before = cli("root", target).out
    done = cli("copy", store, target)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "sessions mine" in done.err
    assert "empty place" in done.err
    assert cli("root", target).out == before


@pytest.mark.parametrize("verb", [["copy", "{}", "{}.new"], ["root", "{}"]])
@pytest.mark.parametrize("place", ["missing.db", "file:{}/missing", "folder"])
def test_a_source_that_is_not_there_is_not_created(
    cli: Cli, tmp_path: Path, verb: list[str], place: str
) -> None:
    (tmp_path / "folder").mkdir()
    source = place.format(f"//{tmp_path}") if ":" in place else str(tmp_path / place)
    done = cli(*(word.format(source) for word in verb))
    assert done.code == 2
    assert "nothing was created" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_same_store_twice(cli: Cli, store: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(store)
    for other in (store, f"sqlite:///{store}", tmp_path / "link.db", f"{tmp_path}/./{store.name}"):
        done = cli("copy", store, other)
        assert (done.code, "same store" in done.err) == (2, True), done
    done = cli("copy", f"file://{tmp_path}/x", f"file://{tmp_path}/x/")
    assert (done.code, "same store" in done.err) == (2, True)


def test_memory_is_no_place_for_a_command(cli: Cli, store: Path) -> None:
    for places in (("memory://", "b.db"), (store, "memory://")):
        done = cli("copy", *places)
        assert (done.code, "one process" in done.err) == (2, True)


def test_a_newer_schema_is_refused_on_either_side(cli: Cli, store: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    Store.open(newer).close()
    connection = apsw.Connection(str(newer))
    connection.execute("pragma user_version = 99")
    connection.close()
    for places in ((newer, tmp_path / "new.db"), (store, newer)):
        done = cli("copy", *places)
        assert (done.code, "newer" in done.err) == (2, True), done
    assert not (tmp_path / "new.db").exists()
    assert text(store)


def test_a_target_that_can_not_be_written(cli: Cli, store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no directory")
    (tmp_path / "other.db").write_bytes(b"no database" * 100)
    for target in ("file/b.db", "other.db"):
        done = cli("copy", store, tmp_path / target)
        assert done.code == 2
        assert done.err.count("\n") == 1
    assert (tmp_path / "other.db").read_bytes() == b"no database" * 100


def test_bytes_elsewhere_have_to_be_named(cli: Cli, tmp_path: Path) -> None:
    source, place = tmp_path / "a.db", (tmp_path / "bytes").as_uri()
    with Store.open(source, blobs=place) as store:
        store.artifacts.put("plan", b"x" * 1000)
    done = cli("copy", source, tmp_path / "b.db")
    assert (done.code, "blobs" in done.err) == (2, True)
    there = (tmp_path / "more bytes").as_uri()
    named = ("--source-blobs", place, "--target-blobs", there)
    assert cli("copy", source, tmp_path / "b.db", *named).code == 0
    with Store.open(tmp_path / "b.db", blobs=there) as store:
        assert store.admin.verify(blobs=True).ok
