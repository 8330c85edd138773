"""Namespaces: segments that are joined so that "below" is a range of texts.

Every segment is ended by a character that no segment can contain. So ("a", "bc") is not below
("a", "b"), whatever the segments are, and nobody has to match patterns to find out.
"""

from __future__ import annotations

from ledgerstone import ids
from ledgerstone.commands.memories import NAMESPACE_END
from ledgerstone.errors import InvalidValue

SEGMENTS_MAX = 16
# The character after NAMESPACE_END: no text below a namespace sorts behind it.
_BEHIND = chr(ord(NAMESPACE_END) + 1)


def join(segments: tuple[str, ...]) -> str:
    """The text of a namespace that was checked."""
    return "".join(segment + NAMESPACE_END for segment in segments)


def split(text: str) -> tuple[str, ...]:
    """The segments of a text made by `join`."""
    return tuple(text.split(NAMESPACE_END)[:-1])


def check(value: object, field: str) -> str:
    """The text of 0 to 16 segments, or InvalidValue; text alone is one segment."""
    segments = (value,) if isinstance(value, str) else value
    if not isinstance(segments, tuple | list):
        raise InvalidValue(field, f"a tuple of texts expected, got {type(value).__name__}")
    if len(segments) > SEGMENTS_MAX:
        raise InvalidValue(field, f"{len(segments)} segments, at most {SEGMENTS_MAX} allowed")
    return join(tuple(_segment(one, f"{field}[{n}]") for n, one in enumerate(segments)))


def _segment(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidValue(field, f"text expected, got {type(value).__name__}")
    return ids.check_id(value, field)


def end_of(prefix: str) -> str | None:
    """The first text behind everything at or below a namespace; None: there is no such."""
    return prefix[:-1] + _BEHIND if prefix else None


def cut(namespace: str, depth: int | None) -> str:
    """The first segments only."""
    return namespace if depth is None else join(split(namespace)[:depth])


def ends_with(namespace: str, suffix: tuple[str, ...]) -> bool:
    """Whether the last segments are these."""
    return not suffix or split(namespace)[-len(suffix) :] == suffix


def behind(namespace: str, depth: int | None) -> dict[str, str | None]:
    """Where the next one is sought after one was shown: `after` it, or from `first` on, behind
    everything that would be cut to the same.
    """
    if depth is None or len(split(namespace)) < depth:
        return {"after": namespace}
    return {"first": end_of(cut(namespace, depth))}
