"""Tables that follow from others, made anew after the others were read from somewhere.

Each noun has a `rebuild(state)` that fills its derived tables with `place`, from nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.model import artifacts, attachments, embeddings, memories, usage
from tests.oracle.model.state import State

REBUILDS: tuple[Callable[[State], None], ...] = (
    artifacts.rebuild,
    attachments.rebuild,
    embeddings.rebuild,
    memories.rebuild,
    usage.rebuild,
)


def rebuild(state: State) -> None:
    """All of them."""
    for one in REBUILDS:
        one(state)
