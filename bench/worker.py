"""`python -m bench.worker`: one contender in a process of its own, obeying lines on stdin.

Every contender gets its own interpreter, so that nobody's threads, imports or garbage stand in
the way of another. The clocks run in here; the parent only waits.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Any

from bench import wire
from bench.contender import Contender, open_contender, settle
from bench.wire import Answer, Ask
from bench.work import Work


def main() -> None:
    # What a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asyncio.run(serve(answers))


async def serve(answers: BufferedWriter) -> None:
    start = hear()
    if not isinstance(start, wire.Start):
        raise TypeError(f"Start expected, got {type(start).__name__}")
    work, path = Work(start.seed), Path(start.path)
    contender: Contender | None = None
    ask: Ask = wire.Reopen()
    while not isinstance(ask, wire.Leave):
        try:
            if isinstance(ask, wire.Reopen):
                if contender is not None:
                    await settle(contender.close())
                contender = await open_contender(start.entry, path)
                answer = Answer()
            elif contender is not None:
                answer = await obey(contender, work, ask)
        except Exception as error:
            traceback.print_exc()
            answer = Answer(failure=f"{type(error).__name__}: {error}")
        tell(answers, answer)
        ask = hear()
    if contender is not None:
        await settle(contender.close())
    tell(answers, Answer())


def hear() -> Ask:
    line = sys.stdin.buffer.readline()
    return wire.decode_ask(line) if line else wire.Leave()


def tell(answers: BufferedWriter, answer: Answer) -> None:
    answers.write(wire.encode(answer) + b"\n")
    answers.flush()


async def obey(contender: Contender, work: Work, ask: Ask) -> Answer:
    match ask:
        case wire.Fill(histories):
            return Answer(count=await settle(contender.fill(histories, work.turns)))
        case wire.Create(numbers):
            await settle(contender.create(numbers))
            return Answer(count=len(numbers))
        case wire.Commits(numbers):
            await settle(contender.attach(sorted(set(numbers))))
            before = time.process_time()
            samples = await commits(contender, work, numbers)
            spent = time.process_time() - before
            contender.tidy()
            return Answer(samples_ms=samples, count=len(samples), cpu_s=spent)
        case wire.Together(numbers, turns):
            return await together(contender, work, numbers, turns)
        case wire.Jobs(numbers, batches, size, method):
            start, before = time.monotonic(), time.process_time()
            done = await settle(getattr(contender, method)(numbers, batches, size))
            ended, spent = time.monotonic(), time.process_time() - before
            return Answer(count=done, started_s=start, ended_s=ended, cpu_s=spent)
        case wire.Timed(method, args, times, after):
            then = getattr(contender, after) if after else None
            return await timed(getattr(contender, method), args, times, then)
        case _:
            raise TypeError(f"{type(ask).__name__} is no work")


async def commits(contender: Contender, work: Work, numbers: Sequence[int]) -> list[float]:
    samples: list[float] = []
    for place, number in enumerate(numbers):
        turn = work.turn(number + place)
        start = time.perf_counter_ns()
        answer = contender.commit(number, turn)
        if answer is not None:
            await answer
        samples.append((time.perf_counter_ns() - start) / 1e6)
    return samples


async def together(contender: Contender, work: Work, numbers: Sequence[int], turns: int) -> Answer:
    """An error is counted, not raised: a store that refuses under load is a finding."""
    samples: list[float] = []
    errors: list[str] = []

    async def session(number: int) -> None:
        for place in range(turns):
            try:
                turn = work.turn(number + place)
                begun = time.perf_counter_ns()
                answer = contender.commit(number, turn)
                if answer is not None:
                    await answer
                samples.append((time.perf_counter_ns() - begun) / 1e6)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")

    await settle(contender.attach(numbers))
    start, before = time.monotonic(), time.process_time()
    await asyncio.gather(*(session(number) for number in numbers))
    return Answer(
        cpu_s=time.process_time() - before,
        samples_ms=samples,
        errors=errors,
        count=len(samples),
        started_s=start,
        ended_s=time.monotonic(),
    )


async def timed(method: Any, args: Sequence[Any], times: int, after: Any) -> Answer:
    samples = []
    found: Any = ()
    for _ in range(times):
        start = time.perf_counter_ns()
        found = await settle(method(*args))
        samples.append((time.perf_counter_ns() - start) / 1e6)
        if after is not None:
            await settle(after(found))
    return Answer(samples_ms=samples, count=len(found))


if __name__ == "__main__":
    main()
