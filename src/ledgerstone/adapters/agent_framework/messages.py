"""Messages of the Agent Framework as ours and back: their own exactly, others from their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from agent_framework import Content
from agent_framework import Message as NativeMessage
from msgspec.structs import replace

from ledgerstone import formats
from ledgerstone.adapters import native_bytes
from ledgerstone.adapters.native_bytes import ExtractedBytes, Native
from ledgerstone.codec import DEPTH_MAX, check_json, encode_json
from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert, media
from ledgerstone.formats.natives import NATIVE, origin
from ledgerstone.formats.remainder import remainder, restored
from ledgerstone.formats.turns import Segment, paired, turns
from ledgerstone.records.messages import FOREIGN_ROLES, ROLES, Message, unnamed_message
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
SHOWING = "i"
"""The style of a message with results that show media, whose items are parts."""
_MEDIA: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}
_KINDS = frozenset(
    name.removeprefix("from_")
    for name in dir(Content)
    if name.startswith("from_") and name != "from_dict"
)
"""Kinds of contents that are kept as they are, where our parts have no word for them."""
_JSON = (str, int, float, bool, type(None))


def keep(given: object, path: str) -> tuple[Message, ExtractedBytes]:
    """One message of theirs as ours, and the bytes that were in it, to be put before it.

    InvalidValue names the place of what cannot be stored.
    """
    if not isinstance(given, NativeMessage):
        raise InvalidValue(path, f"a Message expected, got {type(given).__name__}")
    check_whole(given, path)
    whole = given.to_dict()
    check_json(whole, path)
    taken = native_bytes.take(whole, _data)
    native = taken.native
    role = native["role"] if native["role"] in (*ROLES, *FOREIGN_ROLES) else "user"
    parts = [_part(one) for one in native.get("contents", ())]
    made = unnamed_message(role, parts=parts, name=native.get("author_name"))
    style = SHOWING if any(_shows(part) for part in parts) else ""
    edit = remainder(native, _write(made, style))
    mark = [FORMAT, style] if edit is None else [FORMAT, style, edit]
    kept = replace(made, body=replace(made.body, extra={NATIVE: mark}))
    return native_bytes.marked(kept, taken), taken


def show(path: Sequence[Message], known: Mapping[str, bytes | None]) -> list[NativeMessage]:
    """A conversation as theirs: their own messages exactly, the others from their parts.

    `known` are the bytes that the messages name; BlobNotFound.
    """
    found: list[NativeMessage] = []
    # What was amended since does not say any more what it said to this framework.
    flags = [origin(one) == FORMAT and not one.version for one in path]
    whole = zip(paired(path, flags), flags, strict=True)
    for own, group in groupby(whole, lambda pair: pair[1]):
        run = [one for one, _ in group]
        if own:
            found += [_exact(one, known) for one in run]
        else:
            inside = [formats.with_bytes(one, known) for one in run]
            shown = [_rendered(turn) for turn in turns(inside)]
            found += [one for one in shown if one.contents]
    return found


def calls(path: Sequence[Message]) -> list[tuple[str, str | None, str]]:
    """Calls and results in messages: the kind of content, the framework's id, the provider's."""
    found = []
    for one in path:
        if any(isinstance(part, ToolCall | ToolResult) for part in one.parts):
            native = _native(one) if origin(one) == FORMAT and not one.version else _write(one)
            for said in native["contents"]:
                is_one = said.get("type") in ("function_call", "function_result")
                if is_one and isinstance(said.get("call_id"), str):
                    found.append((said["type"], said.get("id"), said["call_id"]))
    return found


def _exact(stored: Message, known: Mapping[str, bytes | None]) -> NativeMessage:
    native = _native(stored)
    media.fill(native, stored, known)
    return NativeMessage.from_dict(native)


def _native(stored: Message) -> Native:
    """What a message was made of, with references in the place of bytes."""
    mark = (stored.body.extra or {})[NATIVE]
    made = _write(media.with_refs(stored), mark[1])
    native: Native = restored(made, mark[2] if len(mark) > 2 else None)
    return native


def _rendered(turn: list[Segment]) -> NativeMessage:
    """What one message of ours says in one role, or several that belong together."""
    contents = [
        content
        for segment in turn
        for part in segment.parts
        if (content := _shown(part, own=origin(segment.source) == FORMAT)) is not None
    ]
    name = turn[0].source.body.name
    return NativeMessage(turn[0].role, contents, author_name=name)


def _shown(part: AnyPart, *, own: bool) -> Content | None:
    """A part as a content that chat clients can send, not only hold: they send results as text and
    items, arguments as objects, media by their type, and read signatures each in its own way."""
    if isinstance(part, Reasoning) and not own:
        return Content.from_text(convert.tagged_thought(part.text)) if part.text else None
    if isinstance(part, ToolCall):
        given = part.arguments
        arguments = given if isinstance(given, str | dict) else convert.as_object(given)
        return Content.from_function_call(part.id, part.name, arguments=arguments)
    if isinstance(part, ToolResult):
        return _shown_result(part)
    if isinstance(part, Media):
        said = _from_media(replace(part, media_type=part.media_type or convert.default_type(part)))
        named = {} if part.name is None else {"filename": part.name}
        return Content.from_dict({**said, "additional_properties": named})
    if own and isinstance(part, dict | Reasoning):
        with suppress(TypeError, ValueError):  # Who amended it may have put anything there.
            return Content.from_dict(_content(part))
    text = part.text if isinstance(part, Text) else convert.part_as_text(part)
    return Content.from_text(text)


def _shown_result(part: ToolResult) -> Content:
    parts = convert.result_parts(part.content)
    found = [_shown(one, own=False) for one in parts or ()]
    result: Any = [one for one in found if one is not None]
    if parts is None:
        result = "" if part.content is None else convert.as_text(part.content)
    failure = "failed" if part.is_error else None
    return Content.from_function_result(part.call_id, result=result, exception=failure)


def check_whole(value: Any, path: str, depth: int = 0) -> None:
    """InvalidValue for what `to_dict` would leave out without a word, or find no end of."""
    if isinstance(value, _JSON):
        return
    if depth > DEPTH_MAX:
        raise InvalidValue(path, "it is nested too deeply")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_whole(inner, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for n, inner in enumerate(value):
            check_whole(inner, f"{path}[{n}]", depth + 1)
    elif callable(getattr(value, "to_dict", None)):
        for key, inner in vars(value).items():
            if not key.startswith("_") and key != "raw_representation":
                check_whole(inner, f"{path}.{key}", depth + 1)
    else:
        raise InvalidValue(path, f"a {type(value).__name__} cannot be stored")


def _data(holder: Native) -> tuple[str, int] | None:
    """Where the base64 text of a data content is."""
    uri = holder.get("uri")
    if holder.get("type") != "data" or not isinstance(uri, str):
        return None
    head, comma, _ = uri.partition(",")
    is_one = head.startswith("data:") and head.endswith(";base64") and comma
    return ("uri", len(head) + 1) if is_one else None


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
        return ToolResult(content["call_id"], _answer(content), is_error=failed)
    if kind in ("data", "uri") and isinstance(content.get("uri"), str):
        return _media(content["uri"], content.get("media_type"))
    return {**content, "type": str(kind)}


def _answer(content: Native) -> Any:
    """What a tool answered: its text, or parts when it showed more than that."""
    items = content.get("items")
    parts = [_part(one) for one in items or () if isinstance(one, dict)]
    shown = [one for one in parts if isinstance(one, Text | Media)]
    if len(shown) < len(items or ()) or not any(isinstance(one, Media) for one in shown):
        return content.get("result")
    return convert.result_content(parts)


def _shows(part: AnyPart) -> bool:
    return isinstance(part, ToolResult) and convert.result_parts(part.content) is not None


def _media(uri: str, media_type: Any) -> AnyPart:
    known = media_type if isinstance(media_type, str) else None
    made: type[Any] = _MEDIA.get((known or "").split("/")[0], File)
    head, comma, data = uri.partition(",")
    if comma and head == f"data:{known};base64":
        found: AnyPart = made(data=data, media_type=known)
        return found
    other: AnyPart = made(url=uri, media_type=known)
    return other


def _write(stored: Message, style: str = "") -> Native:
    """What stored edits were made against: for a style it never changes (stored_messages.jsonl)."""
    found: Native = {"type": "message", "role": stored.body.origin_role or stored.role}
    found["contents"] = [_content(part, style) for part in stored.parts]
    if stored.body.name is not None:
        found["author_name"] = stored.body.name
    return {**found, "additional_properties": {}}


def _content(part: AnyPart, style: str = "") -> Native:
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
        said = _result(part, style)
    elif isinstance(part, Media):
        return _from_media(part)
    elif isinstance(part, Json):
        return _text(encode_json(part.value, "value").decode())
    else:
        return _text(part.code if isinstance(part, Code) else part.text or part.url or "")
    return {**said, "additional_properties": {}}


def _text(text: str) -> Native:
    return {"type": "text", "text": text, "additional_properties": {}}


def _result(part: ToolResult, style: str) -> Native:
    content = part.content
    parts = convert.result_parts(content) if SHOWING in style else None
    if parts is not None:
        content = "\n".join(one.text for one in parts if isinstance(one, Text) and one.text)
    said: Native = {"type": "function_result", "call_id": part.call_id, "result": content}
    if parts is not None:
        said["items"] = [_content(one) for one in parts]
    elif isinstance(content, str):
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
