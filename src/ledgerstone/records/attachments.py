"""An attachment: a two-phase reference to bytes."""

from __future__ import annotations

import msgspec


class Attachment(msgspec.Struct, frozen=True):
    """An intent, and the time of the commit that used it."""

    session: str
    id: str
    uri: str
    intent_us: int
    committed_us: int | None = None
