"""What runs on although nobody waits for it."""

from __future__ import annotations

import asyncio
import threading

from ledgerstone.api.loop_async import finish, settled

WAIT_S = 30.0


def test_it_is_waited_for_until_it_ended() -> None:
    async def main() -> None:
        done = asyncio.Event()

        async def slow() -> None:
            await asyncio.sleep(0.01)
            done.set()

        finish(slow)
        await settled()
        assert done.is_set()

    asyncio.run(main())


def test_nobody_waits_for_what_another_loop_has_to_do() -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        async def long() -> None:
            begun.set()
            await asyncio.to_thread(may_end.wait, WAIT_S)

        await finish(long)

    async def here() -> None:
        async with asyncio.timeout(5):
            await settled()

    other = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    other.start()
    try:
        assert begun.wait(WAIT_S)
        asyncio.run(here())
    finally:
        may_end.set()
        other.join(WAIT_S)
