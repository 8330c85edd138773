"""The feed: complete, in order, resumable, blind for other tenants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.api_sync.feed import Following
from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.commands.sessions import SweepPurged
from ledgerstone.errors import InvalidValue, StoreClosed
from ledgerstone.ids import new_id
from ledgerstone.records.feed import FeedEntry, FeedPage
from ledgerstone.testing.bed import Bed

WAIT_S = 20.0


def say(backend: Bed, session: str, text: str = "x") -> None:
    backend.store.messages.append(session, user(text), create=True)


def places(page: FeedPage) -> list[tuple[str, int]]:
    """Which commits: the shortest way to say what a page shows."""
    return [(entry.session, entry.revision) for entry in page.entries]


def purge(backend: Bed, session: str) -> None:
    backend.store.sessions.purge(session)
    while backend.write(SweepPurged(tenant="default", limit=100)):
        pass


class TestFeed:
    def test_commits_come_in_the_order_they_happened(self, backend: Bed) -> None:
        for name in ("a", "b", "a", "c"):
            say(backend, name)
        page = backend.store.feed.read()
        assert places(page) == [("a", 1), ("b", 1), ("a", 2), ("c", 1)]
        assert not page.has_more
        found = [entry.pos for entry in page.entries]
        assert found == sorted(set(found))

    def test_an_entry_says_what_the_commit_was(self, backend: Bed) -> None:
        turn = backend.store.turns.begin("s", create=True)
        turn.add(user("one"))
        turn.add(user("two"))
        done = turn.commit()
        entry = backend.store.feed.read().entries[0]
        kind = backend.store.turns.list("s")[0].kind
        assert (entry.turn, entry.nodes, entry.kind) == (done.turn, 2, kind)
        assert entry.created_us == done.created_us
        assert entry.created_at.timestamp() * 1_000_000 == pytest.approx(done.created_us)

    def test_an_empty_feed_is_an_empty_page(self, backend: Bed) -> None:
        assert backend.store.feed.read() == FeedPage(entries=[], cursor=None, has_more=False)
        assert backend.store.feed.read(session="nobody").entries == []
        assert backend.ask(FeedEnd(tenant="default")) == 0

    def test_pages_go_on_where_the_last_one_ended(self, backend: Bed) -> None:
        for n in range(7):
            say(backend, f"s{n % 2}")
        found: list[tuple[str, int]] = []
        page = backend.store.feed.read(limit=3)
        sizes = [len(page.entries)]
        while page.has_more:
            found += places(page)
            page = backend.store.feed.read(after=page.cursor, limit=3)
            sizes.append(len(page.entries))
        found += places(page)
        assert sizes == [3, 3, 1]
        assert found == [(f"s{n % 2}", n // 2 + 1) for n in range(7)]

    def test_every_entry_is_a_place_to_go_on(self, backend: Bed) -> None:
        for name in "abcde":
            say(backend, name)
        entries = backend.store.feed.read().entries
        for n, entry in enumerate(entries, start=1):
            rest = backend.store.feed.read(after=entry.cursor)
            assert rest.entries == entries[n:]
        assert backend.store.feed.read(after=entries[-1].cursor).cursor == entries[-1].cursor

    def test_now_has_nothing_yet(self, backend: Bed) -> None:
        say(backend, "a")
        page = backend.store.feed.read(after="now")
        assert page.entries == []
        say(backend, "a")
        say(backend, "b")
        assert places(backend.store.feed.read(after=page.cursor)) == [("a", 2), ("b", 1)]

    def test_one_session_by_its_revisions(self, backend: Bed) -> None:
        for name in ("a", "b", "a", "a"):
            say(backend, name)
        read = backend.store.feed.read
        assert places(read(session="a")) == [("a", 1), ("a", 2), ("a", 3)]
        assert places(read(session="a", after=1)) == [("a", 2), ("a", 3)]
        page = read(session="a", after=1, limit=1)
        assert (places(page), page.has_more) == ([("a", 2)], True)
        assert places(read(session="a", after=page.cursor)) == [("a", 3)]
        assert read(session="a", after=99).entries == []
        assert read(session="a", after="now").entries == []

    def test_other_tenants_are_not_seen(self, backend: Bed) -> None:
        other = backend.store.for_tenant("other")
        say(backend, "s")
        other.messages.append("s", user("theirs"), create=True)
        say(backend, "s")
        assert places(backend.store.feed.read()) == [("s", 1), ("s", 2)]
        assert places(other.feed.read()) == [("s", 1)]
        cursor = other.feed.read().cursor
        with pytest.raises(InvalidValue):
            backend.store.feed.read(after=cursor)

    def test_bad_places_are_refused(self, backend: Bed) -> None:
        say(backend, "s")
        session_cursor = backend.store.feed.read(session="s").cursor
        read: Callable[..., Any] = backend.store.feed.read
        for bad in ("nonsense", "", 3, 1.5, True, session_cursor):
            with pytest.raises(InvalidValue):
                read(after=bad)
            with pytest.raises(InvalidValue):
                backend.store.feed.follow(after=bad)  # type: ignore[arg-type]
        for bad in (-1, 1.5, True, backend.store.feed.read().cursor):
            with pytest.raises(InvalidValue):
                read(after=bad, session="s")
        for limit in (0, -1):
            with pytest.raises(InvalidValue):
                read(limit=limit)
        for poll_s in (-1, 0, float("inf")):
            with pytest.raises(InvalidValue):
                backend.store.feed.follow(poll_s=poll_s)

    def test_forks_and_copies_are_commits(self, backend: Bed) -> None:
        say(backend, "a")
        fork = backend.store.sessions.fork("a", new_id="b")
        assert fork.id == "b"
        assert places(backend.store.feed.read()) == [("a", 1), ("b", 1)]

    def test_a_repeated_turn_stands_there_once(self, backend: Bed) -> None:
        for _ in range(2):
            turn = backend.store.turns.begin("s", id="t1", create=True)
            turn.add(user("x", id="m1"))
            turn.commit()
        assert places(backend.store.feed.read()) == [("s", 1)]

    def test_it_survives_opening_again(self, backend: Bed) -> None:
        for name in ("a", "b", "a"):
            say(backend, name)
        before = backend.store.feed.read()
        backend.reopen()
        assert backend.store.feed.read() == before
        say(backend, "c")
        assert places(backend.store.feed.read(after=before.cursor)) == [("c", 1)]


class TestFeedAfterPurge:
    def test_a_purged_session_leaves_the_feed(self, backend: Bed) -> None:
        for name in ("a", "b", "a"):
            say(backend, name)
        backend.store.sessions.purge("a")
        assert places(backend.store.feed.read()) == [("b", 1)]
        assert backend.store.feed.read(session="a").entries == []

    def test_no_place_is_given_out_twice(self, backend: Bed) -> None:
        say(backend, "a")
        say(backend, "b")
        cursor = backend.store.feed.read().cursor
        given = [entry.pos for entry in backend.store.feed.read().entries]
        for n in range(3):
            purge(backend, "b")
            assert backend.ask(FeedEnd(tenant="default")) <= given[-1]
            backend.reopen()
            assert backend.ask(FeedEnd(tenant="default")) <= given[-1]
            say(backend, "b", f"again {n}")
            page = backend.store.feed.read(after=cursor)
            assert places(page) == [("b", 1)]
            given.append(page.entries[0].pos)
            cursor = page.cursor
        assert given == sorted(set(given))

    def test_an_empty_store_goes_on_counting(self, backend: Bed) -> None:
        for name in ("a", "b"):
            say(backend, name)
        given = backend.ask(FeedEnd(tenant="default"))
        for name in ("b", "a"):
            purge(backend, name)
        backend.reopen()
        say(backend, "c")
        found = backend.ask(ReadFeed(tenant="default"))
        assert [(entry.session, entry.pos > given) for entry in found] == [("c", True)]
        backend.reopen()
        assert backend.ask(ReadFeed(tenant="default")) == found

    def test_what_is_left_of_it_says_nothing(self, backend: Bed) -> None:
        say(backend, "a")
        purge(backend, "a")
        counts = backend.store.admin.stats().counts
        assert {counts[name] for name in ("sessions", "nodes", "turns")} == {0}
        assert not backend.store.admin.verify().defects
        assert backend.store.feed.read().entries == []


class Follower(threading.Thread):
    """Follows until it saw `wanted` commits, or until it is told to give up after `stop_at`."""

    def __init__(self, following: Following, wanted: int) -> None:
        super().__init__(daemon=True)
        self.following = following
        self.wanted = wanted
        self.seen: list[FeedEntry] = []
        self.start()

    def run(self) -> None:
        while len(self.seen) < self.wanted:
            entry = next(self.following, None)
            if entry is None:
                return
            self.seen.append(entry)

    def result(self) -> list[FeedEntry]:
        self.join(WAIT_S)
        assert not self.is_alive(), f"{len(self.seen)} of {self.wanted} came"
        return self.seen


class TestFollowing:
    def test_old_ones_first_then_new_ones_as_they_come(self, backend: Bed) -> None:
        say(backend, "a")
        follower = Follower(backend.store.feed.follow(), 3)
        say(backend, "b")
        time.sleep(0.02)
        say(backend, "a")
        found = [(entry.session, entry.revision) for entry in follower.result()]
        assert found == [("a", 1), ("b", 1), ("a", 2)]

    def test_from_now_on(self, backend: Bed) -> None:
        say(backend, "a")
        following = backend.store.feed.follow(after="now", poll_s=0.01)
        follower = Follower(following, 1)
        while following._place is None:
            time.sleep(0.001)
        say(backend, "b")
        assert [entry.session for entry in follower.result()] == ["b"]

    def test_one_session(self, backend: Bed) -> None:
        follower = Follower(backend.store.feed.follow("a", after=1), 2)
        for name in ("a", "b", "a", "b", "a"):
            say(backend, name)
        assert [entry.revision for entry in follower.result()] == [2, 3]

    def test_closing_the_store_ends_it(self, backend: Bed) -> None:
        say(backend, "a")
        store = backend.store
        follower = Follower(store.feed.follow(), 2)
        while len(follower.seen) < 1:
            time.sleep(0.001)
        store.close()
        assert len(follower.result()) == 1
        with pytest.raises(StoreClosed):
            store.feed.read()

    def test_nothing_is_skipped_and_nothing_comes_twice(self, backend: Bed) -> None:
        """Four writers and three followers, one of which stops and is resumed by its cursor."""
        each, writers = 15, 4
        total = each * writers
        feed = backend.store.feed
        followers = [Follower(feed.follow(), total) for _ in range(2)]
        first = Follower(feed.follow(), total // 3)

        def write(n: int) -> None:
            for k in range(each):
                say(backend, f"s{(n + k) % 3}", new_id())

        threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        begun = first.result()
        second = Follower(feed.follow(after=begun[-1].cursor), total - len(begun))
        for thread in threads:
            thread.join(WAIT_S)
        wanted = [entry.turn for entry in feed.read().entries]
        assert len(wanted) == total
        seen = [follower.result() for follower in followers]
        seen.append([*begun, *second.result()])
        for entries in seen:
            assert [entry.turn for entry in entries] == wanted
            for name in ("s0", "s1", "s2"):
                revisions = [entry.revision for entry in entries if entry.session == name]
                assert revisions == list(range(1, len(revisions) + 1))
