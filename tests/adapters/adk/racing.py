"""One of several processes that append to one session, run by a test.

Arguments: the url of the store, the name of this process, and how many events it appends. It counts
in the state: a writer that had not seen the newest event would lose somebody's count.
"""

from __future__ import annotations

import asyncio
import sys
import warnings

warnings.simplefilter("ignore")

from google.adk.errors import StaleSessionError  # noqa: E402

from ledgerstone import Store  # noqa: E402
from ledgerstone.adapters.adk import LedgerSessionService  # noqa: E402
from tests.adapters.adk.scripted import KEY, event  # noqa: E402

TRIES_MAX = 2_000


async def main(url: str, name: str, count: int) -> None:
    store = await asyncio.to_thread(Store.open, url)
    service = LedgerSessionService(store)
    done = 0
    for _ in range(TRIES_MAX):
        session = await service.get_session(**KEY, session_id="s")
        assert session is not None
        counted = session.state["n"] + 1
        delta = {"n": counted, f"user:{name}": done, f"app:{name}": done}
        try:
            await service.append_event(session, event(f"{name} {done}", state=delta))
        except StaleSessionError:
            continue
        done += 1
        print(done, flush=True)
        if done == count:
            break
    await asyncio.to_thread(store.close)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
