"""store.session(id): the conversation in the words of every library, and in theirs back."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone import AsyncStore, Store, assistant, formats, tool_call, tool_result, user
from ledgerstone.adapters import native_bytes
from ledgerstone.adapters.native_bytes import REF_CHARS
from ledgerstone.errors import InvalidValue, RevisionMoved, SessionNotFound
from ledgerstone.formats.objects import to_objects
from ledgerstone.records.parts import File, Image, ToolResult
from tests.formats.natives import natives
from tests.formats.test_ring import conversation
from tests.formats.values import DATA, PIXEL

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

VIEWS = ("openai", "anthropic", "langchain", "pydantic_ai", "adk")


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


def shown(store: Store, name: str, **options: Any) -> Any:
    return getattr(store.session("trip"), f"as_{name}")(**options)


def added(store: Store, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(store.session("trip"), f"add_{name}")
    return found


def dumped(name: str, objects: Any) -> list[Any]:
    if name == "langchain":
        from langchain_core.messages import message_to_dict

        return [message_to_dict(one) for one in objects]
    if name == "pydantic_ai":
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        found: list[Any] = ModelMessagesTypeAdapter.dump_python(objects, mode="json")
        return found
    if name == "adk":
        return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in objects]
    return list(objects["messages"] if isinstance(objects, dict) else objects)


@pytest.mark.parametrize("name", ["langchain", "pydantic_ai", "adk"])
def test_objects_go_in_and_come_out(store: Store, name: str) -> None:
    """The library's own objects, equal to what was added."""
    given = to_objects(name.replace("_", "-"), natives(name.replace("_", "-")))
    messages = added(store, name)(given, create=True)
    assert len(messages) == len(given)
    found = shown(store, name)
    assert [type(one) for one in found] == [type(one) for one in given]
    assert found == given
    assert store.sessions.head("trip").revision == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_values_go_in_and_come_out(store: Store, name: str) -> None:
    given = [one for one in natives(name) if one.get("role") != "system"]
    added(store, name)(given, create=True)
    assert json.dumps(dumped(name, shown(store, name))) == json.dumps(given)


def test_chat_goes_in_and_comes_out(store: Store) -> None:
    store.session("trip").add_openai(natives("openai-chat"), chat=True, create=True)
    assert store.session("trip").as_openai(chat=True) == natives("openai-chat")


@pytest.mark.parametrize("name", VIEWS)
def test_our_own_messages_in_every_view(store: Store, name: str) -> None:
    store.messages.append("trip", *conversation(), create=True)
    found = shown(store, name)
    assert shown(store, name) == found
    text = json.dumps(found if isinstance(found, dict) else dumped(name, found))
    assert "travel agent" in text
    assert "You are welcome." in text


@pytest.mark.parametrize("name", VIEWS)
def test_parts_of_it(store: Store, name: str) -> None:
    """A branch, the path of another node, the newest."""
    first, *_ = store.messages.append("trip", user("one"), assistant("two"), create=True)
    store.branches.create("trip", "side", at=first.id)
    store.messages.append("trip", user("three"), branch="side")
    for options, words in (
        ({}, ["one", "two"]),
        ({"branch": "side"}, ["one", "three"]),
        ({"last": 1}, ["two"]),
        ({"at": first.id}, ["one"]),
    ):
        text = json.dumps(dumped(name, shown(store, name, **options)))
        assert [word for word in ("one", "two", "three") if f'"{word}"' in text] == words


def test_the_prompt_stands_beside_the_messages(store: Store) -> None:
    store.messages.append("trip", *conversation(), create=True)
    found = store.session("trip").as_anthropic()
    assert found["system"] == [{"type": "text", "text": "You are a travel agent."}]
    assert {one["role"] for one in found["messages"]} == {"user", "assistant"}
    store.session("again").add_anthropic(found, create=True)
    assert store.session("again").as_anthropic() == found
    assert store.session("trip").as_anthropic(last=1) == {
        "messages": [{"role": "assistant", "content": "You are welcome."}]
    }


def test_blobs_are_shown_as_bytes(store: Store) -> None:
    blob = store.blobs.put(PIXEL, media_type="image/png")
    store.messages.append(
        "trip", user(["see", Image(blob=blob.ref, media_type="image/png")]), create=True
    )
    url = store.session("trip").as_openai()[0]["content"][1]["image_url"]
    assert url.startswith("data:image/png;base64,iVBOR")
    content: Any = store.session("trip").as_pydantic_ai()[0].parts[0].content
    assert content[1].data == PIXEL
    part = store.session("trip").as_adk()[0].content.parts[1]
    assert part.inline_data.data == PIXEL


def bytes_in(value: dict[str, Any]) -> tuple[str, int] | None:
    """Where an object of any of the libraries holds base64 text."""
    for key in ("data", "image_url"):
        text = value.get(key)
        start = text.find("base64,") + len("base64,") if isinstance(text, str) else 0
        if isinstance(text, str) and len(text[max(start, 0) :]) > REF_CHARS:
            return key, start if "base64," in text else 0
    return None


