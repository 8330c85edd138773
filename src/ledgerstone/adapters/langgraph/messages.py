"""LangChain's messages: kept as ours, revived, compared, and copied so that nothing is shared."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from langchain_core import messages as lc
from langchain_core.messages import BaseMessage, message_to_dict

from ledgerstone import formats
from ledgerstone.adapters.langgraph.building import from_natives
from ledgerstone.adapters.langgraph.serializer import CheckedSerializer, to_text
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import Message, unnamed_message

FORMAT = "langchain"
OPAQUE = "langgraph"
"""The place in `extra` of a message that only the serializer can say: [kind, bytes as text]."""
PREVIEW_CHARS = 1000
RECENT_MAX = 256
SHORT_CHARS = 13
"""Length of `threads.short_id()`."""

KNOWN: frozenset[type] = frozenset(
    (
        *(lc.AIMessage, lc.AIMessageChunk, lc.ChatMessage, lc.ChatMessageChunk),
        *(lc.FunctionMessage, lc.FunctionMessageChunk, lc.HumanMessage, lc.HumanMessageChunk),
        *(lc.SystemMessage, lc.SystemMessageChunk, lc.ToolMessage, lc.ToolMessageChunk),
        lc.RemoveMessage,
    )
)
"""The classes that LangChain itself makes of their JSON form."""

_ROLES = {"ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_ATOMS = frozenset((str, int, float, bool, type(None)))
_fields = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")


class MessageToStore(NamedTuple):
    """A message to be stored: ours, what a read would make of it, and its text without the id."""

    message: Message
    pristine: BaseMessage
    key: str


def is_list(value: Any) -> bool:
    """Whether a value is what a channel of messages holds."""
    if type(value) is not list or not value:
        return False
    kinds = set(map(type, value))
    return kinds <= KNOWN or all(issubclass(kind, BaseMessage) for kind in kinds)


class Messages:
    """How messages go in and out, with one serializer for those that are no plain JSON."""

    def __init__(self, serializer: CheckedSerializer, *, check: str) -> None:
        self.serializer = serializer
        self._exact = check == "digest"
        self._recent: dict[int, tuple[BaseMessage, str, BaseMessage]] = {}
        """Texts by the identity of the object: it comes in a write, and again in a channel."""

    def keep(self, given: BaseMessage, path: str) -> MessageToStore:
        """A message as ours; InvalidValue or NotSupported when it could not be read again."""
        return self._plain(given) or self._opaque(given, path)

    def plain(self, given: BaseMessage) -> tuple[str, BaseMessage] | None:
        """The JSON text of a message without its id, and what a read would make of both.

        None when it is no plain JSON.
        """
        if not self._is_plain(given):
            return None
        met = self._recent.get(id(given))
        if met is not None and met[0] is given and self.is_same(met[2], given):
            return met[1], met[2]
        native = message_to_dict(given)
        native["data"]["id"] = None
        try:
            text = json.dumps(native, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError):
            return None
        pristine = of_text(text, given.id)
        if not self.is_same(pristine, given):
            return None
        if len(self._recent) >= RECENT_MAX:
            self._recent.clear()
        self._recent[id(given)] = (given, text, pristine)
        return text, pristine

    def revive(self, stored: Sequence[Message]) -> tuple[list[BaseMessage], list[str | None]]:
        """Messages of a path as LangChain's, and where each of them ends.

        Several of another origin may become one, or one several: then only the last of what they
        became has a place, since a chain cannot part between the others.
        """
        items: list[BaseMessage] = []
        nodes: list[str | None] = []
        for own, group in groupby(stored, _origin):
            run = list(group)
            if own == OPAQUE:
                items += [self._open(one) for one in run]
                nodes += [one.id for one in run]
                continue
            made = _made(run)
            items += made
            if own == FORMAT and len(made) == len(run):
                nodes += [one.id for one in run]
            else:
                _name(made, run)
                nodes += _ends(made, run)
        return items, nodes

    def common(self, kept: Sequence[BaseMessage], given: Sequence[BaseMessage]) -> int:
        """How many messages at the beginning of two lists are the same."""
        length = min(len(kept), len(given))
        if not self._exact and _are_alike(kept[:length], given[:length]):
            return length
        pairs = zip(kept, given, strict=False)
        return next((n for n, pair in enumerate(pairs) if not self.is_same(*pair)), length)

    def is_same(self, pristine: BaseMessage, given: BaseMessage) -> bool:
        """Whether storing `given` would store what is there already."""
        if type(pristine) is not type(given):
            return False
        alike = _are_alike((pristine,), (given,))
        if alike:
            return not self._exact or _dump(pristine) == _dump(given)
        return not self._is_plain(given) and self._same_bytes(pristine, given)

    def _is_plain(self, given: BaseMessage) -> bool:
        return self.serializer.is_open and type(given) in KNOWN

    def _plain(self, given: BaseMessage) -> MessageToStore | None:
        found = self.plain(given)
        if found is None:
            return None
        text, pristine = found
        native = json.loads(text)
        native["data"]["id"] = given.id
        try:
            return MessageToStore(formats.keep(FORMAT, native), pristine, text)
        except InvalidValue:
            return None

    def _opaque(self, given: BaseMessage, path: str) -> MessageToStore:
        kind, data, pristine = self.serializer.dump(given, path)
        if not isinstance(pristine, BaseMessage):
            raise InvalidValue(path, f"{type(given).__name__} does not come back as a message")
        shown = str(given.text)[:PREVIEW_CHARS] if self.serializer.is_open else None
        extra = {OPAQUE: [kind, to_text(data)]}
        made = unnamed_message(_ROLES.get(given.type, "user"), shown, extra=extra)
        return MessageToStore(made, pristine, f"{kind}:{to_text(data)}")

    def _open(self, stored: Message) -> BaseMessage:
        kind, text = (stored.body.extra or {})[OPAQUE]
        found = self.serializer.open(kind, text, f"message {stored.id}")
        if not isinstance(found, BaseMessage):
            raise InvalidValue(f"message {stored.id}", "no message is stored here")
        return found

    def _same_bytes(self, pristine: BaseMessage, given: BaseMessage) -> bool:
        try:
            dumps = self.serializer.serde.dumps_typed
            return bool(dumps(pristine) == dumps(given))
        except (TypeError, ValueError):
            return False


def of_text(text: str, id: str | None) -> BaseMessage:
    """The message of a text that `Messages.plain` made, with its id."""
    native = json.loads(text)
    native["data"]["id"] = id
    return from_natives([native])[0]


def fresh(given: BaseMessage) -> BaseMessage:
    """A copy that shares nothing that can be changed: what is kept must stay as it is."""
    kind = type(given)
    if kind not in KNOWN or given.__pydantic_private__ is not None:
        return copy.deepcopy(given)
    made = kind.__new__(kind)
    own = given.__dict__.copy()
    for name, one in own.items():
        if type(one) not in _ATOMS:
            own[name] = _fresh(one)
    extra = given.__pydantic_extra__
    put = object.__setattr__
    put(made, "__dict__", own)
    put(made, "__pydantic_fields_set__", given.__pydantic_fields_set__.copy())
    put(made, "__pydantic_extra__", extra if extra is None else _fresh(extra))
    put(made, "__pydantic_private__", None)
    return made


def fresh_all(given: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [fresh(one) for one in given]


def _fresh(value: Any) -> Any:
    kind = type(value)
    # Most of them are empty, and there are thousands.
    if kind is dict:
        if not value:
            return {}
        return {key: one if type(one) in _ATOMS else _fresh(one) for key, one in value.items()}
    if kind is list:
        return [one if type(one) in _ATOMS else _fresh(one) for one in value] if value else []
    return copy.deepcopy(value)


def _are_alike(kept: Sequence[BaseMessage], given: Sequence[BaseMessage]) -> bool:
    """Whether all of them have the same fields.

    Done for every message of every put, hence without a step of Python for each of them.
    """
    try:
        return all(list(map(of, kept)) == list(map(of, given)) for of in (type, _fields, _extra))
    except Exception:  # An object of the caller's in it may compare as it likes.
        return False


def _dump(given: BaseMessage) -> str:
    return json.dumps(message_to_dict(given), default=repr)


def _made(run: list[Message]) -> list[BaseMessage]:
    """Messages as LangChain's; Corrupt names one that it does not accept."""
    try:
        return from_natives(formats.native(FORMAT, run))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        for one in run if len(run) > 1 else ():
            _made([one])
        reason = f"no message of LangChain: {type(error).__name__}"
        raise Corrupt("nodes", f"message {run[0].id}", "body", reason) from error


