"""Random programs in which others write too: what is read stays consistent, and verifies."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.exceptions import UserError

from ledgerstone import AsyncStore, Store, assistant, user
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore
from ledgerstone.adapters.sync_async import of
from ledgerstone.errors import AlreadyExists, InvalidValue, NotFound
from ledgerstone.records.parts import Text, ToolCall, ToolResult
from tests.adapters.pydantic_ai.samples import dumped, on_store, some_messages

AnyStore = Store | AsyncStore
STEPS = 40
TALKS = ("c0", "c1", "c2", "c3")
OURS = ("save", "save", "save", "new", "branch", "fork", "delete")
OTHERS = ("append", "append", "pop", "clear", "hide", "amend", "use", "copy")


@pytest.mark.parametrize("n", range(4))
def test_what_is_read_fits_together(store_url: str, seed: int, n: int) -> None:
    print(f"seed {seed}")

    async def work(store: AnyStore) -> None:
        mixed = Mixed(store, random.Random(seed + n))
        for _ in range(STEPS):
            with suppress(UserError, InvalidValue, NotFound, AlreadyExists):
                await mixed.step()
            for id in TALKS:
                await mixed.check(id)
        assert (await of(store.admin.verify())).ok

    on_store(store_url, "blocking" if n % 2 else "async", work)


class Mixed:
    """One store, written to by this adapter and by others."""

    def __init__(self, store: AnyStore, rng: random.Random) -> None:
        self.store: Any = store
        self.talks = LedgerConversationStore(store)
        self.rng = rng
        self.held: list[Conversation] = []

    async def step(self) -> None:
        id = self.rng.choice(TALKS)
        if self.rng.random() < 0.5:
            await getattr(self, f"_{self.rng.choice(OURS)}")(id)
        else:
            await self._other(self.rng.choice(OTHERS), id)

    async def check(self, id: str) -> None:
        """Every way to read a conversation says the same."""
        entries = await self.talks.load_entries(id)
        if entries is None:
            return
        names = [one.id for one in entries]
        assert len(set(names)) == len(names)
        assert [one.parent_id for one in entries] == [None, *names][: len(names)]
        for limit in (1, 3):
            window = await self.talks.load_entries(id, limit=limit)
            assert window is not None
            assert _plain(window) == _plain(entries[-limit:])
        for one in entries:
            try:
                assert _plain([await self.talks.read_entry(one.id)]) == _plain([one])
            except InvalidValue:
                assert one.id.startswith("[")
        record = await self.talks.read_record(id)
        assert record is not None
        for tip in record.branches:
            await self.talks.read_history(tip)
        for listed in await self.talks.list_conversations():
            assert listed == await self.talks.read_record(listed.conversation_id)

    async def _save(self, id: str) -> None:
        talk = await self.talks.load(id, limit=self.rng.choice((None, None, 1, 3)))
        if talk is None or (self.held and self.rng.random() < 0.2):
            talk = self.rng.choice(self.held or [Conversation(conversation_id=id)])
        self.held.append(talk)
        if self.rng.random() < 0.3:
            data = ConversationTypeAdapter.dump_json(talk)
            talk = ConversationTypeAdapter.validate_json(data)
        talk.messages.extend(some_messages(self.rng, self.rng.randint(0, 3)))
        entries = await self.talks.save(talk)
        now = await self.talks.load(talk.conversation_id, limit=len(entries))
        assert now is not None
        assert now.revision == talk.revision
        assert dumped(now.messages) == dumped([one.message for one in entries])

    async def _new(self, id: str) -> None:
        await self.talks.save(Conversation(conversation_id=id, messages=some_messages(self.rng, 2)))

    async def _branch(self, id: str) -> None:
        entries, record = await self.talks.load_entries(id), await self.talks.read_record(id)
        if entries is None or record is None:
            return
        at = self.rng.randint(0, len(entries))
        talk = await self.talks.branch(id, at=at, expected_revision=record.revision)
        now = await self.talks.load(id)
        assert now is not None
        assert dumped(now.messages) == dumped(talk.messages)

    async def _fork(self, id: str) -> None:
        new = self.rng.choice(TALKS)
        fork = await self.talks.fork(id, new_conversation_id=new)
        now = await self.talks.load(new)
        assert now is not None
        assert len(now.messages) == len(fork.messages)

    async def _delete(self, id: str) -> None:
        if self.rng.random() < 0.3:
            await self.talks.delete(id)

    async def _other(self, word: str, id: str) -> None:
        messages = self.store.messages
        path = await of(messages.history(id))
        one = self.rng.choice(path) if path else None
        if word == "append":
            said = [self._said() for _ in range(self.rng.randint(1, 4))]
            await of(messages.append(id, *said, create=True))
        elif word == "pop":
            await of(messages.pop(id))
        elif word == "clear" and self.rng.random() < 0.2:
            await of(messages.clear(id))
        elif word == "hide" and one is not None:
            await of(messages.delete(one))
        elif word == "amend" and one is not None:
            await of(messages.amend(one, parts=[Text("***")]))
        elif word == "use":
            await of(self.store.usage.record(id, "m", {"input": 1}))
        elif word == "copy":
            await of(self.store.sessions.fork(id, new_id=self.rng.choice(TALKS)))

    def _said(self) -> Any:
        named = {} if self.rng.random() < 0.7 else {"id": f"x{self.rng.randrange(10**6)}"}
        parts = [Text("b"), ToolCall("k", "t", {}), ToolResult("k", "r")]
        return self.rng.choice(
            (
                user(f"asks {self.rng.random()}", **named),
                user("", **named),
                assistant(f"says {self.rng.random()}", **named),
                assistant(parts, **named),
                assistant([], **named),
                {"role": "tool", "content": "r", "tool_call_id": "k", **named},
            )
        )


def _plain(entries: list[Any]) -> list[Any]:
    return [(one.id, one.parent_id, dumped([one.message])) for one in entries]
