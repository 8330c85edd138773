"""LangGraph AsyncSqliteSaver; the graph is not imported, only the saver and its messages."""

import asyncio
import sys
import time


async def main(path: str, session: str) -> None:
    start = time.perf_counter()
    import langchain_core.messages  # noqa: F401  what the checkpoint holds
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    imported = time.perf_counter()
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        found = await saver.aget_tuple({"configurable": {"thread_id": session}})
        assert found is not None
        messages = found.checkpoint["channel_values"]["messages"][-50:]
        read = time.perf_counter()
    print((imported - start) * 1000, (read - imported) * 1000, len(messages))


asyncio.run(main(*sys.argv[1:]))
