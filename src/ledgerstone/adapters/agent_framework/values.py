"""Values of workflows as JSON, without pickle: what is not JSON goes by a registered name.

Plain values, lists and objects with text keys are themselves. Everything else is an object with the
key "$": {"$": word, ...}. A class is stored by the name that it was registered with, never by where
it is defined, and nothing is imported to read it.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import agent_framework as af
from pydantic import BaseModel

from ledgerstone.adapters.agent_framework.messages import check_whole
from ledgerstone.codec import encode_json
from ledgerstone.errors import Corrupt, InvalidValue, NotSupported

MARK = "$"
HINT = "register its class: LedgerCheckpointStorage(store, types=[...])"
DEPTH_MAX = 200

_OWN_NAMES = """
AgentExecutorRequest AgentExecutorResponse AgentResponse AgentResponseUpdate AgentSession
BackgroundTaskInfo BackgroundTaskStatus ChatResponse ChatResponseUpdate CheckResult Content
ConversationSplit EvalItemResult EvalScoreResult ExpectedToolCall FileSearchMatch FileSearchResult
FileStoreEntry Filter FilterGroup JudgeVerdict MemoryIndexEntry MemoryTopicRecord Message Param
RubricScore SubWorkflowRequestMessage SubWorkflowResponseMessage TodoItem ToolApprovalRule
ToolApprovalState WorkflowCheckpoint WorkflowErrorDetails WorkflowEventSource
WorkflowInvocationKwargs WorkflowMessage WorkflowRunState
"""
"""The framework's own data types; one that a later version drops is left out."""
_OWN: tuple[type[Any], ...] = (
    *(getattr(af, name) for name in _OWN_NAMES.split() if hasattr(af, name)),
    type(af.WorkflowMessage(data=None, source_id="").type),
)
_PLAIN: dict[str, type[Any]] = {
    one.__name__: one
    for one in (
        *(str, int, float, bool, bytes, list, dict, tuple, set, frozenset, type(None)),
        *(datetime, date, time, timedelta, Decimal, UUID),
    )
}
_WORDS: dict[type[Any], tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    float: ("float", repr, float),
    bytes: ("bytes", lambda v: base64.b64encode(v).decode(), base64.b64decode),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: (
        "timedelta",
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: timedelta(*v),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
}
_LISTS: dict[type[Any], str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}


class Types:
    """The classes that may be stored, by name."""

    def __init__(self, given: Iterable[type[Any]] | Mapping[str, type[Any]] = ()) -> None:
        named = given.items() if isinstance(given, Mapping) else [(c.__name__, c) for c in given]
        self._by_name: dict[str, type[Any]] = {f"af.{one.__name__}": one for one in _OWN}
        for name, cls in named:
            if not isinstance(name, str) or not name:
                raise InvalidValue("types", f"a name for {cls!r} expected, got {name!r}")
            if not _is_storable(cls):
                reason = "a dataclass, a pydantic model or an Enum expected"
                raise InvalidValue(f"types.{name}", f"{reason}, got {cls!r}")
            if self._by_name.setdefault(name, cls) is not cls:
                raise InvalidValue("types", f"two classes are called {name!r}: give a mapping")
        self._names = {cls: name for name, cls in self._by_name.items()}

    def name(self, cls: type[Any]) -> str | None:
        return self._names.get(cls)

    def named(self, name: str) -> type[Any]:
        """The class; NotSupported when this program does not register it."""
        if name not in self._by_name:
            raise NotSupported(f"reading a stored {name!r}", hint=HINT)
        return self._by_name[name]


def encode(types_: Types, value: Any, path: str, depth: int = 0) -> Any:
    """A value as JSON; NotSupported names the place of what cannot be stored."""
    cls = type(value)
    if depth > DEPTH_MAX:
        raise NotSupported(f"storing {path}: it is nested too deeply")
    if cls in (str, int, bool, type(None)) or (cls is float and math.isfinite(value)):
        return value

    def inner(one: Any, step: str) -> Any:
        return encode(types_, one, path + step, depth + 1)

    if cls is list:
        return [inner(one, f"[{n}]") for n, one in enumerate(value)]
    if cls is dict:
        return _encode_dict(value, inner)
    if cls in _WORDS:
        word, write, _ = _WORDS[cls]
        return {MARK: word, "v": write(value)}
    if cls in _LISTS:
        found = [inner(one, f"[{n}]") for n, one in enumerate(value)]
        # A set has no order of its own, and equal ones are stored alike.
        return {MARK: _LISTS[cls], "v": found if cls is tuple else sorted(found, key=_text)}
    if isinstance(value, type) or typing.get_origin(value) is not None or value is Any:
        return {MARK: "class", "v": _encode_class(types_, value, path)}
    write_it = _encode_event if isinstance(value, af.WorkflowEvent) else _encode_object
    return write_it(types_, value, path, inner)


def decode(types_: Types, value: Any) -> Any:
    """The value again; NotSupported for a class that is not registered, Corrupt for nonsense."""
    if isinstance(value, list):
        return [decode(types_, one) for one in value]
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {key: decode(types_, one) for key, one in value.items()}
    try:
        return _decode_marked(types_, value)
    except (NotSupported, Corrupt):
        raise
    except Exception as error:
        word = str(value.get(MARK))
        raise Corrupt("nodes", "checkpoint", word, f"{type(error).__name__}: {error}") from None


def check(types_: Types, said: Any, path: str) -> None:
    """NotSupported names the innermost place of what was encoded and does not come back as it was.

    Classes may refuse their own values, or change them each time they are made.
    """
    try:
        if encode(types_, decode(types_, said), path) == said:
            return
        reason = "it would be another"
    except Corrupt as error:
        reason = error.reason
    inner = said["v"] if isinstance(said, dict) and MARK in said else said
    if isinstance(inner, dict):
        for key, one in inner.items():
            check(types_, one, f"{path}.{key}")
    elif isinstance(inner, list):
        for n, one in enumerate(inner):
            check(types_, one, f"{path}[{n}]")
    raise NotSupported(f"storing {path}: it cannot be made again ({reason})")


def _encode_dict(value: dict[Any, Any], inner: Callable[[Any, str], Any]) -> Any:
    if all(type(key) is str and not key.startswith(MARK) for key in value):
        return {key: inner(one, f".{key}") for key, one in value.items()}
    pairs = [[inner(key, f".{key!r}"), inner(one, f".{key!r}")] for key, one in value.items()]
    return {MARK: "dict", "v": pairs}


def _encode_object(
    types_: Types, value: Any, path: str, inner: Callable[[Any, str], Any]
) -> dict[str, Any]:
    cls = type(value)
    name = types_.name(cls)
    if name is None:
        raise NotSupported(f"storing a {cls.__module__}.{cls.__qualname__} at {path}", hint=HINT)
    if isinstance(value, Enum):
        return {MARK: "enum", "n": name, "v": value.name}
    if isinstance(value, BaseModel):
        fields = {key: getattr(value, key) for key in type(value).model_fields}
        fields |= value.model_extra or {}
        return {MARK: "model", "n": name, "v": {k: inner(v, f".{k}") for k, v in fields.items()}}
    if dataclasses.is_dataclass(value):
        said = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {MARK: "data", "n": name, "v": {k: inner(v, f".{k}") for k, v in said.items()}}
    try:
        check_whole(value, path)
    except InvalidValue as error:
        raise NotSupported(f"storing {error.field}: {error.reason}") from None
    return {MARK: "said", "n": name, "v": inner(value.to_dict(), "")}


def _encode_event(
    types_: Types, event: Any, path: str, inner: Callable[[Any, str], Any]
) -> dict[str, Any]:
    if event.type != "request_info":
        raise NotSupported(f"storing a workflow event of type {event.type!r} at {path}")
    said = [event.request_id, event.source_executor_id, inner(event.data, ".data")]
    kind = _encode_class(types_, event.response_type, f"{path}.response_type")
    return {MARK: "request", "v": [*said, kind]}


def _encode_class(types_: Types, cls: Any, path: str) -> Any:
    """A class, or what stands where one is expected, by names."""
    if cls is Any:
        return "Any"
    origin, args = typing.get_origin(cls), typing.get_args(cls)
    if origin is not None:
        outer = "Union" if origin in (types.UnionType, typing.Union) else None
        said = outer or _encode_class(types_, origin, path)
        return [said, *(_encode_class(types_, one, path) for one in args)]
    name = types_.name(cls)
    if name is None and cls in _PLAIN.values():
        return cls.__name__
    if name is None:
        raise NotSupported(f"storing the class {cls!r} at {path}", hint=HINT)
    return f"={name}"


def _decode_class(types_: Types, said: Any) -> Any:
    if isinstance(said, list):
        args = tuple(_decode_class(types_, one) for one in said[1:])
        if said[0] == "Union":
            return typing.Union[args]  # noqa: UP007
        return types.GenericAlias(_decode_class(types_, said[0]), args)
    if said == "Any":
        return Any
    return types_.named(said[1:]) if said.startswith("=") else _PLAIN[said]


def _decode_marked(types_: Types, value: dict[str, Any]) -> Any:
    word, said = value[MARK], value["v"]
    if word in _BACK:
        return _BACK[word](said)
    if word in ("tuple", "set", "frozenset"):
        return _PLAIN[word](decode(types_, one) for one in said)
    if word == "dict":
        return {decode(types_, key): decode(types_, one) for key, one in said}
    if word == "class":
        return _decode_class(types_, said)
    if word == "request":
        id, source, data, kind = said
        answer = _decode_class(types_, kind)
        return af.WorkflowEvent.request_info(id, source, decode(types_, data), answer)
    return _decode_object(types_, word, types_.named(value["n"]), said)


def _decode_object(types_: Types, word: str, cls: type[Any], said: Any) -> Any:
    if word == "enum":
        return cls[said]
    fields = decode(types_, said)
    if word == "said":
        return cls.from_dict(fields)
    if word == "model":
        return cls.model_validate(fields, by_name=True)
    if word != "data":
        raise Corrupt("nodes", "checkpoint", word, "no such word")
    known = {f.name: f.init for f in dataclasses.fields(cls)}
    made = cls(**{key: one for key, one in fields.items() if known.get(key)})
    for key, one in fields.items():
        if known.get(key) is False:
            object.__setattr__(made, key, one)
    return made


def _is_storable(cls: object) -> bool:
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls) or issubclass(cls, BaseModel | Enum)
    )


def _text(said: Any) -> bytes:
    return encode_json(said, "set")


_BACK = {word: read for word, _, read in _WORDS.values()}
