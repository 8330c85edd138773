"""The memory backend behind the port, and proof that every command has a handler."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.blobs import CommitAttachments
from ledgerstone.commands.sessions import CreateSession, GetHead, GetSession
from ledgerstone.commands.work import CountWork, InterruptWork, ListEnded, ListPrunable, PruneWork
from ledgerstone.engines.memory.backend import MemoryBackend, open_memory
from ledgerstone.errors import AlreadyExists, NotSupported, StoreClosed
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.trampoline import run_now
from tests.oracle.builders import S, T, said, turn
from tests.oracle.model import handlers as oracle

YOUNGER = {CommitAttachments}
"""Commands that the oracle does not know: it is frozen."""


def create(session: str = S, tenant: str = T, title: str | None = None) -> CreateSession:
    return CreateSession(tenant=tenant, session=Session(id=session, title=title))


def opened() -> MemoryBackend:
    return open_memory(None, ManualClock())


def test_it_is_a_backend_in_both_colours() -> None:
    backend: Backend = opened()
    made = run_now(backend.awrite(create()))
    queries: list[Query[Any]] = [GetSession(tenant=T, id=S), GetHead(tenant=T, id=S)]
    assert backend.read(queries) == [made, None]
    assert run_now(backend.aread(queries)) == [made, None]


def test_what_it_says_of_itself() -> None:
    backend = opened()
    capabilities = backend.capabilities
    assert (capabilities.name, capabilities.durability) == ("memory", "none")
    assert not capabilities.multi_process
    assert not capabilities.persistent
    for tenant in ("b", "a", "b"):
        backend.write(create(session=f"of {tenant}", tenant=tenant))
    assert backend.tenants() == ["a", "b"]
    health = backend.health()
    assert (health.ok, health.durability) == (True, "none")
    assert backend.stats().counts["sessions"] == 2


def test_more_durability_than_there_is_is_refused() -> None:
    assert open_memory("none", ManualClock()).health().ok
    with pytest.raises(NotSupported) as refused:
        open_memory("power", ManualClock())
    assert "durability" in refused.value.capability


def test_an_unknown_command_is_refused_and_changes_nothing() -> None:
    class Unheard(Command[None], frozen=True, kw_only=True):
        pass

    backend = opened()
    with pytest.raises(NotSupported):
        backend.write(Unheard(tenant=T))
    backend.write(create())
    with pytest.raises(AlreadyExists):
        backend.write(create(title="other"))
    backend.write(create("s2"))


def test_after_close_everything_is_refused() -> None:
    backend = opened()
    backend.close()
    backend.close()
    for call in (lambda: backend.write(create()), lambda: backend.read([]), backend.tenants):
        with pytest.raises(StoreClosed):
            call()
    with pytest.raises(StoreClosed):
        backend.health()


def test_a_fork_is_told_why_it_may_not_use_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = opened()
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(StoreClosed, match="fork"):
        backend.write(create())
    with pytest.raises(StoreClosed, match="fork"):
        backend.read([])
    backend.close()


def test_threads_share_it_one_command_at_a_time() -> None:
    backend = opened()
    backend.write(create())

    def work(name: str) -> None:
        for n in range(50):
            backend.write(turn(f"{name}{n}", said(f"{name}{n}")))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [head] = backend.read([GetHead(tenant=T, id=S)])
    assert (head.revision, head.messages, head.seq) == (200, 200, 200)


def _kinds(root: Any) -> set[type]:
    """The commands of the package, not those that a test made for itself."""
    made: list[type] = root.__subclasses__()
    below = {kind for one in made for kind in _kinds(one)}
    return below | {kind for kind in made if kind.__module__.startswith("ledgerstone.commands.")}


NEW_WORK: set[type] = {CountWork, InterruptWork, ListEnded, ListPrunable, PruneWork}
"""What the oracle does not know: it is frozen."""


def test_every_command_and_query_has_a_handler() -> None:
    assert _kinds(Command) | _kinds(Query) == set(HANDLERS)
    assert _kinds(Command) - YOUNGER - NEW_WORK == set(oracle.WRITES)
    assert _kinds(Query) - NEW_WORK == set(oracle.READS)
