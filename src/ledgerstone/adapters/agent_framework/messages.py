"""Messages of the Agent Framework as ours and back: their own exactly, others from their parts."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from agent_framework import Content
from agent_framework import Message as NativeMessage
from msgspec.structs import replace

from ledgerstone.codec import check_json, encode_json
from ledgerstone.errors import InvalidValue
from ledgerstone.formats.keeping import NATIVE, origin
from ledgerstone.formats.remainder import remainder, restored
from ledgerstone.formats.turns import Said, paired, turns
from ledgerstone.records.messages import FOREIGN_ROLES, ROLES, Message, message
from ledgerstone.records.parts import (
    AnyPart,
    Audio,
    Code,
    File,
    Image,
    Json,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Video,
)

FORMAT = "agent-framework"
Native: TypeAlias = dict[str, Any]
_MEDIA: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}
_KINDS = frozenset(
    name.removeprefix("from_")
    for name in dir(Content)
    if name.startswith("from_") and name != "from_dict"
)
"""Kinds of contents that are kept as they are, where our parts have no word for them."""
_JSON = (str, int, float, bool, type(None))


def keep(given: object, path: str) -> Message:
    """One message of theirs as ours; InvalidValue names the place of what can not be stored."""
    if not isinstance(given, NativeMessage):
        raise InvalidValue(path, f"a Message expected, got {type(given).__name__}")
    check_whole(given, path)
    native = given.to_dict()
    check_json(native, path)
    role = native["role"] if native["role"] in (*ROLES, *FOREIGN_ROLES) else "user"
    parts = [_part(one) for one in native.get("contents", ())]
    made = message(role, parts=parts, name=native.get("author_name"))
    edit = remainder(native, _write(made))
    mark = [FORMAT, ""] if edit is None else [FORMAT, "", edit]
    return replace(made, body=replace(made.body, extra={NATIVE: mark}))


def show(path: Sequence[Message]) -> list[NativeMessage]:
    """A conversation as theirs: their own messages exactly, the others from their parts."""
    found: list[NativeMessage] = []
    flags = [origin(one) == FORMAT for one in path]
    whole = zip(paired(path, flags), flags, strict=True)
    for own, group in groupby(whole, lambda pair: pair[1]):
        run = [one for one, _ in group]
        if own:
            found += [_exact(one) for one in run]
        else:
            found += [_rendered(turn) for turn in turns(run)]
    return found


def _exact(stored: Message) -> NativeMessage:
    mark = (stored.body.extra or {})[NATIVE]
    native = restored(_write(stored), mark[2] if len(mark) > 2 else None)
    return NativeMessage.from_dict(native)


def _rendered(turn: list[Said]) -> NativeMessage:
    """What one message of ours says in one role, or several that belong together."""
    contents = [_content(part) for said in turn for part in said.parts]
    name = turn[0].source.body.name
    return NativeMessage(turn[0].role, contents, author_name=name)


def check_whole(value: Any, path: str) -> None:
    """InvalidValue for what `to_dict` would leave out without a word."""
    if isinstance(value, _JSON):
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_whole(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for n, inner in enumerate(value):
            check_whole(inner, f"{path}[{n}]")
    elif callable(getattr(value, "to_dict", None)):
        for key, inner in vars(value).items():
            if not key.startswith("_") and key != "raw_representation":
                check_whole(inner, f"{path}.{key}")
    else:
        raise InvalidValue(path, f"a {type(value).__name__} can not be stored")


def _part(content: Native) -> AnyPart:
    """One content as a part; of a kind that we have no word for, as it is."""
    kind = content.get("type")
    if kind == "text" and isinstance(content.get("text"), str):
        return Text(content["text"])
    if kind == "text_reasoning" and isinstance(content.get("text"), str):
        return Reasoning(content["text"], content.get("protected_data"))
    if kind == "function_call" and isinstance(content.get("call_id"), str):
        return ToolCall(content["call_id"], content.get("name") or "", content.get("arguments"))
    if kind == "function_result" and isinstance(content.get("call_id"), str):
        failed = content.get("exception") is not None
        return ToolResult(content["call_id"], content.get("result"), is_error=failed)
    if kind in ("data", "uri") and isinstance(content.get("uri"), str):
        return _media(content["uri"], content.get("media_type"))
    return {**content, "type": str(kind)}


def _media(uri: str, media_type: Any) -> AnyPart:
    known = media_type if isinstance(media_type, str) else None
    made: type[Any] = _MEDIA.get((known or "").split("/")[0], File)
    head, comma, data = uri.partition(",")
    if comma and head == f"data:{known};base64":
        found: AnyPart = made(data=data, media_type=known)
        return found
    other: AnyPart = made(url=uri, media_type=known)
    return other


def _write(stored: Message) -> Native:
    found: Native = {"type": "message", "role": stored.body.origin_role or stored.role}
    found["contents"] = [_content(part) for part in stored.parts]
    if stored.body.name is not None:
        found["author_name"] = stored.body.name
    return {**found, "additional_properties": {}}


def _content(part: AnyPart) -> Native:
    """A part as a content; what they have no word for is told as text."""
    said: Native
    if isinstance(part, dict):
        return part if part.get("type") in _KINDS else _text(encode_json(part, "part").decode())
    if isinstance(part, Text):
        return _text(part.text)
    if isinstance(part, Reasoning):
        said = {"type": "text_reasoning", "text": part.text}
        if part.signature is not None:
            said["protected_data"] = part.signature
    elif isinstance(part, ToolCall):
        said = {"type": "function_call", "call_id": part.id, "name": part.name}
        said |= {"arguments": part.arguments, "hosted": False}
    elif isinstance(part, ToolResult):
        said = _result(part)
    elif isinstance(part, Media):
        return _from_media(part)
    elif isinstance(part, Json):
        return _text(encode_json(part.value, "value").decode())
    else:
        return _text(part.code if isinstance(part, Code) else part.text or part.url or "")
    return {**said, "additional_properties": {}}


def _text(text: str) -> Native:
    return {"type": "text", "text": text, "additional_properties": {}}


def _result(part: ToolResult) -> Native:
    content = part.content
    said: Native = {"type": "function_result", "call_id": part.call_id, "result": content}
    if isinstance(content, str):
        said["items"] = [_text(content)]
    if part.is_error:
        said["exception"] = content if isinstance(content, str) else "failed"
    return said


def _from_media(part: Media) -> Native:
    if part.data is not None:
        kind = part.media_type or "application/octet-stream"
        said: Native = {"type": "data", "uri": f"data:{kind};base64,{part.data}"}
    else:
        said = {"type": "uri", "uri": part.url or f"blob:{part.blob}"}
    if part.media_type is not None:
        said["media_type"] = part.media_type
    return {**said, "additional_properties": {}}


def with_bytes(stored: Message, known: Mapping[str, bytes]) -> Message:
    """The message with the bytes of its blobs inside, as a model is given them."""
    parts: list[Any] = [
        replace(part, data=base64.b64encode(known[part.blob]).decode(), blob=None)
        if isinstance(part, Media) and part.blob is not None and part.blob in known
        else part
        for part in stored.parts
    ]
    return replace(stored, body=replace(stored.body, parts=parts))


def blobs_of(messages: Sequence[Message]) -> set[str]:
    """The blobs that parts of messages name."""
    return {
        part.blob
        for one in messages
        for part in one.parts
        if isinstance(part, Media) and part.blob is not None
    }
