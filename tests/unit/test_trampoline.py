"""The trampoline: a coroutine that never waits is run at once, one that waits is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from ledgerstone.trampoline import run_now


async def answer(value: Any) -> Any:
    return value


class Once:
    """An awaitable that really waits."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def test_the_result_comes_back() -> None:
    async def add() -> int:
        total = 0
        for n in range(1_000):
            total += await answer(n)
        return total

    assert run_now(add()) == 499_500
    assert run_now(answer(None)) is None


def test_errors_come_through_as_they_are() -> None:
    class Mine(BaseException):
        pass

    async def fail() -> None:
        await answer(1)
        raise Mine

    with pytest.raises(Mine):
        run_now(fail())


def test_a_stop_iteration_does_not_look_like_an_answer() -> None:
    async def sneaky() -> None:
        raise StopIteration(7)

    with pytest.raises(RuntimeError, match="StopIteration"):
        run_now(sneaky())


def test_one_that_waits_is_told_and_closed() -> None:
    cleaned: list[str] = []

    async def waits() -> None:
        try:
            await Once()
        finally:
            cleaned.append("closed")

    with pytest.raises(RuntimeError, match="suspended"):
        run_now(waits())
    assert cleaned == ["closed"]


def test_it_works_inside_a_running_loop() -> None:
    async def main() -> int:
        result: int = run_now(answer(3))
        return result

    assert asyncio.run(main()) == 3


def test_sleeping_is_waiting() -> None:
    with pytest.raises(RuntimeError, match="suspended"):
        run_now(asyncio.sleep(0))
