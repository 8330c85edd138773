"""Vectors as callers may give them: any sequence of numbers, stored as 32-bit floats."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from struct import error as StructError
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.rules.vectors import DIMENSIONS_MAX, pack, unpack

Vector = Sequence[float]
"""A list, tuple, array.array or one-dimensional numpy array."""

_FIELD = "vector"


def packed(value: Any) -> bytes:
    """The bytes of a vector, or InvalidValue."""
    values = _listed(value)
    if not values:
        raise InvalidValue(_FIELD, "must not be empty")
    if len(values) > DIMENSIONS_MAX:
        raise InvalidValue(_FIELD, f"{len(values)} numbers, at most {DIMENSIONS_MAX} allowed")
    for n, one in enumerate(values):
        if type(one) is not float and (type(one) is bool or not isinstance(one, int | float)):
            raise InvalidValue(f"{_FIELD}[{n}]", f"a number expected, got {type(one).__name__}")
    try:
        data = pack(values)
        total = math.fsum(values)
    except (OverflowError, StructError):
        raise InvalidValue(_FIELD, "a number is beyond the range of a 32-bit float") from None
    except ValueError:
        total = math.nan  # Infinities of both signs.
    if not math.isfinite(total):
        raise InvalidValue(_FIELD, "NaN and Infinity are not allowed")
    return data


def rounded(value: Any) -> tuple[float, ...]:
    """The numbers of a vector as they would be stored: what a search compares with."""
    return unpack(packed(value))


def _listed(value: Any) -> list[Any]:
    """The numbers as Python has them; of numpy nothing is needed but `tolist`."""
    if isinstance(value, str | bytes | bytearray | memoryview | dict | set):
        raise InvalidValue(_FIELD, f"a sequence of numbers expected, got {type(value).__name__}")
    if isinstance(value, list | tuple):
        return [one.item() if hasattr(one, "dtype") else one for one in value]
    if isinstance(value, array) or hasattr(value, "tolist"):
        found = value.tolist()
        if isinstance(found, list):
            return found
    raise InvalidValue(_FIELD, f"a sequence of numbers expected, got {type(value).__name__}")
