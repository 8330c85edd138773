"""A session in numbers."""

from __future__ import annotations

import pytest

from ledgerstone import Cost, Usage, assistant, user
from ledgerstone.records.stats import Stats
from ledgerstone.testing.bed import Bed


class TestStats:
    @pytest.mark.promise(159)
    def test_an_unknown_session_is_all_zeros(self, backend: Bed) -> None:
        assert backend.store.sessions.stats("nobody") == Stats(session="nobody")
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.stats("s") == Stats(session="s")

    @pytest.mark.promise(159)
    def test_messages_calls_tokens_and_money(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("a"), assistant("b"), user("c"), create=True)
        for n, duration_ms in enumerate((10, 25)):
            call = store.executions.start("s", call_id=f"ok{n}", tool="t")
            store.executions.finish(call, result=n, duration_ms=duration_ms)
        call = store.executions.start("s", call_id="bad", tool="t")
        store.executions.finish(call, error="no", duration_ms=6)
        store.executions.start("s", call_id="open", tool="t")
        with store.turns.begin("s") as turn:
            turn.use("m", Usage(10, 5, 1, 2, 3), cost=Cost(100))
            turn.use("n", Usage(1, 1), cost=Cost(7, "EUR"))
            turn.use("unknown", Usage(2))
        wanted = Stats(
            session="s",
            messages=3,
            user_messages=2,
            turns=2,
            tool_calls=4,
            tool_calls_succeeded=2,
            tool_calls_failed=1,
            average_duration_ms=41 // 3,
            usage=Usage(13, 6, 1, 2, 3, 19),
            costs=[Cost(7, "EUR"), Cost(100)],
            calls=3,
            unpriced=1,
        )
        assert store.sessions.stats("s") == wanted
        assert backend.reopen().sessions.stats("s") == wanted
        assert backend.store.admin.verify().ok

    @pytest.mark.promise(159)
    def test_a_call_that_is_tried_again_counts_once(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        call = store.executions.start("s", call_id="c", tool="t")
        for _ in range(2):
            store.executions.finish(call, error="no", duration_ms=9)
        store.executions.retry(call)
        stats = store.sessions.stats("s")
        assert (stats.tool_calls, stats.tool_calls_failed, stats.average_duration_ms) == (1, 0, 0)
        with store.turns.begin("s", id="t") as turn:
            turn.execution(call, result=1, duration_ms=4)
        with store.turns.begin("s", id="t") as turn:
            turn.execution(call, result=1, duration_ms=4)
        for _ in range(2):
            stats = backend.store.sessions.stats("s")
            assert (stats.tool_calls, stats.tool_calls_succeeded) == (1, 1)
            assert stats.average_duration_ms == 4
            backend.reopen()
        assert backend.store.admin.verify().ok

    @pytest.mark.promise(159)
    def test_only_what_main_shows_is_counted(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("a", id="m1"), assistant("b"), create=True)
        store.branches.create("s", "side", at="m1")
        store.messages.append("s", user("c"), branch="side")
        assert (store.sessions.stats("s").messages, store.sessions.stats("s").turns) == (2, 3)
        store.messages.clear("s")
        assert store.sessions.stats("s").messages == 0

    @pytest.mark.promise(159)
    def test_a_deleted_session_keeps_its_numbers_and_a_purged_one_does_not(
        self, backend: Bed
    ) -> None:
        store = backend.store
        store.messages.append("s", user("a"), create=True)
        store.usage.record("s", "m", Usage(5))
        before = store.sessions.stats("s")
        store.sessions.delete("s")
        assert store.sessions.stats("s") == before
        store.sessions.purge("s")
        assert store.sessions.stats("s") == Stats(session="s")
