"""What all namespaces of a store share: the backend, and the tenant whose data they touch."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast, get_args

from msgspec.structs import replace

from ledgerstone.api.loop_async import each
from ledgerstone.clock import Clock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.sessions import GetSession
from ledgerstone.connect import Equipment
from ledgerstone.errors import (
    InvalidValue,
    LedgerstoneError,
    Misuse,
    OutcomeUnknown,
    SessionNotFound,
    StoreClosed,
)
from ledgerstone.intake import checks, cursors
from ledgerstone.ports.backend import Backend, Grouping
from ledgerstone.records.sessions import Page
from ledgerstone.rules.outcomes import told

A = TypeVar("A")
Missing: TypeAlias = Literal["empty", "raise"]
"""What a read of an unknown session does: answers as if it were empty, or SessionNotFound."""


class AsyncHandle:
    """One tenant's way to a backend. The one that opened the backend also closes it."""

    __slots__ = (
        "__weakref__",
        "_finalizer",
        "_parent",
        "_tenant",
        "backend",
        "clock",
        "equipment",
        "operator",
    )

    def __init__(
        self,
        backend: Backend,
        tenant: str | None,
        clock: Clock,
        equipment: Equipment,
        parent: AsyncHandle | None = None,
        *,
        operator: bool = False,
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.equipment = equipment
        self.operator = operator
        self._tenant = tenant
        # A tenant's handle keeps the opener alive, whose finalizer would close the backend.
        self._parent = parent
        self._finalizer: weakref.finalize[..., Any] | None = None

    @property
    def tenant(self) -> str:
        """The tenant; Misuse on a root handle, which has none."""
        if self._tenant is None:
            raise Misuse("this store has no tenant: use store.for_tenant(name) for data")
        return self._tenant

    @property
    def tenant_or_none(self) -> str | None:
        return self._tenant

    def need_operator(self, call: str) -> None:
        """Misuse on the handle of a tenant, which must not learn anything of the others."""
        if not self.operator:
            raise Misuse(
                f"{call} is about all tenants, and this handle is of tenant {self._tenant!r}: "
                "call it on the store that Store.open(url) or Store.open(url, tenant=None) gave"
            )

    def cursor(self, scope: bytes, place: tuple[int | str, ...]) -> str:
        """The signed cursor after a place of a list."""
        return cursors.encode(self.backend.cursor_key, scope, place)

    def cursor_place(self, scope: bytes, cursor: str) -> Any:
        """The place in a cursor of that list; InvalidValue for any other text."""
        return cursors.decode(self.backend.cursor_key, scope, cursor)

    def for_tenant(self, tenant: str) -> AsyncHandle:
        return AsyncHandle(self.backend, tenant, self.clock, self.equipment, self._parent or self)

    def close_when_forgotten(self) -> None:
        """For who opened the backend itself: nobody else will close it."""
        self._finalizer = weakref.finalize(self, self.backend.close)

    async def write(self, command: Command[A]) -> A:
        """Its answer; OutcomeUnknown says how this very write is repeated."""
        try:
            return await self.backend.awrite(command)
        except OutcomeUnknown as unknown:
            raise told(unknown, command) from unknown

    async def write_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]:
        """Each by itself: its answer, or its error in its place."""
        backend = self.backend
        if not isinstance(backend, Grouping):
            return await each(self.write, commands)
        found = await backend.awrite_many(commands)
        return [
            told(one, command) if isinstance(one, OutcomeUnknown) else one
            for command, one in zip(commands, found, strict=True)
        ]

    async def page(self, query: Query[Page[A]], missing: Missing = "empty") -> Page[A]:
        """The answer to a query for a page, which tells the limit that was applied."""
        asked: Any = query
        return replace(await self.ask(query, missing), limit=asked.limit)

    async def ask(self, query: Query[A], missing: Missing = "empty") -> A:
        """The answer to one query; SessionNotFound if it is to `raise` about an unknown session."""
        if missing == "empty":
            answers = await self.backend.aread((query,))
            return answers[0]  # type: ignore[no-any-return]
        checks.one_of(missing, get_args(Missing), "missing")
        session = session_of(query)
        found, answer = await self.backend.aread(
            (GetSession(tenant=self.tenant, id=session), query)
        )
        if found is None:
            raise SessionNotFound(session)
        return answer  # type: ignore[no-any-return]

    def close(self) -> Backend | None:
        """Let go: later calls raise StoreClosed. Answers the backend when it is ours to close."""
        backend, self.backend = self.backend, cast(Backend, _CLOSED)
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._parent is not None or backend is _CLOSED:
            return None
        self.equipment.close()
        return backend


def session_of(query: Any) -> str:
    """The session that a query is about; InvalidValue when it is about none."""
    session = getattr(query, "session", None) or getattr(query, "id", None)
    session = session or getattr(getattr(query, "where", None), "session", None)
    if not isinstance(session, str):
        raise InvalidValue("missing", "name the session that may be missing")
    return session


class _Closed:
    """Stands where the backend was."""

    def __getattr__(self, name: str) -> Any:
        _refuse()


def _refuse() -> NoReturn:
    raise StoreClosed("the store is closed: open it again")


_CLOSED = _Closed()
