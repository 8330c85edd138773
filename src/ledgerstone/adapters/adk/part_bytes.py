"""A part as bytes, and the rest of it: bytes go where bytes are kept, and are not base64 there."""

from __future__ import annotations

from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

TEXT = "text/plain"
BYTES = "application/octet-stream"
LONE = "surrogatepass"
"""Half a character, which some models give, comes back as it was."""
_ABSENT = types.Part(inline_data=types.Blob(mime_type=BYTES, data=b""))


def packed(part: types.Part) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a part, and all else it says, in JSON."""
    rest: dict[str, Any] = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    if part.inline_data is not None:
        rest["inlineData"].pop("data", None)
        return part.inline_data.data or b"", rest
    if part.text is not None:
        rest["text"] = ""
        return part.text.encode("utf-8", LONE), rest
    if part.file_data is not None:
        uri: str = rest["fileData"].pop("fileUri", "")
        return uri.encode("utf-8", LONE), rest
    raise InputValidationError("Not supported artifact type.")


def unpacked(data: bytes, rest: dict[str, Any], media_type: str | None) -> types.Part:
    """The part again; bytes that another program kept are inline data."""
    if "text" in rest:
        return types.Part.model_validate({**rest, "text": data.decode("utf-8", LONE)})
    if "fileData" in rest:
        return types.Part.model_validate(
            {**rest, "fileData": {**rest["fileData"], "fileUri": data.decode("utf-8", LONE)}}
        )
    part = types.Part.model_validate(rest or {"inlineData": {"mimeType": media_type or BYTES}})
    if part.inline_data is not None:
        part.inline_data.data = data
    return part


def media_type(part: types.Part) -> str | None:
    """What the bytes are; of a reference that is not known before it is followed."""
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return TEXT
    if artifact_util.is_artifact_ref(part):
        return None
    return part.file_data.mime_type if part.file_data else None


def is_absent(part: types.Part) -> bool:
    """Whether it is what a rewind saves in the place of an artifact that was not there before."""
    return part == _ABSENT
