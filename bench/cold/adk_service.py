"""ADK SqliteSessionService."""

import asyncio
import sys
import time


async def main(path: str, session: str) -> None:
    start = time.perf_counter()
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    imported = time.perf_counter()
    service = SqliteSessionService(path)
    config = GetSessionConfig(num_recent_events=50)
    found = await service.get_session(
        app_name="bench", user_id="ada", session_id=session, config=config
    )
    read = time.perf_counter()
    assert found is not None
    print((imported - start) * 1000, (read - imported) * 1000, len(found.events))
    await service.close()


asyncio.run(main(*sys.argv[1:]))
