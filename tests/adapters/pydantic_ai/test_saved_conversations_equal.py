"""Conversations, equal to the store of the harness over random programs."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
    SqliteConversationStore,
)

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations
from tests.adapters.pydantic_ai.samples import on_store, some_messages

AnyStore = Store | AsyncStore


@pytest.mark.parametrize("seed", range(6))
def test_equal_to_the_library_over_random_programs(
    store_url: str, tmp_path: Path, seed: int
) -> None:
    async def work(store: AnyStore) -> None:
        twins = _Twins(
            LedgerSavedConversations(store), SqliteConversationStore(database=tmp_path / "l.db")
        )
        rng = random.Random(seed)
        for _ in range(40):
            await twins.step(rng)

    on_store(store_url, "blocking" if seed % 2 else "async", work)


class _Twins:
    """The same program on both stores; answers and errors must be the same."""

    def __init__(self, ours: LedgerSavedConversations, theirs: SqliteConversationStore) -> None:
        self.ours, self.theirs = ours, theirs
        self.seen: list[tuple[ConversationSummary, ConversationSummary]] = [
            2 * (ConversationSummary(id=f"c{n}", workspace="/w", title=f"t{n}"),) for n in range(3)
        ]

    async def step(self, rng: random.Random) -> None:
        pair = rng.choice(self.seen[:3] + self.seen[-6:])
        word = rng.choice(("save", "save", "save", "get", "name", "archive", "list", "delete"))
        if word == "save":
            messages = await self._continued(rng, pair[1].id)
            await self._both(pair, lambda s, one: s.save(summary=one, messages=messages))
        elif word == "get":
            await self._both(pair, lambda s, one: _loaded(s, one.id))
        elif word == "name":
            manual, tokens, title = rng.random() < 0.3, rng.choice((0, 7)), f"n{rng.random()}"
            await self._both(
                pair,
                lambda s, one: s.name(
                    source=one, title=title, tags=("x",), manual=manual, tokens=tokens
                ),
            )
        elif word == "archive":
            archived = rng.random() < 0.5
            await self._both(
                pair, lambda s, one: s.set_archived(conversation_id=one.id, archived=archived)
            )
        elif word == "list":
            query, archived2 = rng.choice(("", "question", "n0")), rng.choice((None, True, False))
            limit, offset = rng.randint(1, 3), rng.randint(0, 1)
            await self._both(
                pair,
                lambda s, _: s.listing(query=query, limit=limit, offset=offset, archived=archived2),
            )
        elif rng.random() < 0.5:
            await self._both(pair, lambda s, one: s.delete(source=one))
            # From here on the library takes a stale revision of the deleted one for a new one's.
            gone = pair[1].id
            self.seen = [p for p in self.seen if p[1].id != gone or p[1].revision == 0]

    async def _continued(self, rng: random.Random, id: str) -> list[ModelMessage]:
        """What was said so far and more of it, or something else altogether."""
        try:
            old = (await self.theirs.get(conversation_id=id)).messages
        except LookupError:
            old = []
        kept = len(old) if rng.random() < 0.6 else rng.randint(0, len(old))
        return [*old[:kept], *some_messages(rng, rng.randint(0, 4))]

    async def _both(self, pair: tuple[ConversationSummary, ConversationSummary], call: Any) -> None:
        answers = []
        for store, one in ((self.ours, pair[0]), (self.theirs, pair[1])):
            try:
                answers.append(await call(store, one))
            except (ConversationConflict, LookupError) as error:
                answers.append(type(error))
        ours, theirs = answers
        assert _plain(ours) == _plain(theirs)
        if isinstance(ours, ConversationSummary):
            self.seen.append((ours, theirs))


async def _loaded(store: Any, id: str) -> Any:
    saved = await store.get(conversation_id=id)
    return saved.summary, saved.messages


def _plain(answer: Any) -> Any:
    """Without what must differ: times, and revisions after a delete."""
    if isinstance(answer, ConversationSummary):
        low = (1 << 32) - 1
        return replace(
            answer,
            updated_at=None,  # type: ignore[arg-type]
            revision=answer.revision & low,
            named_revision=answer.named_revision & low,
            archived_at=None if answer.archived_at is None else answer.updated_at.min,
        )
    if isinstance(answer, tuple | list):
        return [_plain(one) for one in answer]
    return answer