@pytest.mark.parametrize("name", ["pydantic-ai", "adk", "openai"])
def test_bytes_that_an_adapter_moved_out(store: Store, name: str) -> None:
    """A view puts them back wherever they were: exact, and shown by the others too."""
    moved = 0
    for native in natives(name):
        taken = native_bytes.take(native, bytes_in)
        for data, kind in taken.bytes.values():
            store.blobs.put(data, media_type=kind)
        message = native_bytes.marked(formats.keep(name, taken.native), taken)
        store.messages.append("trip", message, create=True)
        moved += len(taken.places)
    assert moved
    messages = store.messages.history("trip")
    found = {ref: store.blobs.get(ref) for one in messages for ref in formats.blobs_of(one)}
    whole = [formats.with_bytes(one, found) for one in messages]
    assert json.dumps(formats.native(name, whole)) == json.dumps(natives(name))
    assert shown(store, name.replace("-", "_")) == to_objects(name, natives(name))
    for view in VIEWS:
        text = json.dumps(dumped(view, shown(store, view)))
        assert DATA in text or DATA.translate(str.maketrans("+/", "-_")) in text
    gone = [formats.with_bytes(one, dict.fromkeys(found)) for one in messages]
    assert len(formats.native(name, gone)) == len(messages)


def test_blobs_that_an_amendment_took_away(store: Store) -> None:
    """An adapter says how many parts it added; those of an amendment are not meant."""
    ref = store.blobs.put(PIXEL).ref
    parts = [ToolResult("c1", {"data": ref}), File(blob=ref)]
    message = user(parts, extra={"blobs": [[[["x"], "std"]], [], 1]})
    (kept,) = store.messages.append("trip", message, create=True)
    (content,) = store.session("trip").as_anthropic()["messages"][0]["content"]
    assert DATA in content["content"]
    store.messages.amend(kept.id, session="trip", parts=["forgotten", File(blob=ref)])
    assert "forgotten" in json.dumps(store.session("trip").as_openai())
    store.messages.amend(kept.id, session="trip", parts=["forgotten"])
    assert store.session("trip").as_openai() == [{"role": "user", "content": "forgotten"}]
    for mark in ([], ["x"], 5, [[], [], "x"]):
        odd = user(["said", File(blob=ref)], extra={"blobs": mark})
        assert "said" in json.dumps(formats.native("openai", [formats.with_bytes(odd, {})]))


def test_an_agent_knows_its_own_answers(store: Store) -> None:
    store.messages.append("trip", user("hi"), assistant("yes"), create=True)
    authors = [event.author for event in store.session("trip").as_adk(author="helper")]
    assert authors == ["user", "helper"]
    with pytest.raises(InvalidValue, match="author"):
        store.session("trip").as_adk(author="")
    event = {"author": "model", "content": {"role": "model", "parts": [{"text": "mine"}]}}
    store.session("trip").add_adk([event])
    assert store.session("trip").as_adk(author="helper")[-1].author == "model"


def test_runs_of_real_libraries_take_it(store: Store) -> None:
    """A history of another origin, continued by an agent of Pydantic AI."""
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    items: list[dict[str, Any]] = [
        {"role": "user", "content": "pay"},
        {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "paid"},
        {"role": "assistant", "content": "Paid."},
    ]
    session = store.session("trip")
    session.add_openai(items, create=True)
    agent = Agent(TestModel(custom_output_text="Indeed."))
    result = asyncio.run(agent.run("Really?", message_history=session.as_pydantic_ai()))
    session.add_pydantic_ai(result.new_messages())
    assert [one.text for one in store.messages.last("trip", 2)] == ["Really?", "Indeed."]
    assert session.as_pydantic_ai()[-2:] == result.new_messages()
    assert session.as_openai()[:4] == items
    assert [one.type for one in session.as_langchain()] == [
        "human", "ai", "tool", "ai", "human", "ai",
    ]  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_bad_input_stores_nothing(store: Store, name: str) -> None:
    add = added(store, name)
    none_of_it: tuple[Any, ...] = (5, None, "text", {})
    more = [{"messages": odd} for odd in none_of_it]
    for bad in ([object()], ["text"], [None], "text", 5, {"foo": 1}, [{"foo": 1}], *more):
        with pytest.raises(InvalidValue):
            add(bad, create=True)
    assert store.sessions.get("trip") is None
    with pytest.raises(SessionNotFound):
        add([natives(name.replace("_", "-"))[0]])


