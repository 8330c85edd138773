"""openai-agents AdvancedSQLiteSession."""

import asyncio
import sys
import time


async def main(path: str, session: str) -> None:
    start = time.perf_counter()
    from agents.extensions.memory import AdvancedSQLiteSession

    imported = time.perf_counter()
    store = AdvancedSQLiteSession(session_id=session, db_path=path, create_tables=True)
    found = await store.get_items(limit=50)
    read = time.perf_counter()
    print((imported - start) * 1000, (read - imported) * 1000, len(found))
    store.close()


asyncio.run(main(*sys.argv[1:]))
