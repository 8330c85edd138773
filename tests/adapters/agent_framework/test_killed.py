"""Killed in the middle: a workflow goes on from its last checkpoint, a history has whole runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone import Store
from ledgerstone.adapters.agent_framework import LedgerCheckpointStorage, LedgerHistoryProvider
from tests.adapters.agent_framework import dying

STEPS = ["first", "second", "third"]
pytestmark = pytest.mark.crash


@pytest.mark.parametrize("where", STEPS[1:])
def test_a_workflow(lasting_url: str, tmp_path: Path, where: str) -> None:
    """What a checkpoint says is done is not done again; the step under way is, as documented."""
    log = tmp_path / "log"
    die(lasting_url, log, where, "workflow")

    async def after(store: Store) -> list[str]:
        latest = await LedgerCheckpointStorage(store).get_latest(workflow_name="steps")
        assert latest is not None
        resumed = dying.workflow(store, dying.Diary(log, ""))
        found = await resumed.run(checkpoint_id=latest.checkpoint_id)
        outputs: list[str] = found.get_outputs()
        return outputs

    with Store.open(lasting_url) as store:
        assert asyncio.run(after(store)) == ["go first second third"]
    at = STEPS.index(where)
    assert log.read_text().split() == [*STEPS[: at + 1], *STEPS[at:]]


def test_an_agent(lasting_url: str, tmp_path: Path) -> None:
    """The run that was cut off is not there at all, the one before it is."""
    die(lasting_url, tmp_path / "log", "pay", "talk")
    with Store.open(lasting_url) as store:
        history = asyncio.run(LedgerHistoryProvider(store).get_messages("talk"))
        assert [one.text for one in history] == ["hi", "hello"]


def die(url: str, log: Path, where: str, what: str) -> None:
    program = f"from {dying.__name__} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, url, str(log), where, what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == -9, done.stderr
