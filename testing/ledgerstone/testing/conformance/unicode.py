"""Text, numbers and ids of every kind: they come back to the character, or they are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import assistant, tool_call, user
from ledgerstone.errors import InvalidValue, LedgerstoneError
from ledgerstone.testing.bed import Bed

__all__ = ["TestTexts", "TestValues", "TestIds"]

TEXTS = {
    "empty": "",
    "spaces": "  leading, trailing and \t tab  ",
    "newlines": "a\nb\r\nc\rd\u2028e\u2029f\x0bg",
    "nul": "a\x00b\x00",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 \U0010ffff",
    "right to left": "שלום עליכם \u200f\u0645\u0631\u062d\u0628\u0627\u200e \u202eabc",
    "combining": "e\u0301 is not \u00e9",
    "lone high surrogate": "before \ud83d after",
    "lone low surrogate": "\udc00",
    "surrogates the wrong way round": "\udc00\ud800",
    "non-characters": "\ufffe\uffff\ufeff\ufffd",
    "looks like JSON": '{"role":"system"}',
    "looks like an escape": "\\u0000 \\ud800 \\",
    "looks like SQL": "'); drop table nodes; --",
    "quotes": "\"'`\u00b4„“",
    "long": "ä" * 300_000,
}
VALUES = {
    "null": None,
    "true": True,
    "one": 1,
    "float": 1.5,
    "one as float": 1.0,
    "negative zero": -0.0,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "long fraction": 0.1 + 0.2,
    "64 bit": [-(2**63), 2**63 - 1, 2**63, 2**64 - 1],
    "beyond 64 bit": [2**64, -(2**63) - 1, 10**60],
    "empty things": [[], {}, "", [{}], {"": ""}],
    "strange keys": {
        "": 1,
        "a.b": 2,
        "$": 3,
        "é": 4,
        "e\u0301": 5,
        "\x00": 6,
        "\ud800": 7,
        "a b": 8,
    },
    "key order": {"b": 1, "a": 2, "B": 3, "10": 4, "9": 5},
    "mixed list": [1, 1.0, True, None, "1", {"1": 1}],
}


def nested(depth: int) -> Any:
    """Lists in lists, `depth` of them."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def same(a: Any, b: Any) -> bool:
    """Equal in value and in kind: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@pytest.mark.promise(69, 194)
class TestTexts:
    """Every text round-trips wherever text may stand."""

    @pytest.mark.parametrize("name", TEXTS)
    def test_in_a_message(self, backend: Bed, name: str) -> None:
        backend.store.messages.append("s", user(TEXTS[name]), create=True)
        assert backend.reopen().messages.last("s", 1)[0].text == TEXTS[name]

    @pytest.mark.parametrize("name", TEXTS)
    def test_in_the_metadata_of_a_message_and_in_the_arguments_of_a_call(
        self, backend: Bed, name: str
    ) -> None:
        text = TEXTS[name]
        call = tool_call("f", {"x": [text]}, id="c")
        made = assistant([call, {"type": "odd", "x": text}], metadata={"x": text})
        backend.store.messages.append("s", made, create=True)
        found = backend.reopen().messages.last("s", 1)[0]
        assert found.metadata == {"x": text}
        assert found.parts == [call, {"type": "odd", "x": text}]

    @pytest.mark.parametrize("name", TEXTS)
    def test_in_an_amendment(self, backend: Bed, name: str) -> None:
        (made,) = backend.store.messages.append("s", user("plain"), create=True)
        backend.store.messages.amend(made.id, session="s", metadata={"x": TEXTS[name]})
        found = backend.reopen().messages.get(made.id, session="s")
        assert found is not None
        assert (found.text, found.metadata) == ("plain", {"x": TEXTS[name]})

    @pytest.mark.parametrize("name", TEXTS)
    def test_in_the_metadata_and_the_document_of_a_session(self, backend: Bed, name: str) -> None:
        value = {"x": TEXTS[name]}
        backend.store.sessions.create(id="s", metadata=value, document=value)
        store = backend.reopen()
        found, document = store.sessions.get("s"), store.sessions.document("s")
        assert found is not None
        assert document is not None
        assert (found.metadata, document["x"]) == (value, TEXTS[name])

    @pytest.mark.parametrize("name", TEXTS)
    def test_in_the_title_or_refused(self, backend: Bed, name: str) -> None:
        text = TEXTS[name]
        if len(text) > 4096 or {"\x00", *map(chr, range(0xD800, 0xE000))} & set(text):
            with pytest.raises(InvalidValue, match="title"):
                backend.store.sessions.create(id="s", title=text)
            assert backend.store.sessions.get("s") is None
            return
        backend.store.sessions.create(id="s", title=text)
        found = backend.reopen().sessions.get("s")
        assert found is not None
        assert found.title == text

    @pytest.mark.parametrize("name", TEXTS)
    def test_in_a_node_a_note_and_the_state(self, backend: Bed, name: str) -> None:
        text = TEXTS[name]
        with backend.store.turns.begin("s", create=True) as turn:
            turn.node("plugin", {"x": text}, id="n")
            turn.state(x=text)
        backend.store.nodes.annotate("s", "n", {"key": text})
        node = backend.reopen().nodes.get("s", "n", notes=True)
        assert node is not None
        assert node.body == {"x": text}
        assert node.notes is not None
        assert node.notes["key"].body == text
        view = backend.store.sessions.at("s", 1)
        assert view is not None
        assert view.state == {"x": text}

    def test_the_first_user_message_in_the_picker(self, backend: Bed) -> None:
        backend.store.messages.append("s", user(TEXTS["lone high surrogate"]), create=True)
        picker = backend.store.sessions.picker("s")
        assert picker is not None
        assert picker.first_user_message == TEXTS["lone high surrogate"]


@pytest.mark.promise(66, 194)
class TestValues:
    """Every JSON value round-trips in value and in kind; what is no JSON is refused."""

    @pytest.mark.parametrize("name", VALUES)
    def test_a_value_comes_back_as_it_was(self, backend: Bed, name: str) -> None:
        value = VALUES[name]
        made = assistant([tool_call("f", value, id="c")], metadata={"x": value})
        backend.store.messages.append("s", made, create=True)
        backend.store.sessions.update("s", metadata=value)
        store = backend.reopen()
        found, session = store.messages.last("s", 1)[0], store.sessions.get("s")
        assert session is not None
        assert same(found.metadata["x"], value)
        assert same(found.tool_calls[0].arguments, value)
        assert same(session.metadata, value)

    @pytest.mark.parametrize("name", VALUES)
    def test_the_body_of_a_node_comes_back_as_it_was(self, backend: Bed, name: str) -> None:
        with backend.store.turns.begin("s", create=True) as turn:
            turn.node("plugin", VALUES[name], id="n")
        node = backend.reopen().nodes.get("s", "n")
        assert node is not None
        assert same(node.body, VALUES[name])

    @pytest.mark.parametrize(
        "bad",
        [math.nan, math.inf, -math.inf, b"bytes", {1: "int key"}, {1, 2}, object(), 1j],
        ids=lambda bad: type(bad).__name__ + str(bad)[:4],
    )
    def test_what_is_no_json_is_refused_by_name(self, backend: Bed, bad: Any) -> None:
        backend.store.sessions.create(id="s")
        for write in (
            lambda: backend.store.messages.append("s", user("x", metadata={"k": [bad]})),
            lambda: backend.store.messages.append("s", assistant([tool_call("f", {"k": bad})])),
            lambda: backend.store.sessions.update("s", metadata={"k": bad}),
            lambda: backend.store.nodes.annotate("s", "n", {"k": bad}),
        ):
            with pytest.raises(InvalidValue) as refused:
                write()
            assert refused.value.field
        assert backend.store.messages.count("s") == 0

    def test_values_may_be_nested_to_a_limit(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", metadata=nested(60))
        found = backend.reopen().sessions.get("s")
        assert found is not None
        assert found.metadata == nested(60)
        for depth in (65, 5000):
            with pytest.raises(InvalidValue):
                backend.store.sessions.update("s", metadata=nested(depth))

    def test_a_body_has_a_largest_size(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        with pytest.raises(InvalidValue):
            backend.store.messages.append("s", user("x" * (16 * 1024 * 1024 + 1)))
        assert backend.store.messages.count("s") == 0
        big = "y" * (4 * 1024 * 1024)
        backend.store.messages.append("s", user(big))
        assert backend.reopen().messages.last("s", 1)[0].text == big


IDS = [
    "a",
    "a/b",
    "a_b",
    "a\\b",
    "../../../etc/passwd",
    "foo\\bar\\baz",
    "foo/bar\\baz..qux",
    ".",
    "..",
    "con",
    " ",
    " a ",
    "A",
    "é",
    "e\u0301",
    "日本語",
    "👩‍👧",
    "שלום",
    "%2e%2e%2f",
    "'; drop table sessions; --",
    '"quoted"',
    "a:b",
    "a\u00a0b",
    "ß",
    "SS",
    "\u0131",
    "x" * 255,
    "👍" * 255,
]
BAD_IDS: list[Any] = [
    "",
    "x" * 256,
    "a\x00b",
    "a\nb",
    "\x7f",
    "a\x85",
    "\ud800",
    7,
    None,
    b"a",
    True,
]


class TestIds:
    """Ids are untrusted: kept to the character, never shared, never a path."""

    @pytest.mark.promise(29, 190, 191)
    def test_strange_ids_are_all_different_sessions(self, backend: Bed) -> None:
        for n, name in enumerate(IDS):
            backend.store.messages.append(name, user(f"text {n}"), create=True)
        store = backend.reopen()
        for n, name in enumerate(IDS):
            found = store.sessions.get(name)
            assert found is not None
            assert found.id == name
            assert [m.text for m in store.messages.history(name)] == [f"text {n}"]

    @pytest.mark.promise(28, 29, 190)
    def test_lists_show_the_original_ids_in_the_order_of_their_characters(
        self, backend: Bed
    ) -> None:
        for name in IDS:
            backend.store.sessions.create(id=name)
        store = backend.reopen()
        assert [s.id for s in store.sessions.iter(order="id")] == sorted(IDS)
        assert [s.id for s in store.sessions.iter(order="-id")] == sorted(IDS, reverse=True)

    @pytest.mark.promise(29, 191)
    def test_strange_ids_can_be_paged_through(self, backend: Bed) -> None:
        for name in IDS:
            backend.store.sessions.create(id=name)
        found: list[str] = []
        cursor = None
        while len(found) < len(IDS):
            page = backend.store.sessions.list(order="id", limit=3, cursor=cursor)
            found += [session.id for session in page.items]
            cursor = page.cursor
        assert found == sorted(IDS)

    @pytest.mark.promise(191)
    def test_purging_one_strange_id_leaves_its_neighbours(self, backend: Bed) -> None:
        for name in IDS:
            backend.store.messages.append(name, user("kept"), create=True)
        backend.store.sessions.purge("a/b")
        left = {session.id for session in backend.store.sessions.iter()}
        assert left == set(IDS) - {"a/b"}
        assert backend.store.messages.count("a_b") == 1

    @pytest.mark.promise(51, 190)
    def test_strange_ids_of_messages_users_apps_tenants_and_branches(self, backend: Bed) -> None:
        for n, name in enumerate(IDS):
            store = backend.store.for_tenant(name)
            store.sessions.create(id=f"s{n}", user=name, app=name)
            store.messages.append(f"s{n}", user("x", id=name, run_id=name))
            store.branches.create(f"s{n}", name, at=name)
        backend.reopen()
        for n, name in enumerate(IDS):
            store = backend.store.for_tenant(name)
            found = store.sessions.list(user=name, app=name).items
            assert [session.id for session in found] == [f"s{n}"]
            message = store.messages.get(name, session=f"s{n}")
            assert message is not None
            assert (message.id, message.run_id) == (name, name)
            assert [branch.name for branch in store.branches.list(f"s{n}")] == ["main", name]

    @pytest.mark.promise(190)
    @pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: repr(bad)[:12])
    def test_an_id_that_is_none_is_refused_by_every_call(self, backend: Bed, bad: Any) -> None:
        sessions, messages = backend.store.sessions, backend.store.messages
        calls: list[Callable[[], object]] = [
            lambda: sessions.get(bad),
            lambda: sessions.ensure(bad),
            lambda: sessions.update(bad, title="x"),
            lambda: sessions.delete(bad),
            lambda: sessions.purge(bad),
            lambda: sessions.head(bad),
            lambda: messages.append(bad, user("x"), create=True),
            lambda: messages.history(bad),
            lambda: messages.get(bad),
            lambda: backend.store.leases.take(bad, owner="w"),
            lambda: backend.store.for_tenant(bad),
        ]
        if bad is not None:
            calls.append(lambda: sessions.create(id=bad))
        for call in calls:
            with pytest.raises(InvalidValue):
                call()
        assert backend.store.sessions.count() == 0

    @pytest.mark.promise(190)
    def test_an_error_with_a_strange_id_can_be_printed(self, backend: Bed) -> None:
        for name in IDS:
            with pytest.raises(LedgerstoneError) as missing:
                backend.store.messages.append(name, user("x"))
            text = str(missing.value)
            assert text.isprintable()
            assert name in text or repr(name)[:80] in text
