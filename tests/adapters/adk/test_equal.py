"""Random programs of calls give the same as ADK's own services, wherever those agree."""

from __future__ import annotations

import asyncio
import datetime
import random
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from pydantic import BaseModel

from ledgerstone.adapters.adk import LedgerSessionService
from ledgerstone.adapters.adk.reading import STALE
from tests.adapters.adk.scripted import event, on

APPS, USERS, NAMES = ("trips", "notes"), ("ada", "bob"), ("s1", "s2", " s1", "s3 ")
KEYS = ("a", "b", "app:a", "user:a", "user:b", "temp:a")
VALUES: tuple[Any, ...] = (0, 1.5, None, "x", [1, None], {"k": {"adk": None}}, {"adk": 2}, True)
STEPS = 60


class Program:
    """The same random calls for any service; what they answered, without times of the store."""

    def __init__(
        self, service: BaseSessionService, seed: int, names: tuple[str, ...] = NAMES
    ) -> None:
        self.service = service
        self.names = names
        self.random = random.Random(seed)
        self.held: dict[tuple[str, str, str], Session] = {}
        self.clock = 1_000_000.0
        self.log: list[Any] = []

    async def go(self) -> list[Any]:
        verbs = (self.create, self.append, self.append, self.append, self.get, self.get)
        for n in range(STEPS):
            verb = self.random.choice((*verbs, self.list, self.delete, self.user_state))
            self.log.append((n, verb.__name__, await verb()))
        return self.log

    def key(self) -> tuple[str, str, str]:
        pick = self.random.choice
        return pick(APPS), pick(USERS), pick(self.names)

    def state(self) -> dict[str, Any]:
        keys = self.random.sample(KEYS, self.random.randint(0, 3))
        return {key: self.random.choice(VALUES) for key in keys}

    async def create(self) -> Any:
        app, user, name = self.key()
        state = self.state() or None
        try:
            made = await self.service.create_session(
                app_name=app, user_id=user, session_id=name, state=state
            )
        except AlreadyExistsError as error:
            return str(error)
        self.held[app, user, made.id] = made
        return shown(made)

    async def append(self) -> Any:
        if not self.held:
            return None
        session = self.held[self.random.choice(sorted(self.held))]
        self.clock += self.random.choice((0.25, 1.0, 60.0))
        partial = self.random.random() < 0.1
        new = event(
            f"said at {self.clock}",
            at=self.clock,
            id=f"e{len(self.log)}",
            state=self.state(),
            partial=partial or None,
        )
        try:
            await self.service.append_event(session, new)
        except SessionNotFoundError as error:
            return str(error)
        return new.model_dump(mode="json"), shown(session)

    async def get(self) -> Any:
        app, user, name = self.key()
        recent = self.random.choice((None, None, 0, 1, 3, 100))
        after = self.random.choice((None, None, 0, -1.0, self.clock, self.clock - 30))
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        found = await self.service.get_session(
            app_name=app, user_id=user, session_id=name, config=config
        )
        if found is None:
            return None
        if recent is None and (after or 0) <= 0:
            self.held[app, user, found.id] = found
        return shown(found)

    async def list(self) -> Any:
        app, user = self.random.choice(APPS), self.random.choice((None, *USERS))
        found = (await self.service.list_sessions(app_name=app, user_id=user)).sessions
        # Times differ: ours are of the commits. Their order is looked at by another test.
        return sorted((shown(one) for one in found), key=lambda one: (one["user"], one["id"]))

    async def delete(self) -> Any:
        app, user, name = self.key()
        await self.service.delete_session(app_name=app, user_id=user, session_id=name)
        self.held.pop((app, user, name.strip()), None)

    async def user_state(self) -> Any:
        app, user, _ = self.key()
        return await self.service.get_user_state(app_name=app, user_id=user)


def shown(session: Session) -> dict[str, Any]:
    return {
        "app": session.app_name,
        "user": session.user_id,
        "id": session.id,
        "state": session.state,
        "events": [one.model_dump(mode="json") for one in session.events],
    }


