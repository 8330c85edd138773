"""What all importers have in common: their names, how they are called, and what they answer.

An importer is a module with one function:

    import_sessions(store, source, *, progress=None, ...) -> a dataclass of counts

It reads the source and never writes to it. It commits in pieces and derives ids from those of the
source, so that after an interruption a second run goes on, and a third one finds nothing to do. It
never unpickles. `progress(session, how many so far)` is called after each session.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any, TypeAlias

from ledgerstone.adapters.faces import AnyStore
from ledgerstone.errors import InvalidValue, NotSupported

Progress: TypeAlias = Callable[[str, int], None]

IMPORTERS = {
    "langgraph": "langgraph_threads",
    "openai-agents": "openai_sessions",
    "adk": "adk_sessions",
}
"""Frameworks, and the modules that read what they stored."""


def importer(framework: str) -> Callable[..., Any]:
    """The function of a framework; NotSupported names the extra that is missing."""
    if framework not in IMPORTERS:
        raise InvalidValue("framework", f"one of {', '.join(IMPORTERS)} expected")
    try:
        module = import_module(f"ledgerstone.adapters.importing.{IMPORTERS[framework]}")
    except ImportError as error:
        raise NotSupported(
            f"import of {framework} without {error.name}",
            hint=f'pip install "ledgerstone[{framework}]"',
        ) from None
    found: Callable[..., Any] = module.import_sessions
    return found


def run_import(
    framework: str,
    store: AnyStore,
    source: str,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, int]:
    """Import all of a source; what came of it by name.

    Options that are None or False are not passed on; InvalidValue for one that the importer of
    this framework does not have.
    """
    work = importer(framework)
    given = {name: value for name, value in options.items() if value}
    known = signature(work).parameters
    for name in given:
        if name not in known:
            raise InvalidValue(name, f"the importer of {framework} has no such option")
    if "progress" in known:
        given["progress"] = progress
    return counted(work(store, source, **given))


def counted(done: Any) -> dict[str, int]:
    """The counts of an importer by name, as it lists them."""
    return {one.name: getattr(done, one.name) for one in dataclasses.fields(done)}
