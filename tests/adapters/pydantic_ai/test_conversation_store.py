"""LedgerConversationStore with real agents: load, run, save; branches, forks, scopes, lists."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore
from ledgerstone.adapters.pydantic_ai.sessions import PAGE_MAX
from ledgerstone.adapters.sync_async import of
from ledgerstone.errors import InvalidValue, LedgerstoneError
from tests.adapters.pydantic_ai.samples import PNG, dumped, on_store, same
from tests.adapters.pydantic_ai.talks import ask, loaded, recorded

AnyStore = Store | AsyncStore
WRITERS = 8


def test_a_loop_of_runs(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        agent = Agent(TestModel())
        said: list[ModelMessage] = []
        for n in range(4):
            talks = LedgerConversationStore(store)
            assert (await talks.load("trip") is None) == (n == 0)
            talk = await talks.load("trip") or Conversation(conversation_id="trip")
            result = await agent.run(f"question {n}", conversation=talk)
            stored = await talks.save(result)
            assert [one.message for one in stored] == result.new_messages()
            said += result.new_messages()
            # The result goes on without being loaded again.
            assert await talks.save(result) == []
        talk = await loaded(talks, "trip")
        assert same(talk.messages, said)
        assert talk.usage.requests == 4
        head = await of(store.sessions.head("trip"))
        assert head is not None
        assert (head.revision, head.nodes, head.messages) == (8, 8, 8)
        assert (await of(store.admin.verify("trip"))).ok

    on_store(store_url, colour, work)


def test_a_window_is_continued(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        talks, agent = LedgerConversationStore(store), Agent(TestModel())
        await talks.save(Conversation(conversation_id="c", messages=ask("a", "b", "c")))
        for limit in (2, 0):
            talk = await loaded(talks, "c", limit=limit)
            assert len(talk.messages) == limit
            await talks.save(await agent.run("more", conversation=talk))
        entries = await talks.load_entries("c")
        assert entries is not None
        assert len(entries) == 7
        assert [one.parent_id for one in entries] == [None, *[one.id for one in entries[:-1]]]
        assert await talks.load_entries("c", limit=3) == entries[-3:]
        assert await talks.read_entry(entries[2].id) == entries[2]
        with pytest.raises(UserError):
            await talks.load("c", limit=-1)

    on_store(store_url, colour, work)


def test_branches_that_were_left_are_there(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        talks, agent = LedgerConversationStore(store), Agent(TestModel())
        first = await agent.run("a", conversation=Conversation(conversation_id="c"))
        await talks.save(first)
        await talks.save(await agent.run("b", conversation=first.conversation))
        whole = await loaded(talks, "c")
        for at in (2, 0):
            now = await loaded(talks, "c")
            talk = await talks.branch("c", at=at, expected_revision=now.revision)
            await talks.save(await agent.run(f"again {at}", conversation=talk))
        record = await recorded(talks, "c")
        assert len(record.branches) == 2
        left = await talks.read_history(record.branches[0])
        assert [one.message for one in left] == whole.messages
        assert len((await loaded(talks, "c")).messages) == 2
        talk = await talks.branch(
            "c", from_entry=left[-1].id, expected_revision=(await recorded(talks, "c")).revision
        )
        assert talk.messages == whole.messages
        shown = await of(store.messages.history("c"))
        assert [one.text for one in shown if one.role == "user"] == ["a", "b"]
        with pytest.raises(ConversationConflict):
            await talks.branch("c", at=1, expected_revision=record.revision)

    on_store(store_url, colour, work)


def test_a_paused_run_waits_in_the_store(store_url: str, colour: str) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("pay", {"eur": 120}, tool_call_id="c1")])
        return ModelResponse(parts=[TextPart("paid")])

    agent = Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def pay(eur: int) -> str:
        return f"paid {eur}"

    async def work(store: AnyStore) -> None:
        first = await agent.run("pay", conversation=Conversation(conversation_id="c"))
        await LedgerConversationStore(store).save(first)
        talks = LedgerConversationStore(store)
        talk = await loaded(talks, "c")
        waiting = talk.deferred_tool_requests
        assert waiting is not None
        assert [one.tool_call_id for one in waiting.approvals] == ["c1"]
        yes = DeferredToolResults(approvals={"c1": True})
        result = await agent.run(conversation=talk, deferred_tool_results=yes)
        await talks.save(result)
        assert (await loaded(talks, "c")).deferred_tool_requests is None

    on_store(store_url, colour, work)


def test_a_fork_has_a_fate_of_its_own(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        talks, agent = LedgerConversationStore(store), Agent(TestModel())
        picture = BinaryContent(PNG, media_type="image/png")
        begun = Conversation(conversation_id="c")
        await talks.save(await agent.run(["look", picture], conversation=begun), scope="ada")
        whole = await loaded(talks, "c")
        await talks.fork("c", new_conversation_id="f")
        early = await talks.fork("c", at=1, scope="bob")
        assert early.usage.requests == 0
        await talks.delete("c")
        await of(store.admin.gc(older_than_s=0, attachments_older_than_s=0))
        fork = await loaded(talks, "f", scope="ada")
        assert same(fork.messages, whole.messages)
        assert fork.usage == whole.usage
        record = await recorded(talks, "f")
        assert (record.forked_from, record.forked_at) == ("c", record.head_id)
        await talks.save(await agent.run("more", conversation=fork))
        assert len((await loaded(talks, early.conversation_id)).messages) == 1
        # What the source used is none of the fork's: only the answer that it was given.
        used = await of(store.usage.list("f"))
        assert len(used) == 1
        with pytest.raises(UserError):
            await talks.fork("c")

    on_store(store_url, colour, work)


def test_bytes_are_blobs_and_not_text(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)
    picture = BinaryContent(PNG, media_type="image/png")
    said: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(["look", picture])])]
    asyncio.run(talks.save(Conversation(conversation_id="c", messages=said)))
    (stored,) = adapter_store.messages.history("c")
    (attached,) = adapter_store.attachments.list("c")
    assert adapter_store.blobs.get(attached) == PNG
    assert len(str(stored.body)) < 3000
    assert same(asyncio.run(loaded(talks, "c")).messages, said)
    asyncio.run(talks.delete("c"))
    adapter_store.admin.gc(older_than_s=0, attachments_older_than_s=0)
    assert adapter_store.blobs.get(attached) is None


def test_scopes_are_apart(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        talks = LedgerConversationStore(store)
        for id, scope in (("a", "ada"), ("b", "bob"), ("n", None)):
            await talks.save(Conversation(conversation_id=id, messages=ask(id)), scope=scope)
        assert await talks.load("a", scope="bob") is None
        assert await talks.load_entries("a", scope="bob") is None
        mine = await loaded(talks, "a", scope="ada")
        with pytest.raises(ConversationConflict):
            await talks.save(mine, scope="bob")
        await talks.delete("a", scope="bob")
        await talks.save(await loaded(talks, "a"))
        assert [one.scope for one in await talks.list_conversations()] == ["ada", None, "bob"]
        (listed,) = await talks.list_conversations(scope="ada")
        assert listed == await talks.read_record("a")
        other = LedgerConversationStore(store.for_tenant("other"))
        assert await other.load("a") is None
        with pytest.raises(LookupError):
            await other.read_entry(str(listed.head_id))

    on_store(store_url, colour, work)


def test_a_list_is_as_long_as_it_is(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)
    count = PAGE_MAX + 3

    async def go() -> None:
        for n in range(count):
            await talks.save(Conversation(conversation_id=f"c{n}"), scope="ada" if n % 2 else None)
        adapter_store.sessions.create(id="empty", app="pydantic-ai")
        adapter_store.messages.append("other", {"role": "user", "content": "x"}, create=True)
        # What is not said in the conversation does not make it newer.
        adapter_store.usage.record("c0", "m", {"input": 1})
        named = [one.conversation_id for one in await talks.list_conversations()]
        assert named == [f"c{n}" for n in reversed(range(count))]
        few = await talks.list_conversations(limit=PAGE_MAX + 1)
        assert [one.conversation_id for one in few] == named[: PAGE_MAX + 1]
        (first,) = await talks.list_conversations(limit=1)
        assert first.conversation_id == named[0]
        theirs = await talks.list_conversations(scope="ada", limit=3)
        assert [one.conversation_id for one in theirs] == ["c201", "c199", "c197"]

    asyncio.run(go())


def test_a_short_list_behind_many_tasks(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that are no conversations are passed over in large pages."""
    talks, pages = LedgerConversationStore(adapter_store), []
    asyncio.run(talks.save(Conversation(conversation_id="c")))
    for _ in range(20):
        adapter_store.sessions.create(app="pydantic-ai")
    read = adapter_store.sessions.list

    def counted(**how: Any) -> Any:
        pages.append(how)
        return read(**how)

    monkeypatch.setattr(adapter_store.sessions, "list", counted)
    (first,) = asyncio.run(talks.list_conversations(limit=1))
    assert first.conversation_id == "c"
    assert len(pages) == 2