def test_what_is_not_json_names_its_place(store: Store) -> None:
    from langchain_core.messages import HumanMessage

    session = store.session("trip")
    odd = HumanMessage("x", additional_kwargs={"deep": [{"when": object()}]})
    with pytest.raises(InvalidValue, match=r"langchain\[1\]\.data\.additional_kwargs\.deep\[0\]"):
        session.add_langchain([HumanMessage("x"), odd], create=True)
    with pytest.raises(InvalidValue, match=r"openai\[0\]\.content"):
        session.add_openai([{"role": "user", "content": {1}}], create=True)
    assert store.sessions.get("trip") is None


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_numbers_that_libraries_write_as_nothing(store: Store, number: float) -> None:
    from google.adk.events import Event
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    session = store.session("trip")
    result = ModelRequest(parts=[ToolReturnPart("f", [{"x": number}], "c")])
    with pytest.raises(InvalidValue, match=r"pydantic-ai\[0\]\.parts\[0\]\.content\[0\]\.x"):
        session.add_pydantic_ai([result], create=True)
    with pytest.raises(InvalidValue, match=r"adk\[0\]\.custom_metadata\.x"):
        session.add_adk([Event(author="a", custom_metadata={"x": number})], create=True)
    assert store.sessions.get("trip") is None


def test_objects_that_are_no_data(store: Store) -> None:
    from google.adk.events import Event
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    session = store.session("trip")
    again: list[Any] = []
    again.append(again)
    for odd in (object(), again):
        with pytest.raises(InvalidValue, match=r"pydantic-ai\[0\]"):
            session.add_pydantic_ai(
                [ModelRequest(parts=[ToolReturnPart("f", odd, "c")])], create=True
            )
        with pytest.raises(InvalidValue, match=r"adk\[0\]"):
            session.add_adk([Event(author="a", custom_metadata={"x": odd})], create=True)
    assert store.sessions.get("trip") is None


@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("langchain", {"type": "later", "data": {"content": "secret"}}),
        ("langchain", {"type": "human", "data": {"content": {"secret": 5}}}),
        ("pydantic_ai", {"kind": "request", "parts": [{"part_kind": "x", "content": "secret"}]}),
        ("adk", {"author": "a", "content": {"parts": [{"text": {"secret": 5}}]}}),
    ],
)
def test_what_a_library_does_not_take_is_named(store: Store, name: str, native: Any) -> None:
    """One of another version of it: an error of ours, without what was said."""
    format = name.replace("_", "-")
    added(store, name)([natives(format)[0], native], create=True)
    with pytest.raises(InvalidValue, match=rf"{format}\[1\].*does not take it") as caught:
        shown(store, name)
    assert "secret" not in str(caught.value)
    assert store.session("trip").as_openai()


def test_the_guards_of_a_commit(store: Store) -> None:
    session = store.session("trip")
    session.add_openai([{"role": "user", "content": "x"}], create=True, run_id="r1")
    assert store.messages.last("trip")[0].run_id == "r1"
    with pytest.raises(RevisionMoved):
        session.add_openai([{"role": "user", "content": "y"}], expected_revision=0)
    with store.leases.hold("trip") as lease:
        session.add_langchain([{"type": "human", "data": {"content": "z"}}], lease=lease)
    assert [one.text for one in store.messages.history("trip")] == ["x", "z"]


def test_a_library_that_is_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.messages.append("trip", user("x"), create=True)
    for module, name, extra in (
        ("langchain_core.messages", "langchain", "langgraph"),
        ("pydantic_ai.messages", "pydantic_ai", "pydantic-ai"),
        ("google.adk.events", "adk", "adk"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf'pip install "ledgerstone\[{extra}\]"'):
            shown(store, name)


def test_the_other_colour(store_url: str) -> None:
    async def talk() -> list[Any]:
        async with AsyncStore.open(store_url) as store:
            session = store.session("trip")
            await session.add_openai([{"role": "user", "content": "x"}], create=True)
            await store.messages.append(
                "trip", assistant([tool_call("f", {}, id="c")]), tool_result("c", "y")
            )
            blob = await store.blobs.put(PIXEL, media_type="image/png")
            await store.messages.append("trip", user([Image(blob=blob.ref)]))
            assert repr(session) == "<AsyncConversation 'trip'>"
            assert DATA in json.dumps(await session.as_openai())
            return await session.as_langchain()

    assert [one.type for one in asyncio.run(talk())] == ["human", "ai", "tool", "human"]


def test_writers_at_once_lose_nothing(store: Store) -> None:
    """Four libraries in four threads; each finds its own messages, in order and exact."""
    store.sessions.create(id="trip")
    rounds = 5

    def write(name: str) -> list[Any]:
        given = natives(name.replace("_", "-"))[:3]
        for _ in range(rounds):
            added(store, name)(given)
        return given * rounds

    names = [name for name in VIEWS if name != "anthropic"]
    with ThreadPoolExecutor(len(names)) as pool:
        written = dict(zip(names, pool.map(write, names), strict=True))
    messages = store.messages.history("trip")
    assert len(messages) == sum(map(len, written.values()))
    for name, wanted in written.items():
        format = name.replace("_", "-")
        own = [message for message in messages if formats.origin(message) == format]
        assert json.dumps(formats.native(format, own)) == json.dumps(wanted)
        for at in range(0, len(own), 3):  # A call of add_... is one commit: nobody is in between.
            assert [one.seq - own[at].seq for one in own[at : at + 3]] == [0, 1, 2]


def test_a_session_by_its_record(store: Store) -> None:
    session = store.sessions.create(id="trip")
    assert store.session(session).id == "trip"
    with pytest.raises(InvalidValue):
        store.session("")
