"""Cursors: signed by the store, good for the very list they came from, and for nothing else."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Store, tool_call, user
from ledgerstone.errors import InvalidValue
from ledgerstone.intake.cursors import encode, scope
from ledgerstone.intake.sessions import cursor_scope, session_filter
from ledgerstone.testing.bed import Bed

FORGED = 10_000
SEED = 20261118
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
Call = Callable[[Store, str | None], Any]

CALLS: dict[str, Call] = {
    "sessions.list": lambda s, c: s.sessions.list(limit=1, cursor=c),
    "sessions.list by id": lambda s, c: s.sessions.list(limit=1, order="id", cursor=c),
    "messages.list": lambda s, c: s.messages.list("a", limit=1, cursor=c),
    "messages.list backwards": lambda s, c: s.messages.list("a", limit=1, order="-seq", cursor=c),
    "runs.list": lambda s, c: s.runs.list(limit=1, cursor=c),
    "tickets.list": lambda s, c: s.tickets.list(limit=1, cursor=c),
    "tickets.inbox": lambda s, c: s.tickets.inbox(limit=1, cursor=c),
    "work.dead": lambda s, c: s.work.dead(limit=1, cursor=c),
    "feed.read": lambda s, c: s.feed.read(limit=1, after=c),
    "feed.read of a session": lambda s, c: s.feed.read(limit=1, session="a", after=c),
}
SAME_LIST = {"tickets.list", "tickets.inbox"}


def fill(store: Store) -> None:
    """Two of everything that is listed by pages."""
    for name in ("a", "b"):
        store.sessions.create(id=name)
        store.messages.append(name, user("one"))
        store.messages.append(name, user("two"))
        store.runs.create(name)
        with store.turns.begin(name) as turn:
            turn.assistant([tool_call("pay", {}, id="c")])
            turn.ask("c")
        store.work.enqueue(name, {"job": 1}, max_attempts=1)
        taken = store.work.take(owner="ann")
        assert taken is not None
        store.work.fail(taken.claim, "broken")


def real_cursors(store: Store) -> dict[str, str]:
    found = {name: call(store, None).cursor for name, call in CALLS.items()}
    assert all(found.values()), found
    return found


def forge(rng: random.Random, cursor: str) -> str:
    """A text that is nearly a cursor, or nothing like one."""
    place = rng.randrange(len(cursor))
    raw = bytearray(base64.urlsafe_b64decode(cursor))
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return rng.choice(
        [
            cursor[:place] + rng.choice(ALPHABET) + cursor[place + 1 :],
            cursor[:place],
            cursor[place:],
            cursor[:place] + rng.choice(ALPHABET) + cursor[place:],
            cursor + rng.choice(ALPHABET) * rng.randrange(1, 9),
            cursor[:place] + cursor[place + 1 :],
            cursor[::-1],
            cursor.swapcase(),
            cursor + rng.choice(["=", "==", "\n", " ", "!", "\0", "é", "\ud800"]),
            cursor.replace("-", "+").replace("_", "/") + " ",
            base64.urlsafe_b64encode(bytes(raw)).decode(),
            base64.urlsafe_b64encode(rng.randbytes(rng.randrange(60))).decode(),
            base64.urlsafe_b64encode(b'[9223372036854775808,"x"]').decode(),
            "".join(rng.choice(ALPHABET) for _ in range(len(cursor))),
        ]
    )


class TestCursors:
    def test_forged_cursors_are_refused_with_a_clear_text(self, backend: Bed) -> None:
        print(f"seed {SEED}")
        rng = random.Random(SEED)
        store = backend.store
        fill(store)
        cursors = real_cursors(store)
        for _ in range(FORGED):
            name = rng.choice(list(CALLS))
            text = forge(rng, cursors[name])
            if text == cursors[name]:
                continue
            with pytest.raises(InvalidValue, match="not a cursor of this list") as caught:
                CALLS[name](store, text)
            assert caught.value.field == "cursor", (name, text)
        assert all(CALLS[name](store, cursor) for name, cursor in cursors.items())

    @pytest.mark.parametrize(
        "place", [(1,), ("a", "b"), (2**70, "x"), (1.5, "x"), (1, 2, 3), (0, ""), ()]
    )
    def test_who_knows_the_form_but_not_the_key_makes_none(
        self, backend: Bed, place: tuple[Any, ...]
    ) -> None:
        fill(backend.store)
        filters = session_filter({})
        scopes = {
            "sessions.list": cursor_scope("default", filters, "-updated"),
            "sessions.list by id": cursor_scope("default", filters, "id"),
            "feed.read": scope("default", "feed", None),
            "feed.read of a session": scope("default", "feed", "a"),
        }
        for name, of_list in scopes.items():
            forged = encode(b"a guessed key", of_list, place)
            with pytest.raises(InvalidValue, match="not a cursor of this list"):
                CALLS[name](backend.store, forged)
            signed = encode(backend.port.cursor_key, of_list, (0, "a"))
            assert CALLS[name](backend.store, signed) is not None  # The scope is right.

    def test_a_cursor_is_good_for_the_call_it_came_from_only(self, backend: Bed) -> None:
        store = backend.store
        fill(store)
        cursors = real_cursors(store)
        for name, call in CALLS.items():
            for other, cursor in cursors.items():
                if other == name or {name, other} == SAME_LIST:
                    assert call(store, cursor) is not None
                    continue
                with pytest.raises(InvalidValue, match="not a cursor of this list"):
                    call(store, cursor)

    @pytest.mark.promise(14)
    def test_a_cursor_of_another_tenant_or_store_is_refused(self, backend: Bed) -> None:
        store, twin = backend.store, backend.store.for_tenant("twin")
        with Store.open("memory://", clock=backend.clock) as elsewhere:
            for one in (store, twin, elsewhere):
                fill(one)
            for foreign in (real_cursors(twin), real_cursors(elsewhere)):
                for name, call in CALLS.items():
                    with pytest.raises(InvalidValue, match="not a cursor of this list"):
                        call(store, foreign[name])

    def test_every_handle_and_every_opening_knows_the_same_key(self, backend: Bed) -> None:
        fill(backend.store)
        cursors = real_cursors(backend.store)
        wanted = {name: call(backend.store, cursors[name]) for name, call in CALLS.items()}
        other = backend.open("default")
        for name, call in CALLS.items():
            assert _shown(call(other, cursors[name])) == _shown(wanted[name])
        store = backend.reopen()
        for name, call in CALLS.items():
            assert _shown(call(store, cursors[name])) == _shown(wanted[name])

    @pytest.mark.parametrize("odd", [b"x", 7, True, ["x"], {}])
    def test_a_cursor_is_a_text(self, backend: Bed, odd: Any) -> None:
        for name, call in CALLS.items():
            if name == "feed.read of a session" and odd == 7:
                continue  # A revision.
            with pytest.raises(InvalidValue):
                call(backend.store, odd)

    @pytest.mark.promise(14, 193)
    def test_a_cursor_tells_nothing_of_what_others_commit(self, backend: Bed) -> None:
        """Neither what it says nor how long it is, nor whether two of them are equal."""
        store, other = backend.open("acme"), backend.store.for_tenant("other")
        store.messages.append("s", user("hi"), create=True)
        first = store.feed.read()
        ends = [store.feed.read(after="now").cursor for _ in range(2)]
        for n in range(120):
            other.messages.append(str(n), user("busy"), create=True)
        assert store.feed.read() == first
        ends.append(store.feed.read(after="now").cursor)
        assert len(set(ends)) == 3
        store.messages.append("s", user("again"))
        last = store.feed.read(after=ends[-1]).entries[0]
        assert [entry.pos for entry in (*first.entries, last)] == [0, 0]
        assert len(last.cursor) == len(first.entries[0].cursor)
        for cursor in (last.cursor, *ends):
            assert cursor is not None
            readable = sum(one in b" []0123456789" for one in base64.urlsafe_b64decode(cursor))
            assert readable < len(cursor) // 3


def _shown(page: Any) -> Any:
    """What a page shows, without the position that only the operator sees."""
    if hasattr(page, "entries"):
        return [entry.turn for entry in page.entries], page.cursor
    return page
