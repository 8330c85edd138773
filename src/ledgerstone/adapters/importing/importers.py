"""What all importers have in common: their names, how they are called, and what they answer.

An importer is a module with two functions:

    import_sessions(store, source, *, progress=None, ...) -> a dataclass of counts
    check_source(source), which only opens the source and looks whether it can be one

It reads the source and never writes to it. It commits in pieces and derives ids from those of the
source, so that after an interruption a second run goes on, and a third one finds nothing to do. It
never unpickles. `progress(session, how many so far)` is called after each session.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of
from ledgerstone.commands.nodes import GetMessage
from ledgerstone.errors import Corrupt, InvalidValue, NotSupported
from ledgerstone.records.messages import Message

P = ParamSpec("P")
T = TypeVar("T")
Progress: TypeAlias = Callable[[str, int], None]
Import: TypeAlias = Callable[[AnyStore, Progress | None], dict[str, int]]
"""Runs, and answers the counts by name."""

IMPORTERS = {
    "langgraph": "langgraph_threads",
    "openai-agents": "openai_sessions",
    "adk": "adk_sessions",
}
"""Frameworks, and the modules that read what they stored."""


class Counts(Protocol):
    """What an importer counts."""

    unreadable: int


SourceT = TypeVar("SourceT")
CountsT = TypeVar("CountsT", bound=Counts)


@dataclasses.dataclass(frozen=True)
class Transfer(Generic[SourceT, CountsT]):
    """One import: from where, to where, and how."""

    store: AnyStore
    source: SourceT
    skip_unreadable: bool
    done: CountsT

    def skip(self, error: Corrupt) -> None:
        """Count what cannot be read, or refuse it."""
        if not self.skip_unreadable:
            raise error
        self.done.unreadable += 1

    async def absent(self, session: str, messages: Sequence[Message]) -> list[Message]:
        """The messages that the store does not have."""
        tenant = self.store.tenant or ""
        queries = (GetMessage(tenant=tenant, session=session, id=one.id) for one in messages)
        there = await of(self.store.read(*queries)) if messages else []
        return [one for one, known in zip(messages, there, strict=True) if known is None]


def in_both_ways(
    work: Callable[P, Coroutine[Any, Any, T]],
) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """An importer, whose first argument is the store, for programs without and with a loop."""

    def runner(*args: P.args, **options: P.kwargs) -> StoreRunner:
        return StoreRunner(signature(work).bind(*args, **options).arguments["store"])

    @wraps(work)
    def blocking(*args: P.args, **options: P.kwargs) -> T:
        return runner(*args, **options).run_sync(work(*args, **options))

    @wraps(work)
    async def awaited(*args: P.args, **options: P.kwargs) -> T:
        return await runner(*args, **options).run_async(work(*args, **options))

    return blocking, awaited


def prepared(framework: str, source: str, **options: Any) -> Import:
    """An import of all of a source, checked as far as that goes without a store to import into.

    Options that are None or False are not passed on; InvalidValue for one that the importer of
    this framework does not have. Otherwise the errors of its `check_source`.
    """
    module = _importer(framework)
    given = {name: value for name, value in options.items() if value}
    known = signature(module.import_sessions).parameters
    for name in given:
        if name not in known:
            raise InvalidValue(name, f"the importer of {framework} has no such option")
    module.check_source(source)

    def run(store: AnyStore, progress: Progress | None = None) -> dict[str, int]:
        done = module.import_sessions(store, source, progress=progress, **given)
        return {one.name: getattr(done, one.name) for one in dataclasses.fields(done)}

    return run


def _importer(framework: str) -> Any:
    """The module of a framework; NotSupported names the extra that is missing."""
    if framework not in IMPORTERS:
        raise InvalidValue("framework", f"one of {', '.join(IMPORTERS)} expected")
    try:
        return import_module(f"ledgerstone.adapters.importing.{IMPORTERS[framework]}")
    except ImportError as error:
        raise NotSupported(
            f"import of {framework} without {error.name}",
            hint=f'pip install "ledgerstone[{framework}]"',
        ) from None
