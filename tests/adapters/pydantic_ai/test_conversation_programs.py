"""LedgerConversationStore, equal to the library's own store in memory over random programs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import DeferredToolRequests
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import (
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ToolCallPart
from pydantic_ai.usage import RunUsage

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore
from tests.adapters.pydantic_ai.samples import dumped, on_store, some_messages

AnyStore = Store | AsyncStore
STEPS = 60
SCOPES = (*[None] * 8, "ada", "bob")
TALKS = 6
WORDS = ("save", "save", "save", "rewrite", "serialize", "load", "branch", "branch", "fork", "new")
RARE = ("list", "entries", "delete", "entry", "raw")


@pytest.mark.parametrize("n", range(6))
def test_equal_to_the_library_over_random_programs(store_url: str, seed: int, n: int) -> None:
    print(f"seed {seed}")

    async def work(store: AnyStore) -> None:
        twins = Twins(LedgerConversationStore(store), random.Random(seed + n))
        for _ in range(STEPS):
            await twins.step()

    on_store(store_url, "blocking" if n % 2 else "async", work)


def test_a_store_that_forgets_is_found_out(seed: int) -> None:
    """What the comparison is good for."""

    class Forgetful(LedgerConversationStore):
        async def write_record(self, record: ConversationRecord, **how: Any) -> None:
            await super().write_record(replace(record, branches=record.branches[1:]), **how)

    class Careless(LedgerConversationStore):
        async def write_record(self, record: ConversationRecord, **how: Any) -> None:
            now = await self.read_record(record.conversation_id)
            how["expected_revision"] = None if now is None else now.revision
            await super().write_record(record, **how)

    class Short(LedgerConversationStore):
        async def read_history(
            self, head_id: str | None, *, limit: int | None = None
        ) -> list[ConversationEntry]:
            found = await super().read_history(head_id, limit=limit)
            return found if limit is None else found[1:]

    for kind in (Forgetful, Careless, Short):

        async def work(store: AnyStore, kind: type[LedgerConversationStore] = kind) -> None:
            twins = Twins(kind(store), random.Random(seed))
            for _ in range(20 * STEPS):
                await twins.step()

        with pytest.raises(AssertionError):
            on_store("memory://", "blocking", work)


class Twins:
    """The same program on both stores; answers and errors must be the same."""

    def __init__(self, ours: ConversationStore, rng: random.Random) -> None:
        self.stores = (ours, InMemoryConversationStore())
        self.rng = rng
        self.names: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self.entries: list[tuple[str, str]] = []
        self.talks: list[list[Conversation]] = []

    async def step(self) -> None:
        word = self.rng.choice(WORDS if self.rng.random() < 0.8 else RARE)
        if word == "new" or not self.talks:
            id = self._id()
            self._keep([Conversation(conversation_id=id) for _ in self.stores])
            word = "save"
        # Mostly what was used last, now and then something stale.
        at = -1 - min(int(self.rng.expovariate(0.5)), len(self.talks) - 1)
        talk = self.talks[at]
        if self.rng.random() < 0.5:
            id = talk[0].conversation_id
            again = await self._both(lambda side: self.stores[side].load(id))
            self._keep(again)
            talk = again if again and again[0] is not None else talk
        await getattr(self, f"_{word}")(talk)

    async def _save(self, talk: list[Conversation]) -> None:
        more = _some(self.rng, self.rng.randint(0, 4))
        scope, spent = self.rng.choice(SCOPES), self.rng.randint(0, 9)
        waiting = None
        if self.rng.random() < 0.3:
            call = ToolCallPart("pay", {"eur": spent}, tool_call_id=f"c{spent}")
            waiting = DeferredToolRequests(approvals=[call])
        for one in talk:
            one.messages.extend(more)
            one.usage = RunUsage(requests=spent, input_tokens=spent)
            one.deferred_tool_requests = waiting
        await self._both(lambda side: self.stores[side].save(talk[side], scope=scope))

    async def _rewrite(self, talk: list[Conversation]) -> None:
        kept = self.rng.randint(0, max(map(len, [one.messages for one in talk])))
        more = _some(self.rng, self.rng.randint(0, 2))
        whole = self.rng.random() < 0.5
        for one in talk:
            one.messages = [*one.messages[:kept], *more, *one.messages[kept + 1 :]]
            one.new_message_index = None if whole else one.new_message_index
        await self._save(talk)

    async def _serialize(self, talk: list[Conversation]) -> None:
        """Handed around as JSON, it is the same and does not know what is stored of it."""
        for side, one in enumerate(talk):
            text = ConversationTypeAdapter.dump_json(one)
            talk[side] = ConversationTypeAdapter.validate_json(text)
        await self._save(talk)

    async def _load(self, talk: list[Conversation]) -> None:
        limit, scope = self.rng.choice((None, None, 0, 1, 3)), self.rng.choice(SCOPES)
        id = talk[0].conversation_id
        self._keep(
            await self._both(lambda side: self.stores[side].load(id, limit=limit, scope=scope))
        )

    async def _branch(self, talk: list[Conversation]) -> None:
        how = await self._point(talk)
        id, scope = talk[0].conversation_id, self.rng.choice(SCOPES)
        self._keep(
            await self._both(
                lambda side: self.stores[side].branch(
                    id, **how[side], expected_revision=talk[side].revision, scope=scope
                )
            )
        )

    async def _fork(self, talk: list[Conversation]) -> None:
        how = await self._point(talk)
        new = self._id()
        scope, source = self.rng.choice(SCOPES), self.rng.choice(SCOPES)
        self._keep(
            await self._both(
                lambda side: self.stores[side].fork(
                    talk[side].conversation_id,
                    **how[side],
                    new_conversation_id=new,
                    scope=scope,
                    source_scope=source,
                )
            )
        )

    async def _point(self, talk: list[Conversation]) -> list[dict[str, Any]]:
        """How many messages, or an entry of this or any conversation; now and then nothing."""
        if self.rng.random() < 0.1:
            return [{}, {}]
        if self.rng.random() < 0.5 or not self.entries:
            at = self.rng.randint(0, max(len(one.messages) for one in talk) + 1)
            return [{"at": at}, {"at": at}]
        near = await self._both(
            lambda side: self.stores[side].load_entries(talk[side].conversation_id)
        )
        if near and near[0] and self.rng.random() < 0.5:
            n = self.rng.randrange(len(near[0]))
            return [{"from_entry": side[n].id} for side in near]
        record = await self._both(
            lambda side: self.stores[side].read_record(talk[side].conversation_id)
        )
        if record and record[0] and record[0].branches and self.rng.random() < 0.7:
            n = self.rng.randrange(len(record[0].branches))
            return [{"from_entry": side.branches[n]} for side in record]
        pair = self.rng.choice(self.entries)
        return [{"from_entry": one} for one in pair]

    async def _delete(self, talk: list[Conversation]) -> None:
        scope = self.rng.choice(SCOPES)
        id = talk[0].conversation_id
        await self._both(lambda side: self.stores[side].delete(id, scope=scope))

    async def _list(self, _: list[Conversation]) -> None:
        scope, limit = self.rng.choice(SCOPES), self.rng.choice((None, 0, 1, 2, 5))
        await self._both(
            lambda side: self.stores[side].list_conversations(scope=scope, limit=limit)
        )

    async def _entries(self, talk: list[Conversation]) -> None:
        limit = self.rng.choice((None, 0, 1, 2))
        id = talk[0].conversation_id
        await self._both(lambda side: self.stores[side].load_entries(id, limit=limit))

    async def _entry(self, _: list[Conversation]) -> None:
        if self.entries:
            pair, limit = self.rng.choice(self.entries), self.rng.choice((None, 1, 2))
            await self._both(lambda side: self.stores[side].read_entry(pair[side]))
            await self._both(lambda side: self.stores[side].read_history(pair[side], limit=limit))

    async def _raw(self, talk: list[Conversation]) -> None:
        """What the base class never asks for: the primitives, with what is not up to date."""
        id, new = talk[0].conversation_id, f"r{self.rng.random()}"
        found = await self._both(lambda side: self.stores[side].read_record(id))
        record = [ConversationRecord(conversation_id=id, head_id=None, scope="ada")] * 2
        if found and found[0] is not None:
            record = [replace(one, revision=f"old {one.revision}") for one in found]
        if found and found[0] is not None and self.rng.random() < 0.8:
            record = found
        expected: list[Any] = [one.revision for one in self.rng.choice((talk, record))]
        if self.rng.random() < 0.3:
            await self._both(
                lambda side: self.stores[side].delete_record(
                    id, expected_revision=expected[side] or ""
                )
            )
            return
        await self._both(
            lambda side: self.stores[side].write_record(
                replace(record[side], revision=new), expected_revision=expected[side]
            )
        )

    def _id(self) -> str:
        some = TALKS if self.rng.random() < 0.5 else 1_000_000
        return f"c{self.rng.randrange(some)}"

    async def _both(self, call: Callable[[int], Awaitable[Any]]) -> list[Any] | None:
        """Both answers, found to be equal; None when both raised the same error."""
        answers: list[Any] = []
        for side in (0, 1):
            try:
                answers.append(await call(side))
            except LookupError:
                answers.append(LookupError)
            except UserError as error:
                answers.append(type(error))
        self._compare(*answers)
        return None if isinstance(answers[0], type) else answers

    def _compare(self, ours: Any, theirs: Any) -> None:
        assert type(ours) is type(theirs)
        if isinstance(ours, list):
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                self._compare(one, other)
        elif isinstance(ours, Conversation):
            self._named(ours.revision, theirs.revision)
            assert dumped(ours.messages) == dumped(theirs.messages)
            assert replace(ours, messages=[], revision=None) == replace(
                theirs, messages=[], revision=None
            )
        elif isinstance(ours, ConversationEntry):
            self._named(ours.id, theirs.id)
            self._named(ours.parent_id, theirs.parent_id)
            assert dumped([ours.message]) == dumped([theirs.message])
            self.entries.append((ours.id, theirs.id))
        elif isinstance(ours, ConversationRecord):
            self._compare_records(ours, theirs)
        else:
            assert ours == theirs

    def _compare_records(self, ours: ConversationRecord, theirs: ConversationRecord) -> None:
        self._compare_names([ours.head_id, ours.forked_at], [theirs.head_id, theirs.forked_at])
        self._compare_names([ours.revision, *ours.branches], [theirs.revision, *theirs.branches])
        named: dict[str, Any] = {
            name: getattr(ours, name)
            for name in ("head_id", "forked_at", "revision", "branches", "updated_at")
        }
        assert ours == replace(theirs, **named)

    def _compare_names(self, ours: list[str | None], theirs: list[str | None]) -> None:
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            self._named(one, other)

    def _named(self, ours: str | None, theirs: str | None) -> None:
        """The two names mean the same thing, now and ever."""
        if ours is None or theirs is None:
            assert ours is theirs
            return
        assert self.names[0].setdefault(ours, theirs) == theirs
        assert self.names[1].setdefault(theirs, ours) == ours

    def _keep(self, talk: list[Any] | None) -> None:
        if talk and talk[0] is not None:
            self.talks.append(talk)


def _some(rng: random.Random, count: int) -> list[ModelMessage]:
    """Messages that are equal to themselves when they come back from JSON."""
    return ModelMessagesTypeAdapter.validate_python(dumped(some_messages(rng, count)))
