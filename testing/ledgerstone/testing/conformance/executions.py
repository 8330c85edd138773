"""Executions: written down before the tool is called, never silently called twice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledgerstone import Execution, assistant, tool_call, user
from ledgerstone.codec import encode_struct
from ledgerstone.errors import (
    AlreadyExists,
    ExecutionNotFound,
    ExecutionResolved,
    ExecutionUnresolved,
    InvalidValue,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.leases import Lease
from ledgerstone.testing.bed import Bed

CALL: dict[str, Any] = {"call_id": "c1", "tool": "pay", "arguments": {"eur": 1}}


class Crash(BaseException):
    """As when the process is killed: no `except Exception` sees it."""


class OnACall:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        call = tool_call("pay", {"eur": 1}, id="c1")
        messages = (user("pay", id="m1"), assistant([call], id="m2"))
        backend.store.messages.append("s", *messages, create=True)
        return "s"

    def take(self, backend: Bed, owner: str = "w1", ttl_s: float = 10) -> Lease:
        lease = backend.store.leases.take("s", owner=owner, ttl_s=ttl_s)
        assert lease is not None
        return lease

    def get(self, backend: Bed, id: Any) -> Execution:
        found = backend.store.executions.get(id)
        assert found is not None
        return found


class TestExecutions(OnACall):
    @pytest.mark.promise(154)
    def test_the_intent_is_durable_before_anything_runs(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, message="m2", run_id="r1", **CALL)
        backend.reopen()
        found = self.get(backend, started)
        assert found == started
        assert (found.session, found.call_id, found.tool) == (session, "c1", "pay")
        assert (found.arguments, found.message_id, found.run_id) == ({"eur": 1}, "m2", "r1")
        assert (found.status, found.resolved, found.duration_ms) == ("started", False, 0)
        assert (found.result, found.error, found.finished_us) == (None, None, None)
        assert (found.attempts, found.ticket, found.mode) == (1, None, None)
        assert found.created_us == found.started_us == backend.clock.now_us()
        assert backend.revision(session) == 1

    def test_the_key_is_the_same_for_the_same_call(self, backend: Bed, session: str) -> None:
        first = backend.store.executions.start(session, **CALL)
        backend.store.messages.append("other", user("x"), create=True)
        elsewhere = backend.store.executions.start("other", **CALL)
        own = backend.store.executions.start(
            session, call_id="c2", tool="pay", arguments={}, key="mine"
        )
        assert first.key
        assert first.key not in (elsewhere.key, own.key)
        assert own.key == "mine"
        backend.store.executions.finish(first, error="down")
        assert backend.store.executions.retry(first).key == first.key

    @pytest.mark.promise(155)
    @pytest.mark.parametrize("result", [{"ok": [1, None]}, None, False, "", 0])
    def test_success(self, backend: Bed, session: str, result: Any) -> None:
        started = backend.store.executions.start(session, **CALL)
        backend.clock.advance(1.5)
        ended = backend.store.executions.finish(started, result=result)
        assert backend.reopen().executions.get(started.id) == ended
        assert (ended.status, ended.result, ended.error) == ("succeeded", result, None)
        assert ended.resolved
        assert (ended.duration_ms, ended.finished_us) == (1500, backend.clock.now_us())

    @pytest.mark.promise(155)
    @pytest.mark.parametrize("error", ["no money", {"code": 402}])
    def test_failure(self, backend: Bed, session: str, error: Any) -> None:
        started = backend.store.executions.start(session, **CALL)
        ended = backend.store.executions.finish(started, error=error, duration_ms=7)
        assert backend.reopen().executions.get(started.id) == ended
        assert (ended.status, ended.result, ended.error) == ("failed", None, error)
        assert ended.duration_ms == 7

    @pytest.mark.promise(157)
    def test_the_duration_is_whole_milliseconds(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, **CALL)
        backend.clock.advance(0.0129)
        ended = backend.store.executions.finish(started, result=1)
        record = msgspec.json.decode(encode_struct(ended, "execution"))
        assert record["duration_ms"] == 12
        assert type(record["duration_ms"]) is int

    def test_the_same_outcome_again_is_the_first_answer(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, **CALL)
        ended = backend.store.executions.finish(started, result=1)
        backend.clock.advance(9)
        assert backend.store.executions.finish(started, result=1) == ended
        for other in ({"result": True}, {"result": None}, {"error": "1"}):
            with pytest.raises(ExecutionResolved) as caught:
                backend.store.executions.finish(started, **other)
            assert (caught.value.execution, caught.value.status) == (started.id, "succeeded")
        assert self.get(backend, started) == ended

    def test_the_same_intent_again_is_the_first_answer(self, backend: Bed, session: str) -> None:
        lease = self.take(backend)
        first = backend.store.executions.start(lease, id="x1", **CALL)
        backend.clock.advance(1)
        assert backend.store.executions.start(lease, id="x1", **CALL) == first
        for other in (
            {**CALL, "tool": "steal"},
            {**CALL, "arguments": {}},
            {**CALL, "call_id": "c9"},
            {**CALL, "key": "k"},
        ):
            with pytest.raises(AlreadyExists) as caught:
                backend.store.executions.start(lease, id="x1", **other)
            assert caught.value.id == "x1"
        ended = backend.store.executions.finish("x1", result=5)
        assert backend.store.executions.start(lease, id="x1", **CALL) == ended

    def test_a_known_outcome_is_answered_instead(self, backend: Bed, session: str) -> None:
        first = backend.store.executions.start(session, **CALL)
        ended = backend.store.executions.finish(first, result={"receipt": 1})
        assert backend.store.executions.start(session, **CALL) == ended
        assert len(backend.store.executions.list(session=session)) == 1

    def test_a_call_id_that_was_used_for_something_else(self, backend: Bed, session: str) -> None:
        first = backend.store.executions.start(session, **CALL)
        backend.store.executions.finish(first, result=1)
        for other in ({**CALL, "tool": "steal"}, {**CALL, "arguments": {"eur": 2}}):
            with pytest.raises(AlreadyExists) as caught:
                backend.store.executions.start(session, **other)
            assert caught.value.id == first.id

    @pytest.mark.promise(156)
    def test_lists_in_the_order_made(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.messages.append("other", user("x", id="o1"), create=True)
        for n in range(5):
            store.executions.start(
                "other" if n == 4 else session,
                id=f"x{9 - n}",
                call_id=f"c{n}",
                tool="t",
                message="m2" if n % 2 == 0 else "m1",
                run_id="r1" if n < 2 else "r2",
            )
            backend.clock.advance(1)
        store = backend.reopen()

        def names(**where: Any) -> list[str]:
            return [one.id for one in store.executions.list(**where)]

        assert names(session=session) == ["x9", "x8", "x7", "x6"]
        assert names(message="m2") == ["x9", "x7", "x5"]
        assert names(message="m2", session=session) == ["x9", "x7"]
        assert names(run_id="r2") == ["x7", "x6", "x5"]
        assert names(run_id="r1", message="m1") == ["x8"]
        assert names(session="nowhere") == names(message="nowhere") == []
        store.executions.finish("x8", result=1)
        assert [one.id for one in store.executions.unresolved()] == ["x9", "x7", "x6", "x5"]
        assert [one.id for one in store.executions.unresolved(session="other")] == ["x5"]
        assert [one.id for one in store.executions.unresolved(run_id="r1")] == ["x9"]

    def test_a_turn_brings_the_outcome(self, backend: Bed, session: str) -> None:
        store = backend.store
        for n in (1, 2):
            store.executions.start(session, id=f"x{n}", call_id=f"c{n}", tool="pay")
        turn = store.turns.begin(session)
        turn.tool("c1", "ok")
        turn.execution("x1", result="ok", duration_ms=3)
        turn.execution("x2", error="no")
        turn.commit()
        store = backend.reopen()
        first, second = (self.get(backend, f"x{n}") for n in (1, 2))
        assert (first.status, first.result, first.duration_ms) == ("succeeded", "ok", 3)
        assert (second.status, second.error) == ("failed", "no")
        assert store.admin.verify().defects == []

    def test_a_turn_that_can_not_finish_it_does_nothing(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.messages.append("other", user("x"), create=True)
        store.executions.start("other", id="x1", call_id="c1", tool="pay")
        store.executions.start(session, id="x2", call_id="c1", tool="pay")
        store.executions.finish("x2", result=1)
        wrong: list[tuple[str, type[Exception]]] = [
            ("x1", ExecutionNotFound),
            ("nowhere", ExecutionNotFound),
            ("x2", ExecutionResolved),
        ]
        for id, error in wrong:
            turn = store.turns.begin(session)
            turn.user("hello")
            turn.execution(id, result=2)
            with backend.unchanged(session), pytest.raises(error):
                turn.commit()
        assert self.get(backend, "x1").status == "started"

    def test_of_two_blocks_with_one_id_one_calls_the_tool(self, backend: Bed, session: str) -> None:
        """Both begin before either is done, and nobody holds the session."""
        executions = backend.store.executions
        with executions.run(session, id="x1", **CALL) as first:
            with pytest.raises(ExecutionUnresolved), executions.run(session, id="x1", **CALL):
                raise AssertionError("called twice")
            first.result = 7
        with executions.run(session, id="x1", **CALL) as again:
            assert (again.needs_run, again.result) == (False, 7)

    def test_a_start_with_the_same_id_is_a_repeat(self, backend: Bed, session: str) -> None:
        executions = backend.store.executions
        first = executions.start(session, id="x1", **CALL)
        assert executions.start(session, id="x1", **CALL) == first
        with pytest.raises(ExecutionUnresolved):
            executions.start(session, id="x1", once=True, **CALL)
        done = executions.finish("x1", result=1)
        assert executions.start(session, id="x1", once=True, **CALL) == done
        assert executions.start(session, id="x2", call_id="c2", tool="pay", once=True).attempts == 1

    def test_unknown_ids(self, backend: Bed, session: str) -> None:
        assert backend.store.executions.get("nowhere") is None
        with pytest.raises(ExecutionNotFound):
            backend.store.executions.finish("nowhere", result=1)
        with pytest.raises(ExecutionNotFound):
            backend.store.executions.retry("nowhere")
        with pytest.raises(SessionNotFound):
            backend.store.executions.start("nowhere", **CALL)

    def test_another_tenant_sees_nothing(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, message="m2", **CALL)
        other = backend.open("red")
        assert other.executions.get(started.id) is None
        assert other.executions.unresolved() == other.executions.list(message="m2") == []
        with pytest.raises(ExecutionNotFound):
            other.executions.finish(started.id, result=1)

    def test_they_go_with_their_session(self, backend: Bed, session: str) -> None:
        backend.store.executions.start(session, id="x1", message="m2", run_id="r1", **CALL)
        backend.store.sessions.purge(session)
        backend.store.sessions.create(id=session)
        store = backend.reopen()
        assert store.executions.get("x1") is None
        assert store.executions.unresolved() == store.executions.list(message="m2") == []
        assert store.executions.start(session, id="x1", **CALL).attempts == 1

    def test_a_deleted_session(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, **CALL)
        backend.store.sessions.delete(session)
        executions = backend.store.executions
        with pytest.raises(SessionDeleted):
            executions.start(session, **CALL)
        with pytest.raises(SessionDeleted):
            executions.finish(started, result=1)
        with pytest.raises(SessionDeleted):
            executions.retry(started)

    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("call_id", {"call_id": None}),
            ("call_id", {"call_id": ""}),
            ("tool", {"tool": None}),
            ("tool", {"tool": 3}),
            ("arguments", {"arguments": {1, 2}}),
            ("key", {"key": ""}),
            ("id", {"id": ""}),
            ("message", {"message": 5}),
            ("run_id", {"run_id": ""}),
            ("ticket", {"ticket": ""}),
            ("lease", {"lease": "w1"}),
        ],
    )
    def test_bad_intents(
        self, backend: Bed, session: str, field: str, given: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.executions.start(session, **{**CALL, **given})
        assert caught.value.field == field

    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("result", {}),
            ("result", {"result": 1, "error": "x"}),
            ("result", {"result": {1}}),
            ("error", {"error": None}),
            ("error", {"error": 5}),
            ("duration_ms", {"result": 1, "duration_ms": -1}),
            ("duration_ms", {"result": 1, "duration_ms": 1.5}),
        ],
    )
    def test_bad_outcomes(
        self, backend: Bed, session: str, field: str, given: dict[str, Any]
    ) -> None:
        started = backend.store.executions.start(session, **CALL)
        with pytest.raises(InvalidValue) as caught:
            backend.store.executions.finish(started, **given)
        assert caught.value.field == field
        turn = backend.store.turns.begin(session)
        with pytest.raises(InvalidValue):
            turn.execution(started, **given)
        with pytest.raises(InvalidValue):
            backend.store.executions.list()
