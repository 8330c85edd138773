"""openai-agents SQLiteSession."""

import asyncio
import sys
import time


async def main(path: str, session: str) -> None:
    start = time.perf_counter()
    from agents import SQLiteSession

    imported = time.perf_counter()
    store = SQLiteSession(session, path)
    found = await store.get_items(limit=50)
    read = time.perf_counter()
    print((imported - start) * 1000, (read - imported) * 1000, len(found))
    store.close()


asyncio.run(main(*sys.argv[1:]))
