"""What msgspec says about a document that does not fit, with our fields and in our words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ledgerstone.errors import InvalidValue

_PLACE = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_TYPE = re.compile(r"Expected `(.+)`, got `(.+)`")
_CHOICE = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_WORDS = {
    "array": "a list",
    "bool": "True or False",
    "float": "a number",
    "int": "an integer",
    "null": "None",
    "object": "a dictionary",
    "str": "text",
}


def invalid_value(field: str, error: Exception, allowed: Iterable[str] = ()) -> InvalidValue:
    """The refusal of a document: the field down to the place inside it, and what is wrong there.

    `allowed`: the words of the only choice that the document has, if it has one.
    """
    match = _PLACE.fullmatch(str(error))
    text, place = match.groups() if match else (str(error), "")
    if missing := _MISSING.fullmatch(text):
        return InvalidValue(f"{field}{place}.{missing[1]}", "missing")
    if wrong := _TYPE.fullmatch(text):
        return InvalidValue(field + place, f"{_kinds(wrong[1])} expected, got {_kinds(wrong[2])}")
    if choice := _CHOICE.fullmatch(text):
        known = ", ".join(allowed)
        reason = f"is none of {known}" if known else "is not known here"
        return InvalidValue(field + place, f"{choice[1]:.40} {reason}")
    return InvalidValue(field + place, text)


def _kinds(names: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in names.split(" | "))
