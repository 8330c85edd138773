"""The store: one tenant's view of a backend, with a namespace per noun."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import Opening, offload, opening
from ledgerstone.clock import Clock, SystemClock
from ledgerstone.commands import Query
from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.connect import Equipment, open_backend, warn_of_unfinished_copy
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.lazy_imports import importing, lazy_import
from ledgerstone.ports.backend import Backend
from ledgerstone.records.reports import Capabilities

if TYPE_CHECKING:
    from ledgerstone.api.admin import AsyncAdmin
    from ledgerstone.api.artifacts import AsyncArtifacts
    from ledgerstone.api.attachments import AsyncAttachments
    from ledgerstone.api.blobs import AsyncBlobs
    from ledgerstone.api.branches import AsyncBranches
    from ledgerstone.api.drafts import AsyncDrafts
    from ledgerstone.api.embeddings import AsyncEmbeddings
    from ledgerstone.api.evidence import AsyncReports, AsyncTraces
    from ledgerstone.api.executions import AsyncExecutions
    from ledgerstone.api.feed import AsyncFeed
    from ledgerstone.api.leases import AsyncLeases
    from ledgerstone.api.memories import AsyncMemories
    from ledgerstone.api.messages import AsyncMessages
    from ledgerstone.api.nodes import AsyncNodes
    from ledgerstone.api.runs import AsyncRuns
    from ledgerstone.api.session import AsyncConversation
    from ledgerstone.api.sessions import AsyncSessions
    from ledgerstone.api.tickets import AsyncTickets
    from ledgerstone.api.turns import AsyncTurns
    from ledgerstone.api.usage import AsyncUsageBook
    from ledgerstone.api.work import AsyncWork

TENANT = "default"


class _Namespace:
    """Imports and makes a namespace when it is first asked for.

    Its module has its name, unless another one is given.
    """

    def __init__(self, module: str | None) -> None:
        self._module = module

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._kind: str = owner.__annotations__[name]

    def __get__(self, store: AsyncStore | None, owner: type) -> Any:
        if store is None:
            return self
        module = lazy_import(f"{__package__}.{self._module or self._name}")
        kind = getattr(module, self._kind)
        # Two threads that ask at once both get the one that came first.
        return store.__dict__.setdefault(self._name, kind(store._handle))

    def __repr__(self) -> str:
        return f"<namespace {self._kind}>"


def _namespace(module: str | None = None) -> Any:
    """As Any, so that a type checker takes the annotation beside it."""
    return _Namespace(module)


class AsyncStore:
    """Sessions, messages, turns and leases of one tenant.

    Opened by `AsyncStore.open(url)`; such a store closes itself when nobody refers to it any
    more. Made of an open backend, it closes that one only when it is told to.
    """

    sessions: AsyncSessions = _namespace()
    messages: AsyncMessages = _namespace()
    nodes: AsyncNodes = _namespace()
    branches: AsyncBranches = _namespace()
    turns: AsyncTurns = _namespace()
    drafts: AsyncDrafts = _namespace()
    leases: AsyncLeases = _namespace()
    runs: AsyncRuns = _namespace()
    attachments: AsyncAttachments = _namespace()
    blobs: AsyncBlobs = _namespace()
    tickets: AsyncTickets = _namespace()
    executions: AsyncExecutions = _namespace()
    work: AsyncWork = _namespace()
    memories: AsyncMemories = _namespace()
    embeddings: AsyncEmbeddings = _namespace()
    artifacts: AsyncArtifacts = _namespace()
    traces: AsyncTraces = _namespace("evidence")
    reports: AsyncReports = _namespace("evidence")
    usage: AsyncUsageBook = _namespace()
    feed: AsyncFeed = _namespace()
    admin: AsyncAdmin = _namespace()

    def __init__(
        self,
        backend: Backend,
        *,
        tenant: str | None = TENANT,
        clock: Clock | None = None,
        equipment: Equipment | None = None,
    ) -> None:
        name = None if tenant is None else ids.check_id(tenant, "tenant")
        equipment = equipment or Equipment(backend)
        operator = name in (None, TENANT)
        self._handle = AsyncHandle(
            backend, name, clock or SystemClock(), equipment, operator=operator
        )

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        tenant: str | None = TENANT,
        durability: str | None = None,
        blobs: str | os.PathLike[str] | None = None,
        vectors: str | None = None,
        prices: object = None,
        pool_size: int | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        accept_loss: bool = False,
    ) -> Opening[AsyncStore]:
        """Open a path, sqlite:///path, file:///folder or memory://.

        Without `tenant` the data is that of the tenant "default", and the handle is the operator's:
        it may also ask about all tenants (`admin.tenants`, `admin.stats`). `tenant=None` is a root
        handle: it may ask that, and has no data. With another tenant, and by `for_tenant`, it is
        that tenant's handle, which learns nothing of the others: hand that one out.

        `blobs`: where bytes go: a directory, s3://bucket/prefix, gs://, az://; by default beside
        the rest. `vectors`: numpy, sqlite-vec, python or pgvector; by default what is fastest.
        `prices`: Prices, a dictionary or a JSON file instead of the table that is built in.
        `read_only`: an existing store, also on a medium that cannot be written; nothing is
        written by opening or reading it, and every write raises ReadOnly.
        `accept_loss`: open a SQLite store that is refused because its log, or its file, is missing
        or another's; what the log held is given up, and the log is kept under another name.
        Errors: InvalidValue, NotSupported, NotADatabase, Corrupt, SchemaTooNew, ReadOnly, Busy.
        """
        if tenant is not None:
            ids.check_id(tenant, "tenant")
        checks.flag(read_only, "read_only")

        def connect() -> AsyncStore:
            backend = open_backend(
                url,
                durability=durability,
                clock=clock,
                pool_size=pool_size,
                read_only=read_only,
                accept_loss=accept_loss,
            )
            try:
                equipment = Equipment(
                    backend, blobs=blobs, vectors=vectors, prices=prices, read_only=read_only
                )
                if tenant is not None and not read_only:
                    warn_of_unfinished_copy(backend, tenant)
            except BaseException:
                backend.close()
                raise
            store = cls(backend, tenant=tenant, clock=clock, equipment=equipment)
            store._handle.close_when_forgotten()
            return store

        return opening(connect)

    def for_tenant(self, name: str) -> AsyncStore:
        """The same store for another tenant: no I/O, and closing it leaves this one open."""
        store = object.__new__(type(self))
        store._handle = self._handle.for_tenant(ids.check_id(name, "tenant"))
        return store

    @property
    def tenant(self) -> str | None:
        """Whose data this is; None for a root handle, which refuses data calls."""
        return self._handle.tenant_or_none

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do, and how durable it really is."""
        return self._handle.backend.capabilities

    def session(self, id: SessionRef) -> AsyncConversation:
        """One session in the words of other libraries, whether it is there or not: no I/O."""
        with importing():
            from ledgerstone.api.session import AsyncConversation

        return AsyncConversation(self.messages, self.blobs, id)

    async def read(self, *queries: Query[Any]) -> list[Any]:
        """Answer several queries from one snapshot, in one round trip.

        InvalidValue when one is for another tenant; Misuse for positions of the whole store on a
        tenant's handle (read `store.feed` instead).
        """
        for query in queries:
            if not isinstance(query, Query):
                raise InvalidValue("query", f"a Query expected, got {type(query).__name__}")
            if query.tenant != self._handle.tenant:
                raise InvalidValue("tenant", f"this store is of {self._handle.tenant!r}")
            if isinstance(query, FeedEnd | ReadFeed):
                self._handle.need_operator(f"{type(query).__name__}, which tells positions,")
        return await self._handle.backend.aread(queries)

    async def close(self) -> None:
        """Finish what was accepted, then let go; closing twice is fine."""
        backend = self._handle.close()
        if backend is not None:
            await offload(backend.close)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} tenant {self.tenant!r}>"
