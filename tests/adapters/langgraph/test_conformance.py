"""LangGraph's own suite for checkpointers, through the async methods and through the blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from ledgerstone.adapters.langgraph import LedgerSaver
from tests.adapters.conftest import opened
from tests.conftest import Say

TESTS = 81

TWINS = (
    "get_tuple",
    "put",
    "put_writes",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
)


class Blocking(BaseCheckpointSaver[int]):
    """A saver whose async methods are another one's blocking methods, in a thread."""

    def __init__(self, saver: LedgerSaver) -> None:
        super().__init__()
        self.saver = saver

    async def alist(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        for one in await asyncio.to_thread(lambda: list(self.saver.list(*args, **options))):
            yield one


def _twin(name: str) -> Any:
    async def call(self: Blocking, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self.saver, name), *args, **options)

    return call


for twin in TWINS:
    setattr(Blocking, "a" + twin, _twin(twin))


async def _report(url: str, colour: str, *, blocking: bool) -> dict[str, Any]:
    async with opened(url, colour) as store:

        @checkpointer_test(name="LedgerSaver")
        async def factory() -> AsyncIterator[Any]:
            saver = LedgerSaver(store)
            yield Blocking(saver) if blocking else saver

        report = await validate(factory)
    return report.to_dict()


def _check(report: dict[str, Any], what: str, say: Say) -> None:
    results = report["results"]
    failures = [text for one in results.values() for text in one["failures"] or []]
    assert not failures
    passed = sum(one["tests_passed"] for one in results.values())
    skipped = [name for name, one in results.items() if one["tests_skipped"]]
    say(f"langgraph conformance, {what}: {passed}/{TESTS}")
    assert (passed, skipped) == (TESTS, [])


def test_the_suite_passes_whole(store_url: str, colour: str, say: Say) -> None:
    report = asyncio.run(_report(store_url, colour, blocking=False))
    _check(report, f"{store_url.split(':', maxsplit=1)[0]}, {colour} store", say)


def test_the_suite_passes_through_the_blocking_methods(
    store_url: str, colour: str, say: Say
) -> None:
    report = asyncio.run(_report(store_url, colour, blocking=True))
    what = f"{store_url.split(':', maxsplit=1)[0]}, {colour} store, blocking methods"
    _check(report, what, say)


def test_a_saver_that_forgets_is_caught() -> None:
    class Forgetful(LedgerSaver):
        async def aput_writes(self, *args: Any, **options: Any) -> None:
            return None

    async def run() -> Any:
        async with opened("memory://", "blocking") as store:

            @checkpointer_test(name="Forgetful")
            async def factory() -> AsyncIterator[Any]:
                yield Forgetful(store)

            return await validate(factory, capabilities={"put_writes"})

    report = asyncio.run(run())
    assert not report.passed_all_base()