def stock(name: str, folder: Path) -> BaseSessionService:
    """A service of ADK's own."""
    if name == "memory":
        return InMemorySessionService()
    if name == "sqlite":
        return SqliteSessionService(str(folder / "adk.db"))
    return DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'adk.db'}")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["memory", "sqlite", "database"])
def test_the_same_answers(
    store_url: str, colour: str, name: str, seed: int, tmp_path: Path
) -> None:
    # The one over SQLAlchemy takes " s1" and "s1" for two sessions; the others agree.
    names = NAMES if name != "database" else ("s1", "s2", "s3")

    async def expected() -> list[Any]:
        service = stock(name, tmp_path)
        try:
            return await Program(service, seed, names).go()
        finally:
            if hasattr(service, "close"):
                await service.close()

    theirs = asyncio.run(expected())

    async def work(store: Any) -> list[Any]:
        return await Program(LedgerSessionService(store), seed, names).go()

    ours = on(store_url, colour, work)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other


@pytest.mark.parametrize("seed", range(3))
def test_the_same_holders_are_stale(store_url: str, colour: str, seed: int, tmp_path: Path) -> None:
    key: dict[str, Any] = {"app_name": "trips", "user_id": "ada", "session_id": "s"}

    async def program(service: BaseSessionService) -> list[Any]:
        pick = random.Random(seed)
        held = [await service.create_session(**key)]
        log: list[Any] = []
        for n in range(40):
            verb = pick.choice(("append", "append", "get", "recent", "list", "remake"))
            if verb == "append":
                one = pick.randrange(len(held))
                new = event(str(n), at=2_000_000_000.0 + n, id=f"e{n}", state={"n": n})
                try:
                    await service.append_event(held[one], new)
                    log.append((n, one, "done"))
                except StaleSessionError as error:
                    log.append((n, one, str(error)))
            elif verb == "list":
                held += (await service.list_sessions(app_name="trips", user_id="ada")).sessions
            elif verb == "remake" and n % 3 == 0:
                await service.delete_session(**key)
                held.append(await service.create_session(**key))
            else:
                config = GetSessionConfig(num_recent_events=1 if verb == "recent" else None)
                found = await service.get_session(**key, config=config)
                assert found is not None
                held.append(found)
        found = await service.get_session(**key)
        assert found is not None
        return [*log, shown(found)]

    async def expected() -> list[Any]:
        async with DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}") as service:
            return await program(service)

    async def work(store: Any) -> list[Any]:
        return await program(LedgerSessionService(store))

    theirs = asyncio.run(expected())
    assert {entry[2] for entry in theirs[:-1]} == {"done", STALE}
    assert on(store_url, colour, work) == theirs


class Trip(BaseModel):
    """What a program may put into a state."""

    city: str = "Oslo"
    seat: str | None = None
    day: datetime.date = datetime.date(2026, 1, 2)


def test_models_in_the_state(store_url: str, colour: str, tmp_path: Path) -> None:
    async def program(service: BaseSessionService) -> Any:
        key: dict[str, Any] = {"app_name": "trips", "user_id": "ada", "session_id": "s"}
        rich = {"trip": Trip(), "pair": (1, None), "user:set": {1}}
        made = await service.create_session(**key, state=rich)
        later = {"next": [Trip()], "app:trip": Trip(seat="12A"), "user:trip": {"t": Trip()}}
        await service.append_event(made, event("x", at=1.0, id="e", state=later))
        found = await service.get_session(**key)
        assert found is not None
        return shown(found)

    async def work(store: Any) -> Any:
        return await program(LedgerSessionService(store))

    assert on(store_url, colour, work) == asyncio.run(program(stock("sqlite", tmp_path)))


def test_the_machine_sees_a_difference(tmp_path: Path) -> None:
    """A negative control: a service that loses what a None says is found out."""

    class Forgetful(InMemorySessionService):
        async def append_event(self, session: Session, event: Event) -> Event:
            delta = event.actions.state_delta
            event.actions.state_delta = {k: v for k, v in delta.items() if v is not None}
            return await super().append_event(session, event)

    def logs(service: BaseSessionService) -> list[list[Any]]:
        return [asyncio.run(Program(service, seed).go()) for seed in range(6)]

    assert logs(Forgetful()) != logs(InMemorySessionService())
