"""For a subject whose places in the feed are not 1, 2, 3: their order is compared instead."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledgerstone.commands import Query
from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.records.feed import FeedEntry
from tests.machine.machine import LedgerMachine, outcome

EVERYTHING = 100_000


class SparsePlaces(LedgerMachine):
    """The machine, with questions about the feed told to each side in its own places."""

    def ask(self, query: Query[Any]) -> Any:
        if isinstance(query, ReadFeed):
            return self._ask_feed(query)
        if isinstance(query, FeedEnd):
            last = [entry.pos for entry in self._whole(self.subject, query.tenant)][-1:]
            assert self.subject.read([query])[0] >= max(last, default=0)
            return self.model.read([query])[0]
        return super().ask(query)

    def _ask_feed(self, query: ReadFeed) -> Any:
        there = query
        if query.session is None:
            there = replace(query, after=self._place(query.tenant, query.after))
        wanted = outcome(lambda: self.model.read([query])[0])
        got = outcome(lambda: self.subject.read([there])[0])
        if isinstance(got, list):
            places = [entry.pos for entry in got]
            assert places == sorted(set(places)), f"places do not rise: {places}"
        self.compare(query, _unplaced(wanted), _unplaced(got))
        return wanted

    def _place(self, tenant: str, after: int) -> int:
        """The subject's name for a place of the model: as many commits are before it."""
        before = [entry for entry in self._whole(self.model, tenant) if entry.pos <= after]
        theirs = self._whole(self.subject, tenant)[: len(before)]
        return theirs[-1].pos if theirs else 0

    def _whole(self, backend: Any, tenant: str) -> list[FeedEntry]:
        entries: list[FeedEntry] = backend.read([ReadFeed(tenant=tenant, limit=EVERYTHING)])[0]
        return entries


def _unplaced(answer: Any) -> Any:
    return [replace(entry, pos=0) for entry in answer] if isinstance(answer, list) else answer
