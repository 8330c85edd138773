"""agno SqliteDb."""

import sys
import time


def main(path: str, session: str) -> None:
    start = time.perf_counter()
    from agno.db.base import SessionType
    from agno.db.sqlite import SqliteDb

    imported = time.perf_counter()
    db = SqliteDb(db_file=path)
    found = db.get_session(session, session_type=SessionType.AGENT, runs_limit=13)
    messages = found.get_messages()[-50:]
    read = time.perf_counter()
    print((imported - start) * 1000, (read - imported) * 1000, len(messages))
    db.close()


main(*sys.argv[1:])
