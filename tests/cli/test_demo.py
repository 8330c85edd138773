"""The demo, as a process of its own: it must be quick, right, tidy, and able to fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from ledgerstone import Store
from ledgerstone.demo import stage
from ledgerstone.demo.audit import Acknowledged, Audit, audit
from ledgerstone.demo.script import FATAL_STEP, STEPS
from ledgerstone.demo.worker import Orders
from tests.cli.conftest import Cli

LIMIT_S = 60.0
LAST_LINE = f"acknowledged {len(STEPS)}, lost 0, doubled 0"
PROGRAM = [sys.executable, "-c", "from ledgerstone.cli import main; main()"]

pytestmark = pytest.mark.slow


class Played(NamedTuple):
    """What a run of the demo said, and what it left in its temporary directory."""

    done: subprocess.CompletedProcess[str]
    left: list[Path]


def demo(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it with its temporary files below `tmp_path`."""
    return subprocess.run(
        [*PROGRAM, "demo", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path), "LEDGERSTONE_STORE": "memory://"},
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One performance for several judges."""
    folder = tmp_path_factory.mktemp("demo")
    return Played(demo(folder), list(folder.iterdir()))


@pytest.mark.crash
def test_it_ends_with_the_count_in_time_and_leaves_nothing_behind(played: Played) -> None:
    done, left = played
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == LAST_LINE
    assert "\x1b" not in done.stdout
    assert left == []
    assert no_process_is_left(done.stdout)


@pytest.mark.crash
def test_it_tells_the_story_in_order(played: Played) -> None:
    text = played.done.stdout
    marks = [
        "worker 1 owns", "saved 10", "worker 1 asks", "ada      approves", "woken by", "saved 11",
        "KILLED", "store    holds    11 turns", "worker 2 starts", "worker 2 owns", "adopts",
        "saved 12", "revived", "FENCED", "saved 14", "no defects", "approved by ada",
    ]  # fmt: skip
    places = [text.find(mark) for mark in marks]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.crash
def test_as_json_and_kept(tmp_path: Path) -> None:
    done = demo(tmp_path, "--json", "--keep")
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert (found["acknowledged"], found["lost"], found["doubled"]) == (len(STEPS), 0, 0)
    assert (found["ok"], found["fenced"], found["unexpected"]) == (True, True, 0)
    assert found["killed_by"] == "SIGKILL"
    assert found["fences"][0] < found["fences"][1]
    assert (found["payments"], found["approved_by"]) == (1, "ada")
    assert found["seconds"] < LIMIT_S
    assert 0 < found["draft_characters"] < len(STEPS[FATAL_STEP].text)
    with Store.open(found["store"]) as store:
        history = store.messages.history(found["session"])
        assert store.admin.verify().ok
    assert history[FATAL_STEP].body.finish_reason == "interrupted"
    whole = history[FATAL_STEP].text + history[FATAL_STEP + 1].text
    assert whole == STEPS[FATAL_STEP].text
    assert history[-1].text == STEPS[-1].text


@pytest.mark.crash
def test_in_a_store_of_the_caller(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "mine" / "agent.db"
    path.parent.mkdir()
    with Store.open(path, tenant="red") as store:
        store.sessions.create(id="before")
    done = demo(tmp_path, "--store", str(path), "--tenant", "red")
    assert done.stdout.splitlines()[-1] == LAST_LINE
    command = re.search(r"ledgerstone (tree demo-\w+) --store", done.stdout)
    assert command is not None
    drawn = cli(*command[1].split(), "--store", path, "--tenant", "red")
    assert "● 15 assistant" in drawn.out
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]
    with Store.open(path, tenant="red") as store:
        assert store.sessions.count() == 2


@pytest.mark.crash
def test_a_control_c_ends_everything_with_one_line(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        assert process.stdout is not None
        shown = ""
        while "saved  3" not in shown:
            shown += process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert errors == "ledgerstone: interrupted\n"
    assert list(tmp_path.iterdir()) == []
    assert no_process_is_left(shown + rest)


@pytest.mark.parametrize("url", ["memory://", "ftp://x"])
def test_a_store_that_can_not_be_shared_is_refused(tmp_path: Path, url: str) -> None:
    done = demo(tmp_path, "--store", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.crash
def test_a_lost_turn_is_exit_code_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a count that is not zero fails the demo."""

    def worse(store: Store, session: str, turns: list[Acknowledged]) -> Audit:
        return audit(store, session, [*turns, Acknowledged("never-committed", ("nor-this",))])

    monkeypatch.setattr(stage, "audit", worse)
    done = cli("demo")
    assert done.code == 1
    assert done.out.splitlines()[-1] == f"acknowledged {len(STEPS) + 1}, lost 1, doubled 0"