def _origin(stored: Message) -> str:
    if is_opaque((stored.body.extra or {}).get(OPAQUE)):
        return OPAQUE
    if formats.origin(stored) != FORMAT:
        return ""
    # One that was amended stands alone: it may say nothing any more, or what takes two messages.
    return f"{FORMAT}:{stored.id}" if stored.version else FORMAT


def is_opaque(mark: Any) -> bool:
    """Whether it is this adapter's, and not somebody else's word of the same name."""
    return type(mark) is list and [type(one) for one in mark] == [str, str]


def is_from_put(stored: Message) -> bool:
    """Whether a put of a checkpoint wrote it, which names messages by short ids."""
    return len(stored.id) == SHORT_CHARS and bool(_origin(stored))


def _ends(made: list[BaseMessage], run: list[Message]) -> list[str | None]:
    """The last message that each of them says, where what follows begins with another message."""
    places = {one.id: n for n, one in enumerate(run)}
    found: list[str | None] = []
    for after in made[1:]:
        begin = places.get(str(after.id), 0)
        # An answer that says something else first may have been joined with the one before.
        joined = run[begin].role == "assistant" and after.type != "ai"
        found.append(None if joined or not begin else run[begin - 1].id)
    return [*found, run[-1].id] if made else []


def _name(made: list[BaseMessage], run: list[Message]) -> None:
    """Ids for messages of other origins: LangGraph would draw new ones at every reading."""
    for n, one in enumerate(made):
        if one.id is None:
            one.id = run[-1].id if n == len(made) - 1 else f"{run[-1].id}-{len(made) - 1 - n}"
