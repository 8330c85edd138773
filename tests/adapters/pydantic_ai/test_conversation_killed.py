"""Processes that are killed while they converse: what was acknowledged is there, once."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import pytest

from ledgerstone import Store
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore
from ledgerstone.testing.faults.processes import PRELOAD, server
from tests.adapters.pydantic_ai import conversing
from tests.adapters.pydantic_ai.conversing import TALK

KILLS = 4
WAIT_S = 60.0

# Importing the library takes seconds: the server that processes are forked from does it once.
PRELOAD.append(conversing.__name__)


@pytest.mark.crash
def test_killed_while_it_converses(lasting_url: str, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng, log = random.Random(seed), tmp_path / "log"
    log.touch()
    for _ in range(KILLS):
        _kill(lasting_url, log, rng)
    told = [line.split() for line in log.read_text().splitlines()]
    with Store.open(lasting_url) as store:
        asyncio.run(_check(store, told))
        assert store.admin.verify().ok


def _kill(url: str, log: Path, rng: random.Random) -> None:
    """Let a process go on for some turns, and end it somewhere in the next one."""
    enough = len(log.read_text().splitlines()) + rng.randint(1, 8)
    process = server().Process(target=conversing.entry, args=(url, str(log)))
    process.start()
    try:
        end = time.monotonic() + WAIT_S
        while len(log.read_text().splitlines()) < enough:
            assert process.is_alive()
            assert time.monotonic() < end
            time.sleep(0.002)
        time.sleep(rng.random() * 0.02)
    finally:
        process.kill()
        process.join()
    assert process.exitcode == -signal.SIGKILL


async def _check(store: Store, told: list[list[str]]) -> None:
    talks = LedgerConversationStore(store)
    for id, said, last in told:
        entries = await talks.load_entries(id)
        assert entries is not None
        assert entries[int(said) - 1].id == last
    entries = await talks.load_entries(TALK)
    assert entries is not None
    # A turn may be there that nobody was told of, but whole, and none twice.
    most = max(int(said) for _, said, _ in told)
    assert most <= len(entries) <= most + 2
    asked = [one.text for one in store.messages.history(TALK) if one.role == "user"]
    assert asked == [f"turn {n}" for n in range(len(entries) // 2)]
    forks = [one for one in await talks.list_conversations() if one.conversation_id != TALK]
    assert len(forks) >= sum(id != TALK for id, _, _ in told)
    for fork in forks:
        begun = await talks.load_entries(fork.conversation_id)
        assert begun == entries[: len(begun or ())]
        assert begun
        assert begun[-1].id == fork.forked_at
