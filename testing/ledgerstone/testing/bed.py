"""What the conformance suite runs on: a place to keep sessions, and ways to open it again.

An author of another backend writes one fixture and imports the classes:

    from ledgerstone.testing.bed import Bed
    from ledgerstone.testing.conformance import *

    @pytest.fixture
    def backend(tmp_path):
        clock = ManualClock()
        with Bed("mine", lambda: MyBackend(tmp_path / "store", clock), clock=clock) as bed:
            yield bed
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.codec import decode_json
from ledgerstone.commands import Command, Query
from ledgerstone.commands.artifacts import LoadArtifacts
from ledgerstone.commands.evidence import LoadEvidence
from ledgerstone.commands.executions import ListExecutions
from ledgerstone.commands.nodes import ListBranches, ListDrafts, ListNodes, ReadMessages
from ledgerstone.commands.runs import LatestRun
from ledgerstone.commands.sessions import GetDocument, GetHead, GetSession
from ledgerstone.commands.tickets import ListTickets, TicketFilter
from ledgerstone.commands.turns import ListTurns
from ledgerstone.commands.work import ListWork
from ledgerstone.ports.backend import Backend

DOCUMENTS = ("document", "state", "config", "frames", "checkpoint")

A = TypeVar("A")


class Bed:
    """One backend under test. `name` is what its promises are counted for.

    `factory` opens the same place each time it is called. A backend that is not persistent is made
    once. `shared`: a place that only one can have open, so everything shares that one.
    """

    def __init__(
        self,
        name: str,
        factory: Callable[[], Backend],
        *,
        clock: ManualClock,
        persistent: bool = True,
        shared: bool = False,
        url: str = "",
        variant: str = "",
        folder: Path | None = None,
        edit: Callable[[str], int] | None = None,
        raw: Callable[[], bytes] | None = None,
        dialect: str = "sqlite",
    ) -> None:
        self.name = name
        self.variant = variant or name
        self.clock = clock
        self.persistent = persistent
        self.shared = shared or not persistent
        self.url = url
        # A capability: the folder that holds every byte of the store, and nothing else.
        self.folder = folder
        # Another one: run a statement behind the store's back; answers how many rows it changed.
        self.edit = edit
        self.dialect = dialect
        # Another one: every byte that the store keeps, as it lies there.
        self.raw = raw
        self._factory = factory
        # Tests ask from many threads at once, and a place may be opened once only.
        self._opening = threading.RLock()
        self._port: Backend | None = None
        self._others: list[Backend] = []
        # A store that nobody holds any more closes its backend, so all of them are kept here.
        self._stores: list[Store] = []
        self._store: Store | None = None

    def __repr__(self) -> str:
        return f"<Bed {self.variant}>"

    @property
    def store(self) -> Store:
        """The store of the tenant "default", opened when it is first needed."""
        with self._opening:
            if self._store is None:
                self._store = self._store_on(self.port, "default")
            return self._store

    @property
    def port(self) -> Backend:
        """The backend below `store`, for what is easier said as a command."""
        with self._opening:
            if self._port is None:
                self._port = self._factory()
            return self._port

    def open(self, tenant: str | None = "default") -> Store:
        """Another store on the same place: a handle of its own where the backend has such."""
        if self.shared and tenant is not None:
            return self.store.for_tenant(tenant)
        backend = self.port
        if not self.shared:
            backend = self._factory()
            self._others.append(backend)
        return self._store_on(backend, tenant)

    def reopen(self) -> Store:
        """Close everything and open the place again; what is not persistent just goes on."""
        self._store = None
        if self.persistent:
            self._close_backends()
        return self.store

    def write(self, command: Command[A]) -> A:
        return self.port.write(command)

    def ask(self, query: Query[A]) -> A:
        answer: A = self.port.read([query])[0]
        return answer

    def ask_all(self, *queries: Query[Any]) -> list[Any]:
        return self.port.read(queries)

    def texts(self, session: str, branch: str = "main") -> list[str]:
        """The texts of a path, oldest first: the shortest way to say what a session shows."""
        return [message.text for message in self.store.messages.history(session, branch=branch)]

    def revision(self, session: str) -> int:
        """The revision of a session; 0 before its first commit."""
        head = self.store.sessions.head(session)
        return 0 if head is None else head.revision

    def state(self, session: str) -> Any:
        """The state document of a session, {} before there is one."""
        data = self.ask(GetDocument(tenant="default", session=session, name="state"))
        return {} if data is None else decode_json(data)

    def snapshot(self, session: str, tenant: str = "default") -> list[Any]:
        """Everything that can be read of a session, to compare with later."""
        place: dict[str, Any] = {"tenant": tenant, "session": session}
        documents = [GetDocument(name=name, **place) for name in DOCUMENTS]
        return self.ask_all(
            GetSession(tenant=tenant, id=session),
            GetHead(tenant=tenant, id=session),
            ReadMessages(deleted=True, **place),
            ListNodes(notes=True, resolve=True, **place),
            ListBranches(**place),
            ListTurns(**place),
            ListDrafts(**place),
            ListWork(**place),
            LatestRun(**place),
            ListTickets(tenant=tenant, where=TicketFilter(status=None, session=session)),
            ListExecutions(**place),
            LoadArtifacts(**place),
            LoadEvidence(kind="trace", **place),
            LoadEvidence(kind="report", **place),
            *documents,
        )

    @contextlib.contextmanager
    def unchanged(self, session: str, tenant: str = "default") -> Iterator[None]:
        """Around a call that must fail or do nothing: not one field of the session may move."""
        before = self.snapshot(session, tenant)
        yield
        after = self.snapshot(session, tenant)
        assert after == before, f"session {session} was changed"

    def close(self) -> None:
        self._store = None
        self._close_backends()

    def _store_on(self, backend: Backend, tenant: str | None) -> Store:
        store = Store(backend, tenant=tenant, clock=self.clock)
        self._stores.append(store)
        return store

    def _close_backends(self) -> None:
        opened = [*self._others, *([] if self._port is None else [self._port])]
        self._others, self._port = [], None
        for backend in opened:
            backend.close()

    def __enter__(self) -> Bed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
