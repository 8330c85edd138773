"""What a handler may do, and what becomes of the work in each case."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ledgerstone import AsyncStore, Fenced, Usage
from ledgerstone.worker import Bury, Context, Later, serving
from tests.worker.watched import Watched, on, queued, results, texts

FAST: dict[str, Any] = {"max_attempts": 3, "backoff_s": 0.01}


async def say(context: Context) -> None:
    for payload in context.payloads:
        context.turn.assistant(f"did {payload}")


def test_what_the_handler_adds_is_committed_with_the_end_of_the_work(url: str) -> None:
    async def test(store: AsyncStore) -> None:
        await queued(store, "a", "b", "c")
        worker = Watched(store, say)
        assert await worker.run_until_idle() == 3
        for name in "abc":
            assert await texts(store, name) == [f"did {name}"]
            assert await store.work.list(name) == []
            assert await store.leases.get(name) is None
            assert len(await store.turns.list(name)) == 1
        assert worker.count() == {"taken": 3, "done": 3}
        told = worker.told("done")[0]
        assert set(told) == {"session", "batches", "attempts", "seconds"}

    on(url, test)


def test_a_context_knows_its_work(url: str) -> None:
    seen: list[Any] = []

    async def look(context: Context) -> None:
        seen.append(
            (context.session, context.payloads, context.attempts, context.stopping, context.ended)
        )
        assert context.store.tenant == "default"
        assert context.lease.session == context.claim.session == context.batches[0].session
        assert "with 2 batches" in repr(context)

    async def test(store: AsyncStore) -> None:
        await store.sessions.ensure("s")
        for n in range(2):
            await store.work.enqueue("s", n, slot="join", merge="payload")
        assert await Watched(store, look, max_batches=5).run_until_idle() == 1
        assert seen == [("s", [0, 1], 1, False, False)]

    on(url, test)


def test_a_result_is_kept_beside_the_path(url: str) -> None:
    async def answer(context: Context) -> object:
        context.turn.assistant("done")
        return {"sum": 3}

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        await Watched(store, answer).run_until_idle()
        assert await results(store, "s") == [{"sum": 3}]
        assert await texts(store, "s") == ["done"]
        assert len(await store.turns.list("s")) == 1

    on(url, test)


def test_a_handler_may_commit_by_itself(url: str) -> None:
    async def commit(context: Context) -> str:
        context.turn.assistant("first")
        await context.turn.commit()
        context.turn.assistant("second")
        return "result"

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Watched(store, commit)
        await worker.run_until_idle()
        assert await texts(store, "s") == ["first", "second"]
        assert worker.names == ["taken", "done"]
        assert await store.leases.get("s") is None
        assert len(await store.turns.list("s")) == 2

    on(url, test)


def test_a_turn_of_a_run_takes_the_place_of_the_first_one(url: str) -> None:
    async def work(context: Context) -> None:
        context.turn.assistant("forgotten")
        turn = context.begin(run_id=context.payloads[0]["run"])
        turn.assistant("said by the run")
        turn.run("done", outcome={"termination": {"type": "natural_end"}})

    async def test(store: AsyncStore) -> None:
        await store.sessions.ensure("s")
        run = await store.runs.create("s", agent="a")
        await store.work.enqueue("s", {"run": run.id})
        assert await Watched(store, work).run_until_idle() == 1
        assert await texts(store, "s") == ["said by the run"]
        done = await store.runs.get(run.id)
        assert done is not None
        assert done.status == "done"
        assert await store.work.list("s") == []

    on(url, test)


def test_an_error_is_a_failed_attempt_and_the_last_one_buries(url: str) -> None:
    async def fail(context: Context) -> None:
        context.turn.assistant("never seen")
        raise ValueError("no")

    async def test(store: AsyncStore) -> None:
        await queued(store, "s", **FAST)
        worker = Watched(store, fail)
        await worker.run_until(lambda: "buried" in worker.names)
        assert worker.count() == {"taken": 3, "failed": 2, "buried": 1}
        assert {one["error"] for one in worker.told("failed")} == {"ValueError: no"}
        assert [one["attempts"] for one in worker.told("taken")] == [1, 2, 3]
        assert await texts(store, "s") == []
        dead = (await store.work.dead()).items
        assert [(one.session, one.reason) for one in dead] == [("s", "ValueError: no")]
        assert await store.leases.get("s") is None

    on(url, test)


def test_work_waits_for_a_budget_and_uses_no_attempt(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "BUDGET_PAUSE_S", 0.05)
    calls: list[str] = []

    async def spend(context: Context) -> None:
        calls.append(context.session)
        context.turn.use("m", Usage(11))

    async def test(store: AsyncStore) -> None:
        await store.usage.budget(tokens=10, id="cap")
        await queued(store, "a", max_attempts=1)
        assert await Watched(store, spend).run_until_idle() == 1
        await queued(store, "b", max_attempts=1)
        worker = Watched(store, spend)
        await worker.run_until(lambda: worker.names.count("later") > 2)
        assert calls == ["a"]
        assert set(worker.count()) == {"taken", "later"}
        (told, *_) = worker.told("later")
        assert "budget of tenant (total) exceeded: 11 of 10 tokens" in told["error"]
        assert (await store.work.dead()).items == []
        await store.usage.budget(tokens=100, id="cap")
        worker = Watched(store, spend)
        await worker.run_until(lambda: "done" in worker.names)
        assert calls == ["a", "b"]

    on(url, test)


def test_a_poisoned_piece_of_work_does_not_keep_others_from_moving(url: str) -> None:
    async def some(context: Context) -> None:
        if context.payloads == ["bad"]:
            raise RuntimeError("poison")
        context.turn.assistant("ok")

    async def test(store: AsyncStore) -> None:
        await queued(store, "bad", **FAST)
        good = [f"s{n}" for n in range(8)]
        await queued(store, *good)
        worker = Watched(store, some, concurrency=1)
        await worker.run_until(
            lambda: worker.count()["buried"] == 1 and worker.count()["done"] == 8
        )
        for name in good:
            assert await texts(store, name) == ["ok"]
        assert [one.session for one in (await store.work.dead()).items] == ["bad"]

    on(url, test)


def test_what_can_not_be_stored_is_a_failure(url: str) -> None:
    async def odd(context: Context) -> object:
        context.turn.assistant("x")
        return object()

    async def test(store: AsyncStore) -> None:
        await queued(store, "s", max_attempts=1)
        worker = Watched(store, odd)
        await worker.run_until_idle()
        assert worker.names == ["taken", "buried"]
        assert "InvalidValue" in worker.told("buried")[0]["error"]
        assert await texts(store, "s") == []

    on(url, test)


def test_a_handler_that_hangs_is_cancelled(url: str) -> None:
    cancelled: list[bool] = []

    async def hang(context: Context) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(context.ended)
            raise

    async def test(store: AsyncStore) -> None:
        await queued(store, "s", max_attempts=1)
        worker = Watched(store, hang, timeout_s=0.05)
        await worker.run_until_idle()
        assert worker.names == ["taken", "buried"]
        assert "longer than 0.05 s" in worker.told("buried")[0]["error"]
        assert cancelled == [False]
        assert await store.leases.get("s") is None

    on(url, test)


def test_a_handler_that_cancels_itself_failed(url: str) -> None:
    async def odd(context: Context) -> None:
        raise asyncio.CancelledError

    async def test(store: AsyncStore) -> None:
        await queued(store, "s", max_attempts=1)
        worker = Watched(store, odd)
        await worker.run_until_idle()
        assert worker.names == ["taken", "buried"]

    on(url, test)


def test_later_is_no_attempt(url: str) -> None:
    calls: list[int] = []

    async def wait(context: Context) -> None:
        calls.append(context.attempts)
        if len(calls) < 4:
            raise Later(0.03)
        context.turn.assistant("now")

    async def test(store: AsyncStore) -> None:
        await queued(store, "s", max_attempts=1)
        worker = Watched(store, wait)
        began = time.monotonic()
        await worker.run_until(lambda: "done" in worker.names)
        assert calls == [1, 1, 1, 1]
        assert time.monotonic() - began >= 0.09
        assert worker.count() == {"taken": 4, "later": 3, "done": 1}
        assert await texts(store, "s") == ["now"]

    on(url, test)


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("it cannot even say what it is")


def test_no_error_of_a_handler_ends_the_worker(url: str) -> None:
    async def odd(context: Context) -> None:
        kind = context.payloads[0]
        if kind == "silent":
            raise Silent
        if kind == "later":
            raise Later(-1)
        if kind == "bury":
            raise Bury(None)  # type: ignore[arg-type]
        if kind == "deleted":
            await context.store.sessions.delete(context.session)
        if kind == "purged":
            await context.store.sessions.purge(context.session)
        if kind == "theirs":
            raise Fenced("another session", 1, 2)
        context.turn.assistant("x")

    async def test(store: AsyncStore) -> None:
        names = ("silent", "later", "bury", "deleted", "purged", "theirs", "good")
        await queued(store, *names, max_attempts=1)
        worker = Watched(store, odd, concurrency=2)
        await worker.run_until(lambda: "good" in {one["session"] for one in worker.told("done")})
        await worker.run_until_idle()
        buried = {one["session"]: one["error"] for one in worker.told("buried")}
        assert set(buried) == {"silent", "later", "bury", "theirs"}
        assert buried["silent"] == "Silent"
        assert buried["later"].startswith("InvalidValue")
        assert {one["session"] for one in worker.told("fenced")} == {"deleted", "purged"}
        assert not worker.told("error")

    on(url, test)


def test_bury_makes_a_dead_letter_at_once(url: str) -> None:
    async def give_up(context: Context) -> None:
        raise Bury("no such customer")

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Watched(store, give_up)
        await worker.run_until_idle()
        assert worker.names == ["taken", "buried"]
        assert [one.reason for one in (await store.work.dead()).items] == ["no such customer"]

    on(url, test)
