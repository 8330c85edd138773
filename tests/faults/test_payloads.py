"""Hostile text through every text parameter: no changed rows, no file outside, no word logged."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from ledgerstone import AsyncStore, Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.codec import BODY_BYTES_MAX
from ledgerstone.commands import Query
from ledgerstone.commands.sessions import ListSessions, SessionFilter
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.errors import BackendError, LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.payloads import canaries, injections, traversals
from ledgerstone.testing.faults.value_places import JSON_PLACES, TEXT_PLACES
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.api_calls import READS, WRITES, Call, prepare
from tests.faults.kept_calls import use_as_names
from tests.faults.openers import FOLDERS

pytestmark = [pytest.mark.faults, pytest.mark.slow]

CANARIES = 50
DRIVER_WORDS = re.compile(
    r'near "|syntax error|unrecognized token|no such (table|column)|incomplete input'
    r"|\b(from|into|update) (heads|nodes|turns|sessions)\b (where|set|values)"
)
BODY_PLACES = {**JSON_PLACES, "message text": TEXT_PLACES["message text"]}


def answer(call: Call, store: Store, payload: str) -> tuple[object, str]:
    """What came of a call, as far as two backends must agree; and what is wrong with it."""
    try:
        found = call(store, payload)
    except LedgerstoneError as error:
        said = str(error).replace(payload, "").replace(repr(payload)[1:-1], "")
        wrong = isinstance(error, BackendError) or bool(DRIVER_WORDS.search(said))
        return type(error).__name__, f"says {said[:100]!r}" if wrong else ""
    except Exception as error:
        return type(error).__name__, f"raised {type(error).__name__}: {error!s:.100}"
    return found, ""


def plain(found: object) -> Any:
    """An answer without what is drawn anew each time: the chain, whose salts are random."""
    data = msgspec.to_builtins(found, builtin_types=(bytes,))
    return _without_chain(data)


def _without_chain(data: Any) -> Any:
    if isinstance(data, dict):
        drop = ("link", "hash", "turn", "token")
        return {key: _without_chain(value) for key, value in data.items() if key not in drop}
    if isinstance(data, list | tuple):
        return [_without_chain(value) for value in data]
    return data


@contextmanager
def every_backend(folder: Path) -> Iterator[dict[str, tuple[Backend, ManualClock]]]:
    clocks = {name: ManualClock() for name in ("memory", *FOLDERS)}
    opened: dict[str, tuple[Backend, ManualClock]] = {
        "memory": (MemoryBackend(clocks["memory"]), clocks["memory"])
    }
    for name, opener in FOLDERS.items():
        (folder / name).mkdir()
        opened[name] = (opener(str(folder / name), clocks[name]), clocks[name])
    try:
        yield opened
    finally:
        for backend, _ in opened.values():
            backend.close()


def test_injections(tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int) -> None:
    """The memory backend speaks no query language: every other one must answer as it does."""
    payloads = injections()
    assert len(payloads) >= 500
    if chosen := scale(40, 0):
        payloads = Random(seed).sample(payloads, chosen)
    calls = {**READS, **WRITES}
    with (
        quick_disk(tmp_path) as folder,
        every_backend(folder) as backends,
        scoreboard.line("injections through every text parameter", "all", seed) as line,
    ):
        for n, payload in enumerate(payloads):
            stores = {
                name: Store(backend, tenant=f"t{n}", clock=clock)
                for name, (backend, clock) in backends.items()
            }
            for store in stores.values():
                prepare(store)
            for call_name, call in calls.items():
                answers = {name: answer(call, store, payload) for name, store in stores.items()}
                wanted = plain(answers["memory"][0])
                for name, (found, wrong) in answers.items():
                    line.n += 1
                    if wrong:
                        line.violations.append(f"{call_name}({payload!r}) on {name} {wrong}")
                    elif call_name in READS and plain(found) != wanted:
                        line.violations.append(f"{call_name}({payload!r}) on {name}: other rows")
            line.violations += left_behind(stores, payload)
        line.note = f"{len(payloads)} payloads, {len(calls)} calls, {len(stores)} backends"


class Believes(Wrapper):
    """Pastes the user of a list into its query, as one used to."""

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.inner.read([self._pasted(query) for query in queries])

    def _pasted(self, query: Query[Any]) -> Query[Any]:
        if isinstance(query, ListSessions) and "' or " in (query.where.user or ""):
            return msgspec.structs.replace(query, where=SessionFilter())
        return query


def test_a_backend_that_believes_text_is_found_out(scoreboard: Scoreboard) -> None:
    good = Store(MemoryBackend(ManualClock()), tenant="t")
    prepare(good)
    bad = Store(Believes(MemoryBackend(ManualClock())), tenant="t")
    prepare(bad)
    call = READS["sessions.list user"]
    with scoreboard.line("injections, text is believed", "memory", control=True) as line:
        for payload in injections():
            line.n += 1
            if answer(call, good, payload)[0] != answer(call, bad, payload)[0]:
                line.violations.append(payload)


def left_behind(stores: dict[str, Store], payload: str) -> Iterator[str]:
    """The backends hold the same rows afterwards, and verify agrees."""
    wanted = None
    for name, store in stores.items():
        ids = [one.id for one in store.sessions.iter(order="id", deleted=True)]
        rows = {id: [one.id for one in store.nodes.iter(id, order="id")] for id in ids}
        if wanted is None:
            wanted = rows
        if rows != wanted:
            yield f"{payload!r} left other rows on {name}: {rows}, not {wanted}"
        if rows.get("other") != ["o1"]:
            yield f"{payload!r} changed the bystander on {name}"
        if not store.admin.verify().ok:
            yield f"{payload!r} left a defect on {name}"


@pytest.mark.parametrize("name", FOLDERS)
def test_traversals(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int, name: str
) -> None:
    """As ids and as tenants: nothing appears outside of the folder, and no id is a file name."""
    with (
        quick_disk(tmp_path) as root,
        scoreboard.line("path traversals as ids and tenants", name, seed) as line,
    ):
        names = traversals(root)
        assert len(names) >= 300
        if chosen := scale(100, 0):
            names = Random(seed).sample(names, chosen)
        home = root / "one" / "two" / "three" / "store"
        home.mkdir(parents=True)
        before = set(root.rglob("*"))
        backend, clock = FOLDERS[name](str(home), ManualClock()), ManualClock()
        for text in names:
            line.n += 1
            for tenant, id in (("default", text), (text, "s")):
                for use in (use_as_ids, use_as_names):
                    try:
                        use(Store(backend, clock=clock).for_tenant(tenant), id)
                    except LedgerstoneError as error:
                        if isinstance(error, BackendError):
                            line.violations.append(f"{text!r}: {error}")
        backend.close()
        for path in set(root.rglob("*")) - before:
            if not path.is_relative_to(home):
                line.violations.append(f"appeared: {path}")
            elif "escaped" in path.name or "passwd" in path.name:
                line.violations.append(f"a file is called {path.name}")


def use_as_ids(store: Store, text: str) -> None:
    store.messages.append(text, user("x", id=text), create=True, run_id=text)
    store.branches.create(text, text, at=text)
    store.nodes.annotate(text, text, {text: 1})
    store.attachments.intent(text, text, text)
    store.work.enqueue(text, 1, id=text, key=text)
    store.leases.take(text, owner=text, ttl_s=60)
    store.runs.create(text, id=text + " run")
    store.sessions.copy(text, text + " copy")
    store.sessions.purge(text)


class Everything(logging.Handler):
    """Every record, as a file would get it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.said: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@contextmanager
