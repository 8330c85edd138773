"""The history of agents: loops with tools and streams, exact messages, one history for all."""

from __future__ import annotations

import asyncio
import random
from base64 import b64decode
from typing import Any

import pytest
from agent_framework import Agent, Content, InMemoryHistoryProvider, Message

from ledgerstone import AsyncStore, Store, assistant, formats, tool_call, tool_result, user
from ledgerstone.adapters.agent_framework import LedgerHistoryProvider
from ledgerstone.errors import InvalidValue
from ledgerstone.records.parts import File, Image, Reasoning, Text
from tests.adapters.agent_framework.scripted import ScriptedClient, on_store

AnyStore = Store | AsyncStore


def test_an_agent_with_tools(store_url: str, colour: str) -> None:
    def weather(place: str) -> str:
        """The weather of a place."""
        return f"sunny in {place}"

    async def work(store: AnyStore) -> None:
        call = Content.from_function_call("c1", "weather", arguments={"place": "Oslo"})
        client = ScriptedClient([call], ["It is sunny."], ["As I said: sunny."])
        agent = Agent(client, context_providers=[LedgerHistoryProvider(store)], tools=[weather])
        session = agent.create_session(session_id="trip")
        assert (await agent.run("Weather?", session=session)).text == "It is sunny."
        # Another process, another agent object, the same session.
        again = ScriptedClient(["As I said: sunny."])
        other = Agent(again, context_providers=[LedgerHistoryProvider(store)])
        answer = await other.run("Sure?", session=other.create_session(session_id="trip"))
        assert answer.text == "As I said: sunny."
        assert [one.role for one in again.asked[0]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
        ]
        assert again.asked[0][2].contents[0].result == "sunny in Oslo"
        history = LedgerHistoryProvider(store, last=2)
        assert [one.text for one in await history.get_messages("trip")] == [
            "Sure?",
            "As I said: sunny.",
        ]

    on_store(store_url, colour, work)


def test_a_window_begins_with_no_answer_to_what_it_leaves_out(adapter_store: Store) -> None:
    """A model refuses results of calls that it does not see."""
    path = [
        user("weather?"),
        assistant([tool_call("look", {}, id="c1"), tool_call("look", {}, id="c2")]),
        tool_result("c1", "sun"),
        tool_result("c2", "rain"),
        assistant("both"),
    ]
    adapter_store.messages.append("s", *path, create=True)

    async def roles(last: int) -> list[str]:
        found = await LedgerHistoryProvider(adapter_store, last=last).get_messages("s")
        return [one.role for one in found]

    assert asyncio.run(roles(1)) == ["assistant"]
    assert asyncio.run(roles(2)) == ["assistant"]
    assert asyncio.run(roles(3)) == ["assistant"]
    assert asyncio.run(roles(4))[0] == "assistant"
    assert asyncio.run(roles(9))[0] == "user"


def test_a_streamed_answer(store_url: str) -> None:
    async def work(store: AnyStore) -> None:
        client = ScriptedClient(["one ", "two"])
        agent = Agent(client, context_providers=[LedgerHistoryProvider(store)])
        session = agent.create_session(session_id="s")
        stream = agent.run("count", session=session, stream=True)
        assert "".join([update.text async for update in stream]) == "one two"
        await stream.get_final_response()
        history = await LedgerHistoryProvider(store).get_messages("s")
        assert [one.text for one in history] == ["count", "one two"]

    on_store(store_url, "async", work)


def some_messages(rng: random.Random, count: int) -> list[Message]:
    """Messages of many kinds of contents."""
    found = []
    for n in range(count):
        kinds: list[Any] = [
            f"text {rng.random()}",
            Content.from_data(b"\x89PNG" + bytes([n]), media_type="image/png"),
            Content.from_uri("https://example.org/a.mp3", media_type="audio/mpeg"),
            Content.from_function_call(f"c{n}", "look", arguments={"at": n}),
            Content.from_function_call(f"d{n}", "look", arguments='{"at": 1}'),
            Content.from_function_result(f"c{n}", result="ok"),
            Content.from_function_result(f"c{n}", result={"rows": [1, None]}),
            Content.from_function_result(f"c{n}", exception="boom"),
            Content.from_text_reasoning(text="hmm", protected_data="sig"),
            Content.from_error(message="bad", error_code="7"),
            Content.from_hosted_file("f1"),
        ]
        made = Message(
            rng.choice(("user", "assistant", "system", "tool", "critic")),
            rng.sample(kinds, rng.randint(0, 3)),
            author_name=rng.choice((None, "bot")),
            message_id=rng.choice((None, f"m{n}")),
            additional_properties=rng.choice(({}, {"x": [1, {"y": None}]})),
        )
        found.append(made)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_the_library(store_url: str, seed: int) -> None:
    """Saved again, saved in part, saved with repetitions: the same as their own provider."""

    async def work(store: AnyStore) -> None:
        rng = random.Random(seed)
        ours, theirs = LedgerHistoryProvider(store), InMemoryHistoryProvider()
        state: dict[str, Any] = {}
        said: list[Message] = []
        for _ in range(8):
            fresh = some_messages(rng, rng.randint(0, 4))
            start = rng.randint(0, len(said))
            batch = [*said[start:], *fresh] if rng.random() < 0.6 else fresh
            await ours.save_messages("s", batch)
            await theirs.save_messages("s", batch, state=state)
            said = await theirs.get_messages("s", state=state)
            found = await LedgerHistoryProvider(store).get_messages("s")
            assert [one.to_dict() for one in found] == [one.to_dict() for one in said]

    on_store(store_url, "blocking" if seed % 2 else "async", work)


