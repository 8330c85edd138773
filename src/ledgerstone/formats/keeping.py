"""Keeping natives: the canonical message, and beside it what it could not say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from msgspec.structs import replace

from ledgerstone.codec import check_json, encode_struct
from ledgerstone.errors import InvalidValue
from ledgerstone.formats.remainder import remainder, restored
from ledgerstone.records.messages import Message
from ledgerstone.rules.bodies import read_body

Native: TypeAlias = dict[str, Any]

NATIVE = "native"
"""The place in `extra`: [name of the format, style, edit or nothing]."""

NAMES = {
    "openai": "openai_responses",
    "openai-chat": "openai_chat",
    "anthropic": "anthropic",
    "langchain": "langchain",
    "pydantic-ai": "pydantic_ai",
    "adk": "adk",
}
"""Every format, and the module that knows it."""


class Format(Protocol):
    """How one format says what our messages say. No I/O, no import of the library."""

    def read(self, native: Native) -> tuple[Message, str]:
        """One native as one message, and a word for the way it was written.

        What has no place in a message may be left out; texts should have one, since what is
        left out is kept beside it and a text would be stored twice.
        """
        ...

    def write(self, message: Message, style: str) -> Native:
        """A message that came from this format, written that way, as well as its parts allow."""
        ...

    def render(self, messages: Sequence[Message]) -> list[Native]:
        """Messages of other origins, in order; several may become one, and one several."""
        ...


def keep(format: str, native: object, **fields: Any) -> Message:
    """A message that can give this very native back. `fields` are of the envelope: id, run_id.

    Errors: InvalidValue for a native that is not JSON (it names the path) or of no known shape.
    """
    known = _format(format)
    if not isinstance(native, dict):
        raise InvalidValue(format, f"an object expected, got {type(native).__name__}")
    check_json(native, format)
    message, style = known.read(native)
    body = read_body(encode_struct(message.body, format), format)
    edit = remainder(native, known.write(replace(message, body=body), style))
    mark = [format, style] if edit is None else [format, style, edit]
    extra = {**(body.extra or {}), NATIVE: mark}
    return replace(message, body=replace(body, extra=extra), **fields)


def keep_all(format: str, natives: Iterable[object]) -> list[Message]:
    """Each native as a message."""
    return [keep(format, native) for native in natives]


def native(format: str, messages: Iterable[Message]) -> list[Native]:
    """A conversation in a format: its own messages exactly, the others from their parts."""
    known = _format(format)
    found: list[Native] = []
    for own, group in groupby(messages, lambda message: origin(message) == format):
        run = list(group)
        found += [_exact(known, message) for message in run] if own else known.render(run)
    return found


def origin(message: Message) -> str | None:
    """The format that a message came from; None for one made by our own words."""
    mark = (message.body.extra or {}).get(NATIVE)
    return mark[0] if isinstance(mark, list) and mark else None


def _exact(known: Format, message: Message) -> Native:
    style, *edit = (message.body.extra or {})[NATIVE][1:]
    found: Native = restored(known.write(message, style), edit[0] if edit else None)
    return found


@cache
def _format(name: str) -> Format:
    if name not in NAMES:
        raise InvalidValue("format", f"{name!r} is none of {', '.join(NAMES)}")
    found: Format = import_module(f"ledgerstone.formats.{NAMES[name]}").FORMAT
    return found
