"""What callers say about tool calls that are made, checked and encoded once."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ledgerstone.codec import encode_json
from ledgerstone.commands.executions import Finish
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks

ERROR_CHARS_MAX = 4096


def finish_of(id: Any, result: Any, error: Any, duration_ms: int | None) -> Finish:
    """The outcome: a result, which may be None, or an error, which may not."""
    if (result is UNSET) == (error is UNSET):
        raise InvalidValue("result", "give either a result or an error")
    if error is not UNSET and not isinstance(error, str | dict):
        raise InvalidValue("error", f"text or an object expected, got {type(error).__name__}")
    return Finish(
        id=checks.record_id(id, "id"),
        result=None if result is UNSET else encode_json(result, "result"),
        error=None if error is UNSET else encode_json(error, "error"),
        duration_ms=None if duration_ms is None else checks.whole(duration_ms, "duration_ms"),
    )


def error_text(error: BaseException) -> str:
    """Type and message, bounded."""
    return f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
