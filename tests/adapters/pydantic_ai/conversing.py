"""A process that runs an agent turn after turn, saves each, and says so, until it is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

from ledgerstone import Store
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore

TALK = "trip"
FORK_EVERY = 3


def entry(url: str, log: str) -> None:
    """Go on from what is there; the log has a line for everything that was acknowledged."""
    with Store.open(url) as store:
        asyncio.run(_converse(LedgerConversationStore(store), Path(log)))


async def _converse(talks: LedgerConversationStore, log: Path) -> None:
    agent = Agent(TestModel())
    while True:
        talk = await talks.load(TALK) or Conversation(conversation_id=TALK)
        result = await agent.run(f"turn {len(talk.messages) // 2}", conversation=talk)
        stored = await talks.save(result)
        said = len(result.conversation.messages)
        _tell(log, f"{TALK} {said} {stored[-1].id}")
        if said % FORK_EVERY == 0:
            fork = await talks.fork(TALK)
            _tell(log, f"{fork.conversation_id} {said} {stored[-1].id}")


def _tell(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(line + "\n")
