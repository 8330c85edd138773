"""LangGraph on a store: `LedgerSaver` for checkpoints, `LedgerStore` for long-term memory.

    graph = builder.compile(checkpointer=LedgerSaver(store), store=LedgerStore(store))

Needs the extra: pip install "ledgerstone[langgraph]".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledgerstone.adapters.versions import require

require("langgraph", (1, 2), (2,), "langgraph")
require("langgraph-checkpoint", (4, 3), (5,), "langgraph")

if TYPE_CHECKING:
    from ledgerstone.adapters.langgraph.saver import LedgerSaver as LedgerSaver
    from ledgerstone.adapters.langgraph.store import LedgerStore as LedgerStore

__all__ = ["LedgerSaver", "LedgerStore"]

_HOMES = {"LedgerSaver": "saver", "LedgerStore": "store"}


def __getattr__(name: str) -> Any:
    """Each of the two is imported when it is asked for."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