def test_a_worker_that_fails_says_why() -> None:
    worker = stage.Worker("worker 7", Orders("ftp://nowhere", "default", "s", 0.0, 0.0, 1.0))
    try:
        with pytest.raises(stage.StageError, match=r"worker 7 failed: .*unknown scheme 'ftp'"):
            list(worker.reports())
    finally:
        worker.close()


class TestAudit:
    """The count itself."""

    def test_a_turn_that_is_not_there_is_lost(self) -> None:
        found = audit(fake(["t1"], ["m1"]), "s", [turn("t1", "m1"), turn("t2", "m2")])
        assert (found.acknowledged, found.lost, found.doubled) == (2, 1, 0)
        assert not found.ok

    def test_a_message_that_is_not_there_is_lost(self) -> None:
        found = audit(fake(["t1"], ["m1"]), "s", [turn("t1", "m1", "m2")])
        assert (found.lost, found.doubled) == (1, 0)

    def test_what_is_there_twice_is_doubled(self) -> None:
        found = audit(fake(["t1"], ["m1", "m1"]), "s", [turn("t1", "m1")])
        assert (found.lost, found.doubled) == (0, 1)
        found = audit(fake(["t1", "t1"], ["m1"]), "s", [turn("t1", "m1")])
        assert (found.lost, found.doubled) == (0, 1)

    def test_a_turn_that_nobody_acknowledged_is_unexpected(self) -> None:
        found = audit(fake(["t1", "zombie"], ["m1"]), "s", [turn("t1", "m1")])
        assert (found.lost, found.doubled, found.unexpected) == (0, 0, 1)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"lost": 1},
            {"doubled": 1},
            {"unexpected": 1},
            {"payments": 2},
            {"payments": 0},
            {"approved_by": ""},
            {"finished": False},
            {"drafts_left": 1},
            {"defects": ["link at 3"]},
        ],
    )
    def test_one_thing_wrong_is_enough(self, wrong: dict[str, Any]) -> None:
        right = Audit(
            acknowledged=1,
            lost=0,
            doubled=0,
            approved_by="ada",
            payments=1,
            finished=True,
            drafts_left=0,
            unexpected=0,
            defects=[],
        )
        assert right.ok
        assert not msgspec.structs.replace(right, **wrong).ok


def turn(name: str, *messages: str) -> Acknowledged:
    return Acknowledged(name, messages)


def fake(turns: list[str], messages: list[str]) -> Any:
    """A store that holds this, however impossible."""
    body = SimpleNamespace(finish_reason="stop")
    history = [SimpleNamespace(id=name, body=body) for name in messages]
    return SimpleNamespace(
        turns=SimpleNamespace(list=lambda _: [SimpleNamespace(turn=name) for name in turns]),
        messages=SimpleNamespace(history=lambda _: history),
        drafts=SimpleNamespace(list=lambda _: []),
        executions=SimpleNamespace(list=lambda session: []),
        admin=SimpleNamespace(verify=lambda _: SimpleNamespace(defects=[])),
    )


@contextmanager
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*PROGRAM, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        preexec_fn=_hear_interrupts,  # noqa: PLW1509
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _hear_interrupts() -> None:
    """A job in the background inherits an ignored SIGINT; then nothing could interrupt it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def no_process_is_left(text: str) -> bool:
    """Whether every process that the demo named is gone."""
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", text)]
    assert pids
    deadline_s = time.monotonic() + 5
    while any(map(_alive, pids)):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
