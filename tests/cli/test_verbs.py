"""Every verb, for people and for programs."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from ledgerstone import Store, user
from tests.cli.conftest import ESCAPE, SECRET, Cli

VERBS = [
    "demo", "sessions", "runs", "work", "usage", "inbox", "executions", "show", "tree", "verify",
    "gc", "doctor",
]  # fmt: skip
READERS: list[list[str]] = [["sessions"], ["runs"], ["tree", "trip"], ["verify"], ["doctor"]]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.code == 0
    assert f"Example: ledgerstone {verb}" in done.out
    for option in ("--json", "--store", "--tenant"):
        assert option in done.out


def test_the_program_lists_its_verbs(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0
    assert all(verb in done.out for verb in VERBS)


class TestSessions:
    def test_a_line_for_each_live_session(self, cli: Cli, store: Path) -> None:
        done = cli("sessions", "--store", store)
        header, line = done.out.splitlines()
        assert done.code == 0
        assert header.split() == [
            "SESSION", "USER", "TITLE", "MESSAGES", "REVISION", "UPDATED", "STATE",
        ]  # fmt: skip
        assert line.split()[:5] == ["trip", "ada", "Oslo", "4", "5"]

    def test_deleted_ones_on_request(self, cli: Cli, store: Path) -> None:
        done = cli("sessions", "--store", store, "--deleted")
        lines = {line.split()[0]: line for line in done.out.splitlines()[1:]}
        assert set(lines) == {"trip", "gone"}
        assert lines["gone"].endswith("deleted")

    def test_as_json(self, cli: Cli, store: Path) -> None:
        found = cli("sessions", "--store", store, "--json").json
        assert (found["total"], found["cursor"]) == (1, None)
        (item,) = found["sessions"]
        assert (item["session"]["id"], item["revision"], item["messages"]) == ("trip", 5, 4)
        assert [branch["name"] for branch in item["branches"]] == ["cheap"]

    def test_of_another_tenant(self, cli: Cli, store: Path) -> None:
        assert "red-1" in cli("sessions", "--store", store, "--tenant", "red").out
        empty = cli("sessions", "--store", store, "--tenant", "blue")
        assert empty.code == 0
        assert "no sessions of tenant blue" in empty.out
        assert "default, red" in empty.out

    def test_a_filter_and_pages(self, cli: Cli, store: Path) -> None:
        assert "trip" in cli("sessions", "--store", store, "--user", "ada").out
        assert "trip" not in cli("sessions", "--store", store, "--user", "bob").out
        first = cli("sessions", "--store", store, "--deleted", "--limit", 1, "--json").json
        assert first["total"] == 2
        second = cli(
            "sessions", "--store", store, "--deleted", "--json", "--cursor", first["cursor"]
        ).json
        seen = [page["sessions"][0]["session"]["id"] for page in (first, second)]
        assert sorted(seen) == ["gone", "trip"]
        page = cli("sessions", "--store", store, "--deleted", "--limit", 1)
        assert f"--cursor {first['cursor']}" in page.out

    def test_a_lease_is_shown(self, cli: Cli, store: Path) -> None:
        with Store.open(store) as opened:
            opened.leases.take("trip", owner="w")
        assert "held, fence 1" in cli("sessions", "--store", store).out

    def test_from_the_environment(
        self, cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LEDGERSTONE_STORE", f"sqlite:///{store}")
        assert "trip" in cli("sessions").out


class TestShow:
    def test_the_session_and_what_was_said(self, cli: Cli, store: Path) -> None:
        done = cli("show", "trip", "--store", store)
        assert done.code == 0
        assert "title     Oslo" in done.out
        assert "branches  cheap" in done.out
        assert SECRET in done.out
        assert 'calls pay {"eur": 120}  [call-1]' in done.out
        assert 'returns {"ok": true}  [call-1]' in done.out
        assert "second answer" in done.out
        assert "first answer" not in done.out

    def test_what_steers_a_terminal_is_shown_as_text(self, cli: Cli, store: Path) -> None:
        done = cli("show", "trip", "--store", store)
        assert "\x1b" not in done.out
        assert "\\x1b[31mred\\x1b[0m" in done.out

    def test_the_newest_ones_only(self, cli: Cli, store: Path) -> None:
        done = cli("show", "trip", "--store", store, "--last", 1)
        assert "3 earlier messages" in done.out
        assert SECRET not in done.out
        assert SECRET in cli("show", "trip", "--store", store, "--last", 0).out

    def test_another_branch(self, cli: Cli, store: Path) -> None:
        done = cli("show", "trip", "--store", store, "--branch", "cheap")
        assert "by bus" in done.out
        assert "second answer" not in done.out

    def test_as_json(self, cli: Cli, store: Path) -> None:
        found = cli("show", "trip", "--store", store, "--json").json
        assert found["session"]["id"] == "trip"
        assert found["head"]["revision"] == 5
        assert [message["id"] for message in found["messages"]] == ["m1", "m2", "m3", "m4"]
        text = found["messages"][0]["body"]["parts"][0]["text"]
        assert text == f"{SECRET} and {ESCAPE}"

    def test_text_that_no_terminal_can_show(self, cli: Cli, tmp_path: Path) -> None:
        path = tmp_path / "odd.db"
        with Store.open(path) as opened:
            opened.messages.append("odd", user("a\ud800b\x00c\u202ed"), create=True)
        assert "a\\ud800b\\x00c\\u202ed" in cli("show", "odd", "--store", path).out
        (message,) = cli("show", "odd", "--store", path, "--json").json["messages"]
        assert message["body"]["parts"][0]["text"] == "a\ud800b\x00c\u202ed"

    def test_a_session_without_messages(self, cli: Cli, tmp_path: Path) -> None:
        path = tmp_path / "empty.db"
        with Store.open(path) as opened:
            opened.sessions.create(id="s")
        assert "revision  0" in cli("show", "s", "--store", path).out
        assert cli("show", "s", "--store", path, "--json").json["messages"] == []


class TestVerify:
    def test_a_sound_store(self, cli: Cli, store: Path) -> None:
        done = cli("verify", "--store", store)
        assert done.code == 0
        # Both live and deleted sessions, of every tenant.
        assert done.out.startswith("checked 3 sessions, 7 turns, 9 nodes, 0 values: no defects")

    def test_one_session_or_tenant(self, cli: Cli, store: Path) -> None:
        assert "1 session," in cli("verify", "red-1", "--store", store).out
        assert "2 sessions," in cli("verify", "--store", store, "--tenant", "default").out

    def test_as_json(self, cli: Cli, store: Path) -> None:
        found = cli("verify", "--store", store, "--json").json
        assert (found["ok"], found["sessions"], found["defects"]) == (True, 3, [])

    def test_bytes_are_read_when_asked_for(self, cli: Cli, store: Path, tmp_path: Path) -> None:
        folder = tmp_path / "bytes"
        with Store.open(store, blobs=folder) as opened:
            opened.blobs.put(b"as it was")
        where = ("--store", store, "--blobs", folder)
        assert "1 blob: no defects" in cli("verify", *where, "--bytes").out
        (file,) = (path for path in folder.rglob("*") if path.is_file())
        file.write_bytes(b"as it is!")
        assert cli("verify", *where).code == 0
        done = cli("verify", *where, "--bytes", "--json")
        assert (done.code, done.json["blobs"]) == (1, 1)
        assert len(done.json["defects"]) == 1

    def test_a_changed_word_is_named_and_is_exit_code_1(self, cli: Cli, store: Path) -> None:
        tamper(store)
        done = cli("verify", "--store", store)
        assert done.code == 1
        assert "trip" in done.out
        assert "gone" not in done.out
        assert SECRET not in done.out
        found = cli("verify", "--store", store, "--json")
        assert found.code == 1
        assert found.json["ok"] is False
        assert {defect["session"] for defect in found.json["defects"]} == {"trip"}
        assert {defect["tenant"] for defect in found.json["defects"]} == {"default"}


class TestDoctor:
    def test_versions_durability_sizes_counts_and_a_next_step(self, cli: Cli, store: Path) -> None:
        done = cli("doctor", "--store", store)
        assert done.code == 0
        facts = {line.split()[0]: line for line in done.out.splitlines() if line.strip()}
        assert facts["python"].split()[1] == platform.python_version()
        assert facts["sqlite"].split()[1] == apsw.sqlite_lib_version()
        assert facts["msgspec"].split()[1] == msgspec.__version__
        assert "ledgerstone" in facts
        assert "power: what was acknowledged survives a power cut" in facts["durability"]
        assert "2 of tenant default, 1 of tenant red" in done.out
        assert facts["database"].split()[2] in ("kB", "MB")
        assert "next: " in done.out

    def test_as_json(self, cli: Cli, store: Path) -> None:
        found: dict[str, Any] = cli("doctor", "--store", store, "--json").json
        assert found["ok"] is True
        assert found["durability"] == "power"
        assert found["tenants"] == {"default": 2, "red": 1}
        assert found["sizes_bytes"]["database"] > 0
        assert found["counts"]["turns"] == 7
        assert found["next_steps"]

    def test_an_empty_store_is_told_what_to_do(self, cli: Cli, tmp_path: Path) -> None:
        path = tmp_path / "empty.db"
        Store.open(path).close()
        assert "ledgerstone demo" in cli("doctor", "--store", path).out


@pytest.mark.parametrize("words", READERS, ids=lambda words: str(words[0]))
@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["plain", "json"])
def test_only_show_prints_what_was_said(
    cli: Cli, store: Path, words: list[str], extra: list[str]
) -> None:
    done = cli(*words, "--store", store, *extra)
    assert done.code == 0
    assert SECRET not in done.out
    assert "second answer" not in done.out
    assert done.err == ""


def tamper(path: Path) -> None:
    """Change one word of what was said, behind the back of the store."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "update nodes set body = cast(replace(cast(body as text), 'second', 'zecond') as blob)"
    )
    connection.close()
