"""Results of tools in formats that have no word for a failure: {"error": ...} is one."""

from __future__ import annotations

from typing import Any

from ledgerstone.formats import words

ERROR = "error"


def error_of(content: Any) -> tuple[Any, bool]:
    """What a result says, and whether it is an error: an object, or its text, of this one key."""
    found = content
    if isinstance(content, str) and content[:1] == "{":
        found = words.arguments_of(content)
    if isinstance(found, dict) and list(found) == [ERROR]:
        return found[ERROR], True
    return content, False


def as_error(content: Any) -> dict[str, Any]:
    """A failure as an object."""
    return {ERROR: content}
