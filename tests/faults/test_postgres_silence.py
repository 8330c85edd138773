"""A half-open connection: every call returns within its deadline, in both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from ledgerstone import Store, user
from ledgerstone.engines.postgres.backend import open_postgres
from ledgerstone.engines.postgres.drivers import psycopg as postgres_psycopg
from ledgerstone.errors import OutcomeUnknown, Timeout, Unavailable
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.faults.postgres_cuts import COMMIT, PLANNED
from ledgerstone.testing.faults.postgres_silence import (
    falls_silent_at,
    fell_silent,
    judge,
    sooner_or_later,
    timed,
    together,
)
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.servers.proxy import Proxy
from tests.faults import api_calls

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(900)]

LIMIT_S = 0.8
CALLS = {**api_calls.READS, **api_calls.WRITES}
CROWD = 8
FACES = ("blocking", "async")


@contextmanager
def wired(url: str, face: str) -> Iterator[tuple[Store, Proxy]]:
    """A store with short deadlines behind a wire, with something in it."""
    parts = urlsplit(url)
    with Store.open(url) as straight:
        api_calls.prepare(straight)
    with Proxy(parts.port or 5432, host=parts.hostname or "127.0.0.1") as proxy:
        more = "&" if parts.query else "?"
        limits = f"{more}statement_timeout_s={LIMIT_S}&connect_timeout_s={LIMIT_S}"
        backend: Any = open_postgres(proxy.url(url) + limits)
        store = Store(OnLoop(backend) if face == "async" else backend)
        try:
            yield store, proxy
        finally:
            store.close()


def warm(store: Store) -> None:
    """Both ways have a connection: the interactive one and the planned one."""
    store.sessions.update("s", title="warm")
    store.messages.append("s", user("warm"))


@pytest.mark.parametrize("face", FACES)
def test_every_call_returns_in_time(
    face: str, postgres_url: str, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    names = sorted(CALLS)
    chosen = [
        *Random(seed).sample(names, scale(5, len(names))),
        "messages.append text",
        "work.take",
    ]
    met = set()
    with (
        scoreboard.line(f"silent server, calls of the API ({face})", "postgres", seed) as line,
        wired(postgres_url, face) as (store, proxy),
    ):
        for name in chosen:
            fell_silent(proxy, partial(warm, store))
            for kind in ("a connection that worked", "a new connection"):
                waited = timed(f"{name}, {kind}", partial(CALLS[name], store, "s"))
                line.violations += judge(waited, LIMIT_S)
                line.n += 1
                met.add(type(waited.error))
        proxy.speak()
    assert met & {Timeout, Unavailable, OutcomeUnknown}


@pytest.mark.parametrize("face", FACES)
def test_many_callers_return_in_time(
    face: str, postgres_url: str, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Nobody waits for the deadlines of those before him."""
    with (
        scoreboard.line(f"silent server, {CROWD} callers at once ({face})", "postgres") as line,
        wired(postgres_url, face) as (store, proxy),
    ):
        backend = store._handle.backend
        for n in range(scale(2, 20)):
            fell_silent(proxy, partial(warm, store))
            turns: list[Callable[[], Any]] = [
                partial(backend.write, commit_of(f"s{w % 3}", f"{n}-{w}", "x", create=w % 2 == 0))
                for w in range(CROWD)
            ]
            turns += [partial(store.messages.history, "s")] * 2
            calls = [(f"caller {w}", call) for w, call in enumerate(turns)]
            for waited in together(calls):
                line.violations += judge(waited, LIMIT_S)
                line.n += 1
        proxy.speak()


@pytest.mark.parametrize("face", FACES)
def test_a_commit_that_is_not_answered(
    face: str, postgres_url: str, scoreboard: Scoreboard, scale: Scale
) -> None:
    """It was carried out, nobody can be asked, and repeating it finds it."""
    with (
        scoreboard.line(f"silent server, at the end of a commit ({face})", "postgres") as line,
        wired(postgres_url, face) as (store, proxy),
    ):
        backend = store._handle.backend
        for n in range(scale(4, 40)):
            planned = n % 2 == 0
            command = commit_of("s", f"turn {n}", "x", create=not planned)
            falls_silent_at(proxy, partial(warm, store), PLANNED if planned else COMMIT)
            waited = timed(f"commit {n}", partial(backend.write, command))
            line.violations += judge(waited, LIMIT_S)
            if not isinstance(waited.error, OutcomeUnknown):
                line.violations.append(f"commit {n} got {waited.error!r}")
            proxy.speak()
            again = sooner_or_later(partial(backend.write, command))
            if not again.replayed:
                line.violations.append(f"commit {n} was carried out twice")
            line.n += 1


def test_a_task_that_is_cancelled_leaves_at_once(postgres_url: str, scoreboard: Scoreboard) -> None:
    """The call goes on behind it, in its time; the caller does not wait for that."""
    with (
        scoreboard.line("silent server, cancelled callers", "postgres") as line,
        wired(postgres_url, "blocking") as (store, proxy),
    ):
        backend = store._handle.backend

        async def main() -> None:
            await backend.awrite(commit_of("s", "first", "x"))
            proxy.silence()
            for command in (commit_of("s", "a", "x"), commit_of("s", "b", "x", create=False)):
                task = asyncio.ensure_future(backend.awrite(command))
                await asyncio.sleep(LIMIT_S / 4)
                task.cancel()
                done, _ = await asyncio.wait([task], timeout=LIMIT_S / 4)
                line.n += 1
                if not done:
                    line.violations.append(f"{command.turn}: a cancelled caller goes on waiting")
            await asyncio.sleep(2 * LIMIT_S)
            proxy.speak()

        asyncio.run(main())


# --- negative control


def test_control_a_call_without_a_deadline_is_found_out(
    postgres_url: str, scoreboard: Scoreboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver does by itself: it waits."""
    real = postgres_psycopg._Raw.wait

    def patient(self: Any, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return real(self, gen, interval, 4 * LIMIT_S)

    with (
        scoreboard.line("silent server, no deadline", "postgres", control=True) as line,
        wired(postgres_url, "blocking") as (store, proxy),
    ):
        fell_silent(proxy, partial(warm, store))
        monkeypatch.setattr(postgres_psycopg._Raw, "wait", patient)
        line.violations += judge(timed("history", partial(store.messages.history, "s")), LIMIT_S)
        line.n = 1
        monkeypatch.undo()
        proxy.speak()
