"""What ADK's DatabaseSessionService wrote itself, and rows that nobody can read."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.adk.sessions.database_session_service import DatabaseSessionService

from ledgerstone import Store
from ledgerstone.adapters.adk import LedgerSessionService
from ledgerstone.adapters.importing.adk_sessions import Imported, import_sessions
from ledgerstone.errors import Corrupt
from tests.adapters.adk.foreign import rows, shared, write_file
from tests.adapters.adk.scripted import KEY, calls, event

pytestmark = [
    # ADK and SQLAlchemy speak of their own future.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
HERE: dict[str, Any] = {**KEY, "session_id": "s"}


@pytest.fixture(params=("sqlite", pytest.param("postgres", marks=pytest.mark.slow)))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A url as ADK's users write it."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}"
    url: str = request.getfixturevalue("postgres_places").blank()
    return url.replace("postgresql://", "postgresql+asyncpg://")


async def written(place: str) -> Any:
    """A session as the service shows it after some events."""
    service = DatabaseSessionService(place)
    made = await service.create_session(**HERE, state={"a": 1, "app:v": 2, "user:w": None})
    call = calls(("pay", {"eur": 1}))
    for one in (
        event("hello", author="user", state={"b": "é\u2028", "temp:x": 1}),
        event(content=call, long_running_tool_ids={"c"}),
        event("done", state={"app:v": 3}),
    ):
        await service.append_event(made, one)
    found = await service.get_session(**HERE)
    await service.db_engine.dispose()
    return found


def test_what_the_service_wrote(adapter_store: Store, place: str) -> None:
    wanted = asyncio.run(written(place))
    done = import_sessions(adapter_store, place)
    assert done == Imported(sessions=1, events=3, app_values=1, user_values=1)
    got = asyncio.run(LedgerSessionService(adapter_store).get_session(**HERE))
    assert got is not None
    assert (got.events, got.state) == (wanted.events, wanted.state)
    assert import_sessions(adapter_store, place).known == 3


DAMAGE = {
    "event": "update events set event_data = '{x' where id = 'e1'",
    "state": "update sessions set state = '[]'",
    "app state": "update app_states set state = 'x'",
    "user": """update user_states set state = '{"a": NaN}'""",
    "key": """update app_states set state = '{"": 1, "v": 1}'""",
    "id": "update events set id = '' where id = 'e1'",
    "name": "insert into sessions values ('trips', '', 's', '{}', 1, 1)",
    "blank": "insert into sessions values ('trips', 'ada', ' ', '{}', 1, 1)",
    "app": "insert into sessions values (printf('%.300c', 'x'), 'ada', 's', '{}', 1, 1)",
}


@pytest.mark.parametrize("harm", DAMAGE)
def test_what_can_not_be_read_may_be_left_out(
    adapter_store: Store, tmp_path: Path, harm: str
) -> None:
    path = tmp_path / "adk.db"
    said = [event(f"said {n}", at=100.0 + n, id=f"e{n}") for n in range(3)]
    found = rows({("trips", "ada", "s"): ({"k": 1}, said)})
    write_file(path, [*found, *shared({"v": 1}, {"n": 1})])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(DAMAGE[harm])
    with pytest.raises(Corrupt, match=r"(sessions|events|_states)\["):
        import_sessions(adapter_store, path)
    store = adapter_store.for_tenant("other")
    done = import_sessions(store, path, skip_unreadable=True)
    assert (done.unreadable, done.sessions) == (1, 1)
    assert done.events == (2 if harm in ("event", "id") else 3)
    assert done.app_values == (0 if harm == "app state" else 1)
    assert import_sessions(store, path, skip_unreadable=True).events == 0