def test_a_session_of_other_origin(adapter_store: Store) -> None:
    ref = adapter_store.blobs.put(b"\x89PNG", media_type="image/png")
    adapter_store.messages.append(
        "trip",
        user(["look", Image(blob=ref.ref, media_type="image/png")]),
        assistant([tool_call("see", {"n": 1}, id="c1")]),
        tool_result("c1", "a cat"),
        assistant("A cat."),
        create=True,
    )
    client = ScriptedClient(["A black one."])
    agent = Agent(client, context_providers=[LedgerHistoryProvider(adapter_store)])

    async def go() -> None:
        await agent.run("Which?", session=agent.create_session(session_id="trip"))

    asyncio.run(go())
    asked = client.asked[0]
    assert asked[0].contents[1].uri == "data:image/png;base64,iVBORw=="
    assert (asked[1].contents[0].name, asked[1].contents[0].arguments) == ("see", {"n": 1})
    assert asked[2].contents[0].result == "a cat"
    texts = [one.text for one in adapter_store.messages.last("trip", 3)]
    assert texts == ["A cat.", "Which?", "A black one."]


def test_what_others_said_can_be_sent(adapter_store: Store) -> None:
    """Chat clients send results as text and items, look at media types, and read signatures."""
    shown = {"type": "image", "data": "QUJD", "media_type": "image/png"}
    failed = {"author": "helper", "errorCode": "E7", "errorMessage": "no quota"}
    path = [
        user([Image(url="https://x/y"), File(data="QUJD", name="a.bin")]),
        assistant([Reasoning("hm", "EqQBCkYI"), Reasoning("", "x"), tool_call("f", None, id="c1")]),
        tool_result("c1", {"rows": [1]}, is_error=True),
        tool_result("c2", [{"type": "text", "text": "see"}, shown]),
        assistant([Reasoning("", "only a signature")]),
        formats.keep("adk", failed),
    ]
    adapter_store.messages.append("s", *path, create=True)
    found = asyncio.run(LedgerHistoryProvider(adapter_store).get_messages("s"))
    assert [one.role for one in found] == ["user", "assistant", "tool", "assistant"]
    picture, file = found[0].contents
    assert (picture.type, picture.media_type) == ("uri", "image/png")
    assert (file.type, file.additional_properties) == ("data", {"filename": "a.bin"})
    thought, call = found[1].contents
    assert thought.text == "<think>\nhm\n</think>"
    assert call.arguments == {}
    first, second = found[2].contents
    assert (first.result, bool(first.exception)) == ('{"rows":[1]}', True)
    assert [item.type for item in second.items or ()] == ["text", "data"]
    assert second.result == "see"
    assert "no quota" in found[3].text


def test_what_is_said_here_in_other_words(adapter_store: Store) -> None:
    """Arguments that a client left as text, pictures that a tool answered with, signatures."""
    picture = Content.from_data(PNG, media_type="image/png")
    link = Content.from_uri("https://x/y.png", media_type="image/png")
    answer = [Content.from_text("see"), picture, link]
    said = [
        Message("user", ["draw"]),
        Message("assistant", [Content.from_function_call("c1", "draw", arguments='{"a": 1}')]),
        Message("tool", [Content.from_function_result("c1", result=answer)]),
        Message("assistant", [Content.from_text_reasoning(text="hm", protected_data="mine")]),
    ]
    provider = LedgerHistoryProvider(adapter_store)
    asyncio.run(provider.save_messages("s", said))
    found = asyncio.run(provider.get_messages("s"))
    assert [one.to_dict() for one in found] == [one.to_dict() for one in said]
    shown = adapter_store.session("s").as_anthropic()["messages"]
    assert shown[1]["content"][0]["input"] == {"a": 1}
    text, first, second = shown[2]["content"][0]["content"]
    assert text["text"] == "see"
    assert b64decode(first["source"]["data"]) == PNG
    assert second["source"]["url"] == "https://x/y.png"
    for view in (shown, adapter_store.session("s").as_openai()):
        assert "hm" in str(view)
        assert "mine" not in str(view)
    (call,) = adapter_store.session("s").as_langchain()[1].tool_calls
    assert call["args"] == {"a": 1}
    assert adapter_store.admin.verify().ok


