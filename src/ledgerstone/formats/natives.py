"""Keeping natives: the canonical message, and beside it what it could not say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import DEPTH_MAX, check_json, encode_given
from ledgerstone.errors import InvalidValue
from ledgerstone.formats.remainder import remainder, restored, texts_of, whole
from ledgerstone.formats.turns import paired
from ledgerstone.lazy_imports import lazy_import
from ledgerstone.records.messages import Message, MessageBody
from ledgerstone.records.parts import Text
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

SHALLOW = 40
"""Parts and edits that nest no deeper stay within the depth that a body may have."""


_NESTED = (dict, list, tuple)


class Format(Protocol):
    """How one format says what our messages say. No I/O, no import of the library."""

    def read(self, native: Native) -> tuple[Message, str]:
        """One native as one message, and a word for the way it was written.

        What has no place in a message may be left out; texts should have one, since what is
        left out is kept beside it. InvalidValue when it is no native of this format at all.
        """
        ...

    def write(self, message: Message, style: str) -> Native:
        """A message that came from this format, written that way, as well as its parts allow.

        Stored edits were made against it: what it writes for a style never changes, and what is
        to be written otherwise gets a style of its own (tests/formats/kept).
        """
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
    data = encode_given(message.body, format)
    body = read_body(data, format)
    rebuilt = known.write(replace(message, body=body), style)
    edit = remainder(native, rebuilt, _texts(body))
    mark = [format, style] if edit is None else [format, style, edit]
    kept = replace(body, extra={**(body.extra or {}), NATIVE: mark})
    brackets = data.count(b"{") + data.count(b"[")
    if (brackets > SHALLOW or _nests(edit, SHALLOW)) and _nests(_plain(kept), DEPTH_MAX):
        kept = MessageBody(
            role=body.role,
            parts=[Text(message.text)],
            extra={NATIVE: [format, style, whole(native)]},
        )
    return replace(message, body=kept, **fields)


def keep_all(format: str, natives: Iterable[object]) -> list[Message]:
    """Each native as a message; an error names the place of the native."""
    found = []
    for n, native in enumerate(natives):
        try:
            found.append(keep(format, native))
        except InvalidValue as error:
            place = error.field.removeprefix(format)
            raise InvalidValue(f"{format}[{n}]{place}", error.reason) from None
    return found


def native(format: str, messages: Iterable[Message]) -> list[Native]:
    """A conversation in a format: its own messages exactly, the others from their parts.

    A message of this format whose parts were amended since is shown as it is now.
    """
    known = _format(format)
    given = list(messages)
    exact = [_exact(known, format, message) for message in given]
    if None not in exact:
        return exact  # type: ignore[return-value]
    given = paired(given, (one is not None for one in exact))
    found: list[Native] = []
    pairs = zip(given, exact, strict=True)
    for own, group in groupby(pairs, lambda pair: pair[1] is not None):
        run = list(group)
        if own:
            found += [one for _, one in run if one is not None]
        else:
            found += known.render([message for message, _ in run])
    return found


def origin(message: Message) -> str | None:
    """The format that a message came from; None for one that was made here."""
    mark = (message.body.extra or {}).get(NATIVE)
    return mark[0] if isinstance(mark, list) and mark else None


def _exact(known: Format, format: str, message: Message) -> Native | None:
    """The very native; None for one of another format, or when the message was changed since."""
    body = message.body
    mark = body.extra.get(NATIVE) if body.extra else None
    if type(mark) is not list or not mark or mark[0] != format:
        return None
    try:
        found = known.write(message, mark[1])
        if len(mark) > 2:
            found = restored(found, mark[2], _texts(body))
        if type(found) is not dict or (message.version and not _still_says(known, found, message)):
            return None
    except (LookupError, TypeError, ValueError, AttributeError, InvalidValue):
        return None
    return found


def _still_says(known: Format, native: Native, message: Message) -> bool:
    """Whether a native still says what a message says that was amended."""
    body = known.read(native)[0].body
    return read_body(encode_given(body, NATIVE), NATIVE).parts == message.body.parts


def _texts(body: MessageBody) -> Callable[[], dict[str, str]]:
    """The texts that an edit may point at."""
    return lambda: texts_of(_plain(body.parts))


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _nests(value: Any, depth: int) -> bool:
    """Whether a value nests deeper than that."""
    if not isinstance(value, _NESTED):
        return False
    if depth == 0:
        return True
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, _NESTED) and _nests(one, depth - 1):
            return True
    return False


@cache
def _format(name: str) -> Format:
    if name not in NAMES:
        raise InvalidValue("format", f"{name!r} is none of {', '.join(NAMES)}")
    found: Format = lazy_import(f"ledgerstone.formats.{NAMES[name]}").FORMAT
    return found
