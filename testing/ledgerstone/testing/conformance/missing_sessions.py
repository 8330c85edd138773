"""Reads of sessions that are not there: empty by default, an error on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.errors import InvalidValue, SessionNotFound
from ledgerstone.testing.bed import Bed

__all__ = ["TestMissingSessions"]

Read = Callable[..., Any]
"""Reads session `s`; further arguments are handed on."""

READS: dict[str, Callable[[Store], Read]] = {
    "messages.last": lambda store: store.messages.last,
    "messages.history": lambda store: store.messages.history,
    "messages.list": lambda store: lambda s, **how: list(store.messages.list(s, **how)),
    "messages.iter": lambda store: lambda s, **how: list(store.messages.iter(s, **how)),
    "messages.range": lambda store: lambda s, **how: store.messages.range(s, 1, 5, **how),
    "messages.count": lambda store: store.messages.count,
    "messages.context": lambda store: lambda s, **how: store.messages.context(s, **how).messages,
    "messages.latest_compaction": lambda store: store.messages.latest_compaction,
    "nodes.iter": lambda store: lambda s, **how: list(store.nodes.iter(s, **how)),
    "nodes.path": lambda store: store.nodes.path,
    "branches.list": lambda store: store.branches.list,
    "sessions.head": lambda store: store.sessions.head,
    "sessions.state": lambda store: store.sessions.state,
    "sessions.stats": lambda store: lambda s, **how: store.sessions.stats(s, **how).turns,
    "sessions.load": lambda store: store.sessions.load,
    "sessions.document": lambda store: store.sessions.document,
    "sessions.at": lambda store: lambda s, **how: store.sessions.at(s, 1, **how),
    "sessions.recovery": lambda store: store.sessions.recovery,
    "usage.summary": lambda store: lambda s, **how: store.usage.summary(session=s, **how),
    "usage.list": lambda store: store.usage.list,
    "usage.iter": lambda store: lambda s, **how: list(store.usage.iter(s, **how)),
    "executions.list": lambda store: lambda s, **how: store.executions.list(session=s, **how),
    "executions.unresolved": lambda store: (
        lambda s, **how: store.executions.unresolved(session=s, **how)
    ),
    "work.list": lambda store: store.work.list,
    "tickets.list": lambda store: lambda s, **how: list(store.tickets.list(session=s, **how)),
    "runs.list": lambda store: lambda s, **how: list(store.runs.list(session=s, **how)),
    "runs.latest": lambda store: store.runs.latest,
    "runs.iter": lambda store: lambda s, **how: list(store.runs.iter(session=s, **how)),
    "turns.list": lambda store: store.turns.list,
    "drafts.list": lambda store: store.drafts.list,
}


@pytest.mark.promise(214)
class TestMissingSessions:
    """`missing="raise"` of reads."""

    @pytest.mark.parametrize("name", READS)
    def test_an_unknown_session_is_empty_or_an_error(self, backend: Bed, name: str) -> None:
        read = READS[name](backend.store)
        assert not read("nobody")
        assert not read("nobody", missing="empty")
        with pytest.raises(SessionNotFound) as refused:
            read("nobody", missing="raise")
        assert refused.value.id == "nobody"

    @pytest.mark.parametrize("name", READS)
    def test_a_session_that_is_there_is_read(self, backend: Bed, name: str) -> None:
        store = backend.store
        read = READS[name](store)
        store.sessions.create(id="s")
        empty = read("s")
        assert read("s", missing="raise") == empty
        store.messages.append("s", user("hello"))
        full = read("s")
        assert read("s", missing="raise") == full
        store.sessions.delete("s")
        assert read("s", missing="raise") == read("s")

    @pytest.mark.parametrize("name", READS)
    def test_purged_ones_and_those_of_other_tenants_are_not_there(
        self, backend: Bed, name: str
    ) -> None:
        store = backend.store
        backend.open(None).for_tenant("other").messages.append("s", user("theirs"), create=True)
        store.messages.append("gone", user("ours"), create=True)
        store.sessions.purge("gone")
        for session in ("s", "gone"):
            with pytest.raises(SessionNotFound):
                READS[name](store)(session, missing="raise")

    @pytest.mark.parametrize("name", READS)
    def test_anything_else_is_refused(self, backend: Bed, name: str) -> None:
        backend.store.sessions.create(id="s")
        for session in ("s", "nobody"):
            with pytest.raises(InvalidValue, match="missing"):
                READS[name](backend.store)(session, missing="create")

    def test_a_read_of_no_session_can_miss_none(self, backend: Bed) -> None:
        store = backend.store
        for read in (store.runs.list, store.tickets.list):
            with pytest.raises(InvalidValue, match="missing"):
                read(missing="raise")

    def test_long_reads_go_on(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", *(user(str(n)) for n in range(1200)), create=True)
        assert len(list(store.messages.iter("s", missing="raise"))) == 1200
        page = store.messages.list("s", limit=200, missing="raise")
        page = store.messages.list("s", limit=200, cursor=page.cursor, missing="raise")
        assert page.items[0].text == "200"
