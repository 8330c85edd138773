"""Reading a list page by page while others write to it: nothing skipped, nothing twice.

A `Disturber` appends, deletes, pops, branches, creates and renames all the time. What it says is
`lasting` is never touched again: each such item that was there when a scan began must come exactly
once. Anything else may come or not, but not twice.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from ledgerstone.api_sync.store import Store
from ledgerstone.commands import Query
from ledgerstone.commands.nodes import ListMessages, ListNodes
from ledgerstone.commands.sessions import ListSessions
from ledgerstone.ports.backend import Backend
from ledgerstone.records.messages import user
from ledgerstone.records.sessions import Page
from ledgerstone.testing.wrappers import Wrapper

SESSION = "s"
RUN = "run"
PAGE = 7
FIRST_ITEMS = 40
WAIT_S = 0.05
AHEAD = 3

Ids = Iterator[list[str]]
Scan = Callable[[Store], Ids]


class Disturber:
    """One thread that changes everything that lists show.

    It acts once for each page: a list that grew faster than it is read would never end.
    """

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._random = Random(seed)
        self._stop = threading.Event()
        self._passing: list[str] = []
        self._branches = 0
        self._count = 0
        self.messages: list[str] = []
        self.turns: list[str] = []
        self.sessions: list[str] = []
        self._allowed = threading.Semaphore(0)
        self._done = threading.Semaphore(AHEAD)
        self.disturbed = 0
        self.error: BaseException | None = None
        for _ in range(FIRST_ITEMS):
            self._append_lasting()
            self._create_lasting()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Disturber:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def allow_one(self) -> None:
        """A page is about to be read; the changes are at most a few pages behind."""
        self._allowed.release()
        while not self._done.acquire(timeout=WAIT_S):
            if self.error is not None:
                raise self.error

    def _live(self) -> None:
        try:
            while not self._stop.is_set():
                if self._allowed.acquire(timeout=WAIT_S):
                    self._random.choice(self._actions())()
                    self.disturbed += 1
                    self._done.release()
        except BaseException as error:
            self.error = error

    def _actions(self) -> list[Callable[[], None]]:
        return [
            self._append_lasting,
            self._append_passing,
            self._append_passing,
            self._delete_message,
            self._delete_message,
            self._pop,
            self._branch,
            self._create_lasting,
            self._create_passing,
            self._touch,
        ]

    def _append_lasting(self) -> None:
        turn = self._store.turns.begin(SESSION, create=True, run_id=RUN)
        message = turn.user("lasting")
        answer = turn.commit()
        self.messages.append(message.id)
        self.turns.append(answer.turn)

    def _append_passing(self) -> None:
        sent = self._store.messages.append(SESSION, user("passing"), run_id=RUN)
        self._passing.append(sent[0].id)

    def _delete_message(self) -> None:
        """Any of those that may go, the newest one of all too."""
        if self._passing:
            gone = self._passing.pop(self._random.randrange(len(self._passing)))
            self._store.messages.delete(gone, session=SESSION)

    def _pop(self) -> None:
        """Take off the path what was put on it for that."""
        self._append_passing()
        self._store.messages.pop(SESSION)
        self._passing.pop()

    def _branch(self) -> None:
        """Grow another branch out of the middle."""
        self._branches += 1
        name, at = f"b{self._branches}", self._random.choice(self.messages)
        self._store.branches.create(SESSION, name, at=at)
        self._store.messages.append(SESSION, user("elsewhere"), branch=name)

    def _create_lasting(self) -> None:
        self.sessions.append(self._store.sessions.create(title="lasting").id)

    def _create_passing(self) -> None:
        self._count += 1
        name = f"passing-{self._count}"
        self._store.sessions.create(id=name)
        if self._count > PAGE:
            old = f"passing-{self._count - PAGE}"
            remove = self._random.choice((self._store.sessions.delete, self._store.sessions.purge))
            remove(old)

    def _touch(self) -> None:
        """Rename one of those that may move in the lists by time of change."""
        if self._count:
            self._store.sessions.update(f"passing-{self._count}", title=f"{self._random.random()}")


def judged(pages: Ids, lasting: Iterable[str], *, moving: bool = False) -> Iterator[str]:
    """What is wrong with one scan; in a list that is `moving` only lasting items come once."""
    seen = Counter(item for page in pages for item in page)
    kept = list(lasting)
    for item in kept:
        if seen[item] != 1:
            yield f"{item} was there all the time and came {seen[item]} times"
    if not moving:
        known = set(kept)
        for item, count in seen.items():
            if count > 1 and item not in known:
                yield f"{item} came {count} times"


def cursor_pages(fetch: Callable[[str | None], Page[Any]]) -> Ids:
    """Page after page, by the cursor of the one before."""
    cursor: str | None = None
    while True:
        page = fetch(cursor)
        yield [item.id for item in page.items]
        cursor = page.cursor
        if not page.has_more:
            return


def _messages(**options: Any) -> Scan:
    return lambda store: cursor_pages(
        lambda cursor: store.messages.list(SESSION, limit=PAGE, cursor=cursor, **options)
    )


def _sessions(**options: Any) -> Scan:
    return lambda store: cursor_pages(
        lambda cursor: store.sessions.list(limit=PAGE, cursor=cursor, **options)
    )


def _nodes(session: str | None, order: str) -> Scan:
    return lambda store: ([node.id] for node in store.nodes.iter(session, order=order))


def _turns(store: Store) -> Ids:
    after = 0
    while page := store.turns.list(SESSION, after_revision=after, limit=PAGE):
        yield [turn.turn for turn in page]
        after = page[-1].revision


def _ranges(store: Store) -> Ids:
    """Windows of positions, up to where the path ended when the scan began."""
    end = store.messages.last(SESSION, 1)[-1].seq
    for first in range(1, end + 1, PAGE):
        window = store.messages.range(SESSION, first, first + PAGE - 1)
        yield [message.id for message in window]


def _behind(store: Store) -> Ids:
    """The rest behind a position, of which only a page is taken each time."""
    after = 0
    while rest := store.messages.history(SESSION, after_seq=after)[:PAGE]:
        yield [message.id for message in rest]
        after = rest[-1].seq


MESSAGE_SCANS: dict[str, Scan] = {
    "list": _messages(),
    "list newest first": _messages(order="-seq"),
    "list with deleted": _messages(deleted=True),
    "list of a run": _messages(run_id=RUN),
    "list of a run newest first": _messages(run_id=RUN, order="-seq"),
    "iter": lambda store: ([message.id] for message in store.messages.iter(SESSION)),
    "range": _ranges,
    "history": _behind,
}
NODE_SCANS: dict[str, Scan] = {
    **{f"iter {order}": _nodes(SESSION, order) for order in ("ord", "-ord", "id", "-id")},
    **{f"iter tenant {order}": _nodes(None, order) for order in ("ord", "-ord", "id", "-id")},
}
TURN_SCANS: dict[str, Scan] = {"list": _turns}
SESSION_SCANS: dict[str, Scan] = {
    **{f"list {order}": _sessions(order=order) for order in ("-created", "created", "id", "-id")},
    **{f"list {order}": _sessions(order=order) for order in ("-updated", "updated")},
    "list with deleted": _sessions(order="created", deleted=True),
    "iter": lambda store: ([session.id] for session in store.sessions.iter()),
}
MOVING = {"list -updated", "list updated"}


class CountsReads(Wrapper):
    """How many pages were asked for; each allows the disturber one more change."""

    def __init__(self, inner: Backend, disturber: Disturber) -> None:
        super().__init__(inner)
        self._disturber = disturber
        self.count = 0

    def read(self, queries: Any) -> list[Any]:
        self.count += 1
        self._disturber.allow_one()
        return self.inner.read(queries)


class PagesByOffset(Wrapper):
    """Finds the next page by counting what it gave before, as if nobody had written since."""

    given = 0

    def read(self, queries: Any) -> list[Any]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Any:
        if not isinstance(query, ListMessages | ListNodes | ListSessions):
            return self.inner.read([query])[0]
        if query.after is None:
            self.given = 0
        start = self.given
        answer = self._first(query, start + query.limit)
        items = list(answer)[start:]
        self.given += len(items)
        if isinstance(answer, Page):
            return Page(items, answer.has_more)
        return items

    def _first(self, query: Any, count: int) -> Any:
        return self.inner.read([replace(query, after=None, limit=count)])[0]
