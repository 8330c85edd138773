"""The parts of an event's content: text, thoughts, calls, responses, bytes, code."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.records.parts import AnyPart, Code, Media, Reasoning, Text, ToolCall, ToolResult

KIND = "adk"
RESULT = "result"
"""The key under which a response holds a result that is no object."""


def read_part_of(part: Any) -> AnyPart:
    """One part; ValueError and its like for one that is not known."""
    if isinstance(part.get("text"), str):
        return _text(part)
    if "functionCall" in part:
        call = part["functionCall"]
        return ToolCall(call.get("id") or "", call["name"], call.get("args"))
    if "functionResponse" in part:
        return _result(part["functionResponse"])
    if "inlineData" in part:
        inline = part["inlineData"]
        data = convert.standard(inline["data"])
        return convert.media(inline["mimeType"], data=data, name=_name(inline))
    if "fileData" in part:
        file = part["fileData"]
        kind = convert.text_of(file, "mimeType")
        found = convert.media(kind, url=file["fileUri"], name=_name(file))
        if found.url is not None:
            return found
    if "executableCode" in part:
        code = part["executableCode"]
        return Code(code["code"], convert.text_of(code, "language"))
    raise ValueError("unknown")


def _text(part: Any) -> AnyPart:
    if part.get("thought") is not True:
        return Text(part["text"])
    signature = convert.text_of(part, "thoughtSignature")
    return Reasoning(part["text"], None if signature is None else convert.standard(signature))


def _name(found: Any) -> str | None:
    return convert.text_of(found, "displayName")


def _result(answer: Any) -> ToolResult:
    content, failed = convert.error_of(answer.get("response"))
    if not failed and isinstance(content, dict) and list(content) == [RESULT]:
        content = content[RESULT]
    media = answer.get("parts")
    if isinstance(media, list) and media:
        shown = [convert.part_of(read_part_of, one, KIND) for one in media]
        if all(isinstance(one, Media) for one in shown) and (
            content is None or isinstance(content, str)
        ):
            first: list[AnyPart] = [Text(content)] if content else []
            content = convert.result_content([*first, *shown])
    return ToolResult(answer.get("id") or "", content, answer["name"], failed)


def write_part(part: AnyPart) -> Any:
    """A part as an event has it."""
    match part:
        case Text():
            return {"text": part.text}
        case Reasoning():
            found: Native = {"text": part.text, "thought": True}
            if part.signature is not None:
                found["thoughtSignature"] = convert.urlsafe(part.signature)
            return found
        case ToolCall():
            call = {"id": part.id} if part.id else {}
            return {"functionCall": {**call, "args": part.arguments, "name": part.name}}
        case ToolResult():
            return {"functionResponse": _response(part)}
        case Code() if part.language in (None, "PYTHON"):
            return {"executableCode": {"code": part.code, "language": "PYTHON"}}
    if isinstance(part, Media):
        return _bytes(part)
    return convert.other_block(part, KIND, lambda text: {"text": text})


def _response(part: ToolResult) -> Native:
    content = part.content
    parts = convert.result_parts(content)
    found: Native = {}
    if parts is not None and any(isinstance(one, Media) for one in parts):
        found["parts"] = [_bytes(one) for one in parts if isinstance(one, Media)]
        content = "\n".join(one.text for one in parts if isinstance(one, Text))
    if part.call_id:
        found["id"] = part.call_id
    if part.is_error:
        answer = convert.as_error(content)
    elif isinstance(content, dict) and list(content) not in (["error"], [RESULT]):
        answer = content
    else:
        answer = {RESULT: content}
    return {**found, "name": part.name, "response": answer}


def _bytes(part: Media) -> Native:
    named = {} if part.name is None else {"displayName": part.name}
    kind = part.media_type
    if part.data is not None:
        kind = kind or convert.default_type(part)
        return {"inlineData": {"data": convert.urlsafe(part.data), **named, "mimeType": kind}}
    found = {**named, "fileUri": convert.as_url(part)}
    return {"fileData": {**found, "mimeType": kind or convert.default_type(part)}}


def is_signature(text: str) -> bool:
    """Whether a signature is bytes, as Google's are."""
    try:
        base64.b64decode(convert.standard(text), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