def test_a_turn_of_pydantic_ai(adapter_store: Store) -> None:
    """A request there holds several roles; here each is a message of its own."""
    parts = [
        {"part_kind": "tool-return", "tool_name": "see", "tool_call_id": "c1", "content": "a cat"},
        {"part_kind": "user-prompt", "content": "And now?"},
    ]
    natives = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Look"}]},
        {
            "kind": "response",
            "parts": [{"part_kind": "tool-call", "tool_name": "see", "tool_call_id": "c1"}],
        },
        {"kind": "request", "parts": parts},
    ]
    kept = formats.keep_all("pydantic-ai", natives)
    adapter_store.messages.append("trip", *kept, create=True)
    found = asyncio.run(LedgerHistoryProvider(adapter_store).get_messages("trip"))
    assert [one.role for one in found] == ["user", "assistant", "tool", "user"]
    assert found[1].contents[0].call_id == found[2].contents[0].call_id == "c1"


def test_bad_input_and_tenants(adapter_store: Store) -> None:
    provider = LedgerHistoryProvider(adapter_store)

    def save(session: Any, *messages: Any) -> None:
        asyncio.run(provider.save_messages(session, list(messages)))

    with pytest.raises(InvalidValue, match="session_id"):
        save(None, Message("user", ["x"]))
    with pytest.raises(InvalidValue, match="session_id"):
        asyncio.run(provider.get_messages(None))
    bad = Message("user", ["x"], additional_properties={"deep": [object()]})
    with pytest.raises(InvalidValue, match=r"messages\[1\]\.additional_properties\.deep\[0\]"):
        save("s", Message("user", ["fine"]), bad)
    circle: dict[str, Any] = {}
    circle["again"] = circle
    endless = Message("user", ["x"], additional_properties=circle)
    with pytest.raises(InvalidValue, match=r"messages\[0\]\.additional_properties\.again"):
        save("s", endless)
    with pytest.raises(InvalidValue, match=r"messages\[0\]"):
        save("s", "not a message")
    with pytest.raises(InvalidValue, match="last"):
        LedgerHistoryProvider(adapter_store, last=0)
    assert adapter_store.sessions.count() == 0
    save("s", Message("user", ["mine"]))
    other = LedgerHistoryProvider(adapter_store.for_tenant("other"))
    assert asyncio.run(other.get_messages("s")) == []


PNG = b"\x89PNG" + bytes(range(256)) * 8


def test_bytes_are_blobs_and_not_text(adapter_store: Store) -> None:
    """Also inside the result of a tool; they are attached, and come back to the byte."""
    picture = Content.from_data(PNG, media_type="image/png")
    other = Content.from_data(PNG + b"2", media_type="application/x-odd type")
    said = [
        Message("user", ["look", picture]),
        Message("assistant", [Content.from_function_call("c1", "paint", arguments="{}")]),
        Message(
            "tool", [Content.from_function_result("c1", result=[Content("text", text="x"), other])]
        ),
        Message("user", [Content.from_uri("data:text/plain,hi", media_type="text/plain")]),
    ]
    provider = LedgerHistoryProvider(adapter_store)
    asyncio.run(provider.save_messages("s", said))
    stored = adapter_store.messages.history("s")
    assert all(len(str(one.body)) < 1500 for one in stored)
    assert isinstance(stored[0].parts[1], Image)
    held = {adapter_store.blobs.get(one) for one in adapter_store.attachments.list("s")}
    assert held == {PNG, PNG + b"2"}
    adapter_store.admin.gc(older_than_s=0, attachments_older_than_s=0)

    async def go() -> None:
        fresh = LedgerHistoryProvider(adapter_store)
        found = await fresh.get_messages("s")
        assert [one.to_dict() for one in found] == [one.to_dict() for one in said]
        # The whole transcript again is known by its messages, pictures too.
        await fresh.save_messages("s", [*found, Message("assistant", ["nice"])])

    asyncio.run(go())
    assert adapter_store.messages.count("s") == 5
    shown = adapter_store.session("s").as_openai(chat=True)
    assert "base64" in str(shown[0])


def test_many_savers_of_one_transcript(adapter_store: Store) -> None:
    """What two processes hand in at one time is stored once, and nothing is lost."""
    said = [Message("user", ["q"], message_id="1"), Message("assistant", ["a"], message_id="2")]

    async def go() -> None:
        savers = [LedgerHistoryProvider(adapter_store) for _ in range(6)]
        await asyncio.gather(*(one.save_messages("s", said) for one in savers))
        await asyncio.gather(
            *(one.save_messages("t", [Message("user", [str(n)])]) for n, one in enumerate(savers))
        )

    asyncio.run(go())
    assert [one.text for one in adapter_store.messages.history("s")] == ["q", "a"]
    assert sorted(one.text for one in adapter_store.messages.history("t")) == list("012345")


def test_messages_that_were_amended(adapter_store: Store) -> None:
    provider = LedgerHistoryProvider(adapter_store)
    picture = Content.from_data(PNG, media_type="image/png")
    said = [Message("user", ["look", picture], message_id="1"), Message("assistant", ["seen"])]
    asyncio.run(provider.save_messages("s", said))
    first, second = adapter_store.messages.history("s")
    adapter_store.messages.amend(first, parts=[Text("nothing to see")])
    adapter_store.messages.amend(second, parts=[])
    found = asyncio.run(provider.get_messages("s"))
    assert [one.text for one in found] == ["nothing to see"]
