"""A notebook: cells run inside an event loop, nothing is closed by hand, both faces work."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ledgerstone import AsyncStore, Store, user


async def cells(folder: Path) -> None:
    """What a notebook does: each statement is a cell, and a loop is already running."""
    # In [1]: the blocking store needs no loop of its own
    store = Store.open(folder / "agent.db")
    store.messages.append("trip", user("Book Oslo"), create=True)
    print("blocking, inside a running loop:", store.messages.last("trip"))

    # In [2]: the async one is simply awaited
    other = await AsyncStore.open(folder / "agent.db")
    print("async, without `async with`:    ", await other.messages.last("trip"))
    print("as a cell shows it:             ", store.messages.last("trip")[0]._repr_html_())

    # In [3]: a held lease beats in a thread while the cell works
    with store.leases.hold("trip", ttl_s=0.3) as lease:
        await asyncio.sleep(0.6)
        turn = store.turns.begin(lease)
        turn.assistant("The 9:40?")
        print("committed under a lease that would have expired:", turn.commit().revision)
    await other.close()
    # `store` is never closed: it closes itself when the kernel lets go of it.


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(cells(Path(place)))
