"""A call of the store as work that is done later: in a thread, when the store is a blocking one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledgerstone.adapters.faces import of


async def ask(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What the method answers; nothing of it happens before this is awaited."""
    return await of(method(*args, **options))