def listening() -> Iterator[list[str]]:
    """What is logged anywhere, from the finest level on."""
    handler, root = Everything(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.said
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def spoiled(canary: str) -> Iterator[Any]:
    """A secret in what is good, and in what is refused for various reasons."""
    yield canary
    yield [canary, float("nan")]
    yield [canary, {canary}]
    yield {"k": canary, 1: canary}
    yield canary.encode()
    yield canary + "\ud800"


def too_long(canary: str) -> str:
    return canary * (BODY_BYTES_MAX // len(canary) + 1)


def texts_of(error: BaseException) -> Iterator[str]:
    """The error and those behind it, as a traceback would print them."""
    seen: BaseException | None = error
    while seen is not None:
        yield f"{seen} {seen.args!r}"
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


@pytest.mark.parametrize("name", ["memory", *FOLDERS])
def test_canaries(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int, name: str
) -> None:
    """Secrets through every field that takes a body: in no log record and in no error."""
    secrets = canaries(CANARIES, Random(seed))
    with (
        quick_disk(tmp_path) as folder,
        every_backend(folder) as backends,
        listening() as said,
        scoreboard.line("canaries in logs and errors", name, seed) as line,
    ):
        backend, clock = backends[name]
        for n, canary in enumerate(secrets[: scale(10, CANARIES)]):
            for place_name, place in BODY_PLACES.items():
                extra = [too_long(canary)] if n == 0 else []
                for kind, value in enumerate([*spoiled(canary), *extra]):
                    store = Store(backend, tenant=f"{n} {kind} {place_name}", clock=clock)
                    store.messages.append("s", user("x", id="first"), create=True)
                    line.n += 1
                    try:
                        place.write(store, value)
                        place.write(store, [value, "again"])
                    except Exception as error:
                        if any(canary in text for text in texts_of(error)):
                            line.violations.append(f"{place_name}: {type(error).__name__} says it")
        line.violations += [f"logged: {text:.100}" for text in said if has_any(text, secrets)]


def test_canaries_in_an_event_loop_that_tells_all(
    tmp_path: Path, scoreboard: Scoreboard, seed: int
) -> None:
    """asyncio in debug mode logs what it runs; that must not be what users say."""
    secrets = canaries(CANARIES, Random(seed))

    async def talk(url: str) -> None:
        asyncio.get_running_loop().slow_callback_duration = 0
        async with await AsyncStore.open(url) as store:
            for secret in secrets:
                await store.messages.append("s", user(secret), create=True)
                await store.messages.history("s")

    with (
        listening() as said,
        scoreboard.line("canaries in the log of asyncio", "sqlite", seed) as line,
    ):
        asyncio.run(talk(str(tmp_path / "store.db")), debug=True)
        line.n = len(secrets)
        line.violations += [f"logged: {text:.200}" for text in said if has_any(text, secrets)]
        line.note = f"{len(said)} records"
    assert said


def test_a_store_that_logs_bodies_is_found_out(scoreboard: Scoreboard, seed: int) -> None:
    secrets = canaries(CANARIES, Random(seed))
    with (
        listening() as said,
        scoreboard.line("canaries, bodies are logged", "none", seed, control=True) as line,
    ):
        for secret in secrets:
            logging.getLogger("careless").debug("storing %r", {"body": secret})
        line.n = len(secrets)
        line.violations += [text for text in said if has_any(text, secrets)]


def has_any(text: str, secrets: list[str]) -> bool:
    return any(secret in text for secret in secrets)
