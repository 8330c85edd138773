"""What can be asked of a backend: frozen values, each naming the type of its answer.

A `Command` changes the store and is one transaction; a `Query` reads. Both carry everything
they need: ids, salts and hashes are made by the client, so that any of them can be repeated.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

A = TypeVar("A")


class Command(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """A write that answers A."""

    tenant: str


class Query(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """A read that answers A."""

    tenant: str


class SessionCommand(Command[A], Generic[A], frozen=True, kw_only=True):
    """A write of one session."""

    session: str


class SessionQuery(Query[A], Generic[A], frozen=True, kw_only=True):
    """A read of one session."""

    session: str


class PageQuery(Query[A], Generic[A], frozen=True, kw_only=True):
    """A read of one page of a list; `total`: and of how long the list is."""

    limit: int = 50
    offset: int = 0
    total: bool = False


class Guard(msgspec.Struct, frozen=True, gc=False):
    """Under which ownership and at which revision a write may happen.

    `incarnation` 0: only if there was no session, which a commit may make.
    """

    fence: int | None = None
    token: str | None = None
    revision: int | None = None
    incarnation: int | None = None


FREE = Guard()
