"""Lists: pages with cursors, complete iteration, replacing at the cost of what is new."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import (
    AlreadyExists,
    InvalidValue,
    LeafMoved,
    ManualClock,
    Message,
    Node,
    Run,
    SessionNotFound,
    Store,
    assistant,
    user,
)
from ledgerstone.api import pages
from ledgerstone.clock import SystemClock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.intake.cursors import decode, encode, scope
from ledgerstone.testing.wrappers import Wrapper


@pytest.fixture(params=["memory://", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = tmp_path / "a.db" if request.param == "sqlite" else request.param
    with Store.open(url) as store:
        yield store


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


KEY = b"a key of a store"


class TestCursors:
    def test_a_cursor_carries_its_place(self) -> None:
        here = scope("t", "sessions", None, {"a": 1})
        for place in ((5, "ä/b"), (0,), (2**63 - 1, "x" * 255)):
            cursor = encode(KEY, here, place)
            assert decode(KEY, here, cursor) == place
            assert cursor.isascii()
            assert "=" not in cursor

    def test_a_cursor_of_another_list_or_store_is_refused(self) -> None:
        cursor = encode(KEY, scope("t", "sessions"), (5, "x"))
        for key, of_list in ((KEY, scope("u", "sessions")), (b"other", scope("t", "sessions"))):
            with pytest.raises(InvalidValue, match="another call, filter, tenant or store"):
                decode(key, of_list, cursor)

    def test_a_damaged_cursor_is_refused(self) -> None:
        here = scope("t")
        cursor = encode(KEY, here, (5, "x"))
        raw = base64.urlsafe_b64decode(cursor)
        for place in range(len(raw)):
            bent = bytearray(raw)
            bent[place] ^= 1
            with pytest.raises(InvalidValue):
                decode(KEY, here, base64.urlsafe_b64encode(bytes(bent)).decode())
        for text in ("", "a", cursor[:-2], cursor + "ab", "ü", cursor + "!", cursor * 10_000):
            with pytest.raises(InvalidValue):
                decode(KEY, here, text)

    def test_cursors_do_not_travel_between_lists(self, store: Store) -> None:
        for name in ("a", "b"):
            store.messages.append(name, *map(user, "123"), create=True)
        cursor = store.messages.list("a", limit=1).cursor
        sessions = store.sessions.list(limit=1).cursor
        assert cursor is not None
        assert sessions is not None
        foreign: list[Callable[[], object]] = [
            lambda: store.messages.list("b", cursor=cursor),
            lambda: store.messages.list("a", cursor=cursor, order="-seq"),
            lambda: store.messages.list("a", cursor=cursor, deleted=True),
            lambda: store.messages.list("a", cursor=sessions),
            lambda: store.messages.list("nobody", cursor=cursor),
            lambda: store.sessions.list(cursor=cursor),
            lambda: store.sessions.list(cursor=sessions, user="ada"),
            lambda: store.sessions.list(cursor=sessions, order="id"),
            lambda: store.for_tenant("t").sessions.list(cursor=sessions),
        ]
        for call in foreign:
            with pytest.raises(InvalidValue) as caught:
                call()
            assert caught.value.field == "cursor"
        with pytest.raises(InvalidValue) as caught:
            store.messages.list("a", cursor=cursor, offset=1)
        assert caught.value.field == "offset"

    def test_a_cursor_dies_with_the_incarnation_of_its_session(self, store: Store) -> None:
        store.messages.append("a", *map(user, "123"), create=True)
        cursor = store.messages.list("a", limit=1).cursor
        store.sessions.purge("a")
        store.messages.append("a", *map(user, "123"), create=True)
        with pytest.raises(InvalidValue):
            store.messages.list("a", cursor=cursor)

    @pytest.mark.parametrize("order", ["seq", "-seq"])
    def test_pages_put_together_are_the_list(self, store: Store, order: str) -> None:
        said = [str(n) for n in range(7)]
        store.messages.append("a", *map(user, said), create=True)
        seen: list[str] = []
        cursor = None
        for _ in range(9):
            page = store.messages.list("a", order=order, limit=2, cursor=cursor, total=True)
            assert page.total == 7
            seen += texts(page)
            cursor = page.cursor
            if cursor is None:
                break
        assert not page.has_more
        assert seen == (said if order == "seq" else said[::-1])

    def test_a_large_limit_is_clamped_and_says_so(self, store: Store) -> None:
        store.messages.append("a", *(user("x") for _ in range(201)), create=True)
        page = store.messages.list("a", limit=1000)
        assert (len(page), page.has_more) == (200, True)
        assert len(store.messages.last("a", 201)) == 201
        assert len(store.messages.history("a")) == 201


class TestIterating:
    def test_chunks_put_together_are_complete(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ledgerstone.api_sync.message_reads.CHUNK", 3)
        for count in (0, 1, 2, 3, 4, 6, 7):
            name = f"s{count}"
            store.sessions.create(id=name)
            said = [str(n) for n in range(count)]
            store.messages.append(name, *map(user, said))
            assert texts(store.messages.iter(name)) == said

    def test_what_is_added_meanwhile_is_not_seen(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ledgerstone.api_sync.message_reads.CHUNK", 2)
        store.messages.append("s", *map(user, "12345"), create=True)
        going = store.messages.iter("s")
        assert next(going).text == "1"
        store.messages.append("s", user("6"))
        assert texts(going) == ["2", "3", "4", "5"]

    def test_the_path_of_the_start_is_read_to_its_end(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ledgerstone.api_sync.message_reads.CHUNK", 2)
        made = store.messages.append("s", *map(user, "12345"), create=True)
        going = store.messages.iter("s")
        assert next(going).text == "1"
        store.branches.create("s", "kept")
        store.messages.pop("s", 3)
        store.messages.append("s", user("else"))
        store.nodes.tombstone("s", [made[3].id])
        assert texts(going) == ["2", "3", "5"]

    def test_the_last_message_may_vanish_meanwhile(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ledgerstone.api_sync.message_reads.CHUNK", 2)
        made = store.messages.append("s", *map(user, "12345"), create=True)
        going = store.messages.iter("s")
        assert next(going).text == "1"
        store.messages.delete(made[-1])
        assert texts(going) == ["2", "3", "4"]
        assert texts(store.messages.iter("s", deleted=True)) == list("12345")

    def test_sessions_that_move_meanwhile_are_all_seen(self) -> None:
        clock = ManualClock()
        with Store.open("memory://", clock=clock) as store:
            names = [f"{n:03d}" for n in range(450)]
            for name in names:
                clock.advance(1)
                store.sessions.create(id=name)
            seen = []
            for n, session in enumerate(store.sessions.iter()):
                seen.append(session.id)
                clock.advance(1)
                store.sessions.update(names[n % 7], title="moved")
            assert seen == names[::-1]

    def test_a_limit_is_kept_across_chunks(self, store: Store) -> None:
        store.nodes.append("s", *(Node(id=f"{n:04d}", kind="x") for n in range(1100)), create=True)
        assert len(list(store.nodes.iter("s"))) == 1100
        assert [n.id for n in store.nodes.iter("s", limit=3)] == ["1099", "1098", "1097"]
        assert len(list(store.nodes.iter("s", limit=pages.CHUNK + 1))) == pages.CHUNK + 1

    def test_an_iterator_that_ended_stays_ended(self, store: Store) -> None:
        store.messages.append("s", user("1"), create=True)
        going = store.messages.iter("s")
        assert texts(going) == ["1"]
        store.messages.append("s", user("2"))
        assert texts(going) == []


class Counting(Wrapper):
    """Counts reads of the list, and lets somebody else write just before a commit."""

    def __init__(self) -> None:
        super().__init__(open_memory(None, SystemClock()))
        self.reads = 0
        self.interlopers = 0
        self.commits: list[CommitTurn] = []

    def write(self, command: Command[Any]) -> Any:
        if isinstance(command, CommitTurn) and command.kind == "replace":
            self.commits.append(command)
            if self.interlopers:
                self.interlopers -= 1
                Store(self).messages.append("s", user("interloper"))
        return self.inner.write(command)

    def read(self, queries: Any) -> list[Any]:
        self.reads += any(_is_list(query) for query in queries)
        return self.inner.read(queries)


def _is_list(query: Query[Any]) -> bool:
    return isinstance(query, ReadMessages)


class TestReplacing:
    @pytest.fixture
    def backend(self) -> Counting:
        return Counting()

    @pytest.fixture
    def store(self, backend: Counting) -> Iterator[Store]:
        with Store(backend) as store:
            store.messages.append("s", user("a"), assistant("b"), user("c"), create=True)
            yield store

    def test_only_the_new_tail_is_sent(self, store: Store, backend: Counting) -> None:
        done = store.messages.replace("s", [user("a"), assistant("b"), user("d"), user("e")])
        assert (done.kept, done.superseded, len(done.added)) == (2, 1, 2)
        assert texts(store.messages.history("s")) == ["a", "b", "d", "e"]
        assert len(backend.commits[0].nodes) == 2

    def test_with_a_base_nothing_is_read(self, store: Store, backend: Counting) -> None:
        wanted: list[Message] = [user("a")]
        base = store.messages.replace("s", wanted).base
        backend.reads = 0
        for n in range(20):
            wanted.append(user(str(n)))
            done = store.messages.replace("s", wanted, base=base)
            assert (done.kept, done.superseded, len(done.added)) == (n + 1, 0, 1)
            base = done.base
        assert backend.reads == 0
        assert max(len(command.nodes) for command in backend.commits) == 1
        assert texts(store.messages.history("s")) == texts(wanted)

    def test_a_stale_base_is_noticed(self, store: Store, backend: Counting) -> None:
        base = store.messages.replace("s", [user("a")]).base
        store.messages.append("s", user("interloper"))
        done = store.messages.replace("s", [user("a"), user("b")], base=base)
        assert (done.kept, done.superseded) == (1, 1)
        assert texts(store.messages.history("s")) == ["a", "b"]
        with pytest.raises(InvalidValue, match="base"):
            store.messages.replace("t", [], base=base)

    def test_the_same_list_again_commits_nothing(self, store: Store, backend: Counting) -> None:
        same = [user("a"), assistant("b"), user("c")]
        done = store.messages.replace("s", same)
        assert (done.kept, done.added, backend.commits, done.revision) == (3, [], [], 1)
        store.messages.replace("s", same, expected_revision=1)
        assert len(backend.commits) == 1

    def test_an_interloper_makes_it_read_again(self, store: Store, backend: Counting) -> None:
        backend.interlopers = 3
        done = store.messages.replace("s", [user("a"), user("z")])
        assert (done.kept, len(backend.commits)) == (1, 4)
        assert texts(store.messages.history("s")) == ["a", "z"]
        backend.interlopers = 100
        with pytest.raises(LeafMoved):
            store.messages.replace("s", [user("never")])
        assert len(backend.commits) == 4 + 6

    def test_a_leaf_named_by_the_caller_is_not_guessed(
        self, store: Store, backend: Counting
    ) -> None:
        leaf = store.messages.last("s", 1)[0]
        backend.interlopers = 1
        with pytest.raises(LeafMoved):
            store.messages.replace("s", [user("a")], expected_leaf=leaf)
        with pytest.raises(LeafMoved):
            store.messages.replace("s", [user("a")], expected_leaf=None)
        now = store.messages.last("s", 1)[0]
        store.messages.replace("s", [user("a")], expected_leaf=now)

    def test_what_follows_a_message_is_replaced(self, store: Store) -> None:
        first = store.messages.history("s")[0]
        done = store.messages.replace("s", [assistant("b"), user("x")], after=first)
        assert (done.kept, done.superseded) == (2, 1)
        assert texts(store.messages.history("s")) == ["a", "b", "x"]

    def test_ids_count_when_they_are_given(self, store: Store) -> None:
        old = store.messages.history("s")
        kept = store.messages.replace("s", old[:2])
        assert (kept.kept, kept.superseded) == (2, 1)
        other = store.messages.replace("s", [user("a", id="mine"), assistant("b")])
        assert (other.kept, other.superseded, other.added[0].id) == (0, 2, "mine")

    def test_a_taken_id_is_not_given_twice(self, store: Store) -> None:
        old = store.messages.history("s")
        done = store.messages.replace("s", old[1:])
        assert (done.kept, done.superseded) == (0, 3)
        assert texts(store.messages.history("s")) == ["b", "c"]
        assert not {m.id for m in done.added} & {m.id for m in old}
        with pytest.raises(AlreadyExists):
            store.messages.replace("s", [user("new", id=old[0].id)])

    def test_events_behind_a_kept_list_stay(self, store: Store) -> None:
        store.nodes.append("s", Node(id="e", kind="event"))
        same = [user("a"), assistant("b"), user("c")]
        done = store.messages.replace("s", [*same, user("d")])
        assert (done.kept, done.superseded) == (3, 0)
        assert [n.id for n in store.nodes.path("s")][3] == "e"

    def test_a_missing_session_is_made_only_when_asked(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            store.messages.replace("t", [user("a")])
        assert store.messages.replace("t", [user("a")], create=True).revision == 1
        done = store.turns.checkpoint("u", [user("a")], Run(id="r", session="u"))
        assert (done.kept, done.added[0].run_id) == (0, "r")
