"""Where the demo takes place: a temporary directory that goes away, or a store of the caller."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace
from rich.console import Console

from ledgerstone import Store
from ledgerstone.demo.screen import Screen
from ledgerstone.demo.stage import Pace, Show, Stage, StageError, Summary
from ledgerstone.errors import NotSupported
from ledgerstone.ids import new_id

LIVE = Pace(step_s=0.2, token_s=0.05)
"""Slow enough to be read; where nobody watches, nobody has to wait."""
PLAIN = Pace(step_s=0.02, token_s=0.03)
ID_CHARS = 6

__all__ = ["StageError", "run_demo"]


def run_demo(
    console: Console, *, store: str | None, tenant: str, keep: bool, as_json: bool
) -> Summary:
    """Play it, show it, count. The summary says whether it went well.

    NotSupported for a store that two processes cannot share; StageError when a worker fails.
    """
    folder = None if store is not None else Path(tempfile.mkdtemp(prefix="ledgerstone-demo-"))
    url = store if folder is None else str(folder / "agent.db")
    assert url is not None
    try:
        check_shared(url, tenant)
        summary = _play(console, url, tenant, keep or folder is None, as_json)
    finally:
        if folder is not None and not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return summary


def check_shared(url: str, tenant: str) -> None:
    """The demo needs two processes on one store."""
    with Store.open(url, tenant=tenant) as opened:
        found = opened.capabilities
    if not (found.multi_process and found.persistent):
        raise NotSupported("the demo, which needs two processes on one store", found.name)


def _play(console: Console, url: str, tenant: str, keep: bool, as_json: bool) -> Summary:
    # The end of a UUIDv7 is its random part.
    session = f"demo-{new_id()[-ID_CHARS:]}"
    if as_json:
        summary = Stage(url, tenant, session, PLAIN, _silence()).play()
        summary = replace(summary, store=url if keep else None)
        console.print(msgspec.json.encode(summary).decode(), soft_wrap=True, markup=False)
        return summary
    pace = LIVE if console.is_terminal else PLAIN
    with Screen(console, url) as screen:
        summary = Stage(url, tenant, session, pace, screen.show()).play()
    screen.closing(summary, url if keep else None)
    return summary


def _silence() -> Show:
    def nothing(*_: object) -> None:
        return None

    return Show(nothing, nothing, nothing, nothing, nothing)