def test_one_of_many_writers_wins(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)
    asyncio.run(talks.save(Conversation(conversation_id="c", messages=ask("begin"))))

    def write(n: int) -> bool:
        async def go() -> bool:
            talk = talked[n]
            talk.messages.extend(ask(f"from {n}"))
            try:
                await talks.save(talk)
            except ConversationConflict:
                return False
            return True

        return asyncio.run(go())

    for new in (False, True):
        talked = [
            Conversation(conversation_id="n") if new else asyncio.run(loaded(talks, "c"))
            for _ in range(WRITERS)
        ]
        with ThreadPoolExecutor(WRITERS) as threads:
            assert sum(threads.map(write, range(WRITERS))) == 1
    assert [adapter_store.messages.count(id) for id in ("c", "n")] == [2, 1]


def test_a_history_is_one_reading(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = LedgerConversationStore(adapter_store)
    said = ask(*map(str, range(50)))
    asyncio.run(talks.save(Conversation(conversation_id="c", messages=said)))
    calls: list[int] = []
    read = Store.read

    def counted(self: Store, *queries: Any) -> Any:
        calls.append(len(queries))
        return read(self, *queries)

    monkeypatch.setattr(Store, "read", counted)
    assert len(asyncio.run(loaded(talks, "c")).messages) == 50
    assert calls == [4, 2]
    asyncio.run(talks.list_conversations())
    assert len(calls) == 4


def test_usage_is_counted_once(adapter_store: Store) -> None:
    """Also when a history is rewritten, and answers in it are stored again."""
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        result = await Agent(TestModel()).run("hi", conversation=Conversation(conversation_id="c"))
        await talks.save(result)
        talk = result.conversation
        talk.messages[:1] = ask("shorter")
        assert len(await talks.save(talk)) == 2
        assert len((await recorded(talks, "c")).branches) == 1

    asyncio.run(go())
    assert len(adapter_store.usage.list("c")) == 1


@pytest.mark.parametrize("id", ["", "a\nb", "x" * 256, "\ud800"])
def test_what_can_not_be_an_id(adapter_store: Store, id: str) -> None:
    talks = LedgerConversationStore(adapter_store)
    entry = ConversationEntry(id=id, parent_id=None, message=ask("a")[0])
    record = ConversationRecord(conversation_id="c", head_id=id)
    for call in (
        talks.load(id),
        talks.save(Conversation(conversation_id=id)),
        talks.save(Conversation(conversation_id="c"), scope=id),
        talks.list_conversations(scope=id),
        talks.read_entry(id),
        talks.write_record(record, new_entries=[entry], expected_revision=None),
    ):
        with pytest.raises(InvalidValue):
            asyncio.run(call)
    assert adapter_store.sessions.count() == 0


def unreadable() -> list[tuple[ModelResponse, str]]:
    """Answers with types that the library writes, and does not read."""
    odd: Any = "weird"
    half: Any = 1.5
    return [
        (ModelResponse(parts=[TextPart("x")], finish_reason=odd), "finish_reason"),
        (
            ModelResponse(parts=[TextPart("x")], usage=RequestUsage(input_tokens=half)),
            "usage.input_tokens",
        ),
        (ModelResponse(parts=[TextPart(half)]), "parts.0.text.content"),
    ]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_what_can_not_be_stored(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)
    bad = ModelRequest(parts=[UserPromptPart("x")], metadata={"at": object()})
    waiting = DeferredToolRequests(approvals=[ToolCallPart("pay", {"to": object()})])

    async def go() -> None:
        with pytest.raises(InvalidValue, match=r"messages\[1\].metadata.at"):
            await talks.save(Conversation(conversation_id="c", messages=[*ask("a"), bad]))
        with pytest.raises(InvalidValue, match="record"):
            await talks.save(Conversation(conversation_id="c", deferred_tool_requests=waiting))
        # What could be written and not be read would hide the conversation, and lists with it.
        for answer, place in unreadable():
            with pytest.raises(InvalidValue, match=rf"messages\[1\].response.{place}"):
                await talks.save(Conversation(conversation_id="c", messages=[*ask("a"), answer]))
        spent = RunUsage(details={"x": float("nan")})  # type: ignore[dict-item]
        with (
            pytest.warns(UserWarning, match="Expected `int`"),
            pytest.raises(InvalidValue, match=r"record\.usage\.details\.x"),
        ):
            await talks.save(Conversation(conversation_id="c", usage=spent))
        twice = ConversationEntry(parent_id=None, message=ask("a")[0])
        record = ConversationRecord(conversation_id="c", head_id=twice.id)
        with pytest.raises(InvalidValue):
            await talks.write_record(record, new_entries=[twice, twice], expected_revision=None)
        for head in ("nowhere", '["c", "nowhere"]', '["d", "x"]'):
            record = ConversationRecord(conversation_id="c", head_id=head)
            with pytest.raises(ConversationConflict):
                await talks.write_record(record, expected_revision=None)

    asyncio.run(go())
    assert adapter_store.sessions.count() == 0
    with (
        Store.open("memory://", tenant=None) as root,
        pytest.raises(LedgerstoneError, match="tenant"),
    ):
        LedgerConversationStore(root)


def test_unusual_words(adapter_store: Store) -> None:
    """Any text is kept as it is, and any name that is one."""
    talks = LedgerConversationStore(adapter_store)
    said = ask("", "\0", "\u202e\U0001f600", "e\u0301", "x" * 100_000)
    id, scope = "Gespräch/🙂 '\"%_", '["ada", "x"]'

    async def go() -> None:
        await talks.save(Conversation(conversation_id=id, messages=said), scope=scope)
        talk = await loaded(talks, id, scope=scope)
        assert dumped(talk.messages) == dumped(said)
        await talks.fork(id, at=4, new_conversation_id="f")
        assert len(await talks.list_conversations(scope=scope)) == 2

    asyncio.run(go())
