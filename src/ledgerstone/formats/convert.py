"""What several formats do alike with parts: media, arguments, results, texts. All of it is pure."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ledgerstone.codec import encode_json, parse_strict
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import (
    AnyPart,
    Audio,
    Code,
    File,
    Image,
    Json,
    Media,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Video,
    read_part,
    read_result,
)

result_parts = read_result
COUNT_BOUND = 1 << 53
ERROR = "error"
EXTRAS = "ledgerstone"
"""The key under which a format's free place holds parts that it cannot express."""

AnyMedia: TypeAlias = File | Image | Audio | Video

_KINDS: dict[str, type[AnyMedia]] = {"image": Image, "audio": Audio, "video": Video}
_SIGNERS = {
    "openai": "openai",
    "openai-chat": "openai",
    "anthropic": "anthropic",
    "adk": "google",
    # Its clients keep each what they like in it, and nobody else can read that.
    "agent-framework": "agent-framework",
}
SHAPES = (KeyError, TypeError, AttributeError, ValueError, IndexError)
_NEEDED: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Reasoning: ("text",),
    ToolCall: ("id", "name"),
    ToolResult: ("call_id",),
    Code: ("code",),
}
_COMMON = frozenset((Text, Reasoning, ToolCall, ToolResult, File, Image, Audio, Video, Code))
_ONLY_OURS = (Source, Json)
_FREE = frozenset(("arguments", "content", "is_error", "value"))
_THINK, _THOUGHT = "<think>\n", "\n</think>"
_URLSAFE = str.maketrans("+/", "-_")
_STANDARD = str.maketrans("-_", "+/")


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def text_of(holder: dict[str, Any], key: str) -> str | None:
    """The text under a key, if there is one."""
    return text_or_none(holder.get(key))


def count(value: object) -> int:
    """A number of tokens, or nothing."""
    return value if type(value) is int and 0 <= value < COUNT_BOUND else 0


class Blocks(NamedTuple):
    """Content that is a text or a list of blocks, as the messages of providers have it."""

    kind: str
    read_block: Callable[[Any, str], AnyPart]
    """A block said in a role as a part."""
    write_block: Callable[[AnyPart], dict[str, Any]]

    def read(self, content: Any, role: str) -> list[AnyPart]:
        """What is said in a role."""
        if isinstance(content, str):
            return [read_text(content, role)]
        return [part_of(lambda b: self.read_block(b, role), one, self.kind) for one in content]

    def read_answer(self, content: Any, role: str = "tool") -> Any:
        """What a tool answered: blocks in our parts when they can be, anything else as it is."""
        parts = self.read(content, role) if isinstance(content, list) else []
        if parts and all(isinstance(one, Text | Media) for one in parts):
            return result_content(parts)
        return content

    def message(self, role: str, parts: list[AnyPart]) -> dict[str, Any]:
        """A message of other origin: a single text is its content."""
        if len(parts) == 1 and isinstance(parts[0], Text):
            return {"role": role, "content": parts[0].text}
        return {"role": role, "content": list(map(self.write_block, parts))}

    def shown(self, parts: list[AnyPart]) -> tuple[list[dict[str, Any]], list[AnyPart]]:
        """Media as a message of the user, who alone can show them, and the other parts."""
        media: list[AnyPart] = [part for part in parts if isinstance(part, Media)]
        found = [self.message("user", media)] if media else []
        return found, [part for part in parts if not isinstance(part, Media)]


def part_of(read: Callable[[Any], AnyPart], block: Any, kind: str) -> AnyPart:
    """A block as a part; one of unexpected shape is kept verbatim."""
    try:
        return checked(read(block))
    except SHAPES:
        return verbatim(block, kind)


def checked(part: AnyPart) -> AnyPart:
    """The part, if its fields are of the right types: nobody else looks at parts made here."""
    needed = _NEEDED.get(type(part), ())
    for name in getattr(part, "__struct_fields__", ()):
        value = getattr(part, name)
        if name in _FREE or type(value) is str or (value is None and name not in needed):
            continue
        raise TypeError(name)
    return part


def verbatim(block: Any, kind: str) -> dict[str, Any]:
    return {"type": f"{kind}-block", "block": block}


def is_verbatim(part: AnyPart, kind: str) -> bool:
    """Whether it is a block of this very format."""
    return isinstance(part, dict) and part.get("type") == f"{kind}-block" and "block" in part


def other_block(part: AnyPart, kind: str, write_text: Callable[[str], Any]) -> Any:
    """A part that a format cannot express: its own verbatim block, or text."""
    if is_verbatim(part, kind) and isinstance(part, dict):
        return part["block"]
    return write_text(part_as_text(part))


def text_block(text: str) -> dict[str, Any]:
    """Text as most formats spell it."""
    return {"type": "text", "text": text}


def apart(parts: list[AnyPart], kind: str) -> tuple[list[AnyPart], list[AnyPart]]:
    """Parts that a format can express, and those for its free place."""
    extras = [part for part in parts if type(part) not in _COMMON and is_extra(part, kind)]
    return ([part for part in parts if not is_extra(part, kind)] if extras else parts), extras


def media(
    media_type: str | None, *, url: str | None = None, data: str | None = None, **fields: Any
) -> AnyMedia:
    """The part for bytes of a type; a data url is taken apart."""
    if url is not None and data is None:
        url, data, media_type = _opened(url, media_type)
    kind = _KINDS.get((media_type or "").partition("/")[0], File)
    return kind(url=url, data=data, media_type=media_type, **fields)


def image(url: str, detail: str | None = None, media_type: str | None = None) -> Image:
    """An image by its url, which may hold the bytes."""
    place, data, found = _opened(url, media_type)
    return Image(url=place, data=data, media_type=found, detail=detail)


def read_audio(block: Any) -> Audio:
    """The audio of a block as OpenAI spells it."""
    audio = block["input_audio"]
    return Audio(data=audio["data"], media_type=f"audio/{audio['format']}")


def audio_block(part: Audio) -> dict[str, Any]:
    kind = (part.media_type or "audio/wav").partition("/")[2]
    return {"type": "input_audio", "input_audio": {"data": part.data, "format": kind}}


def image_url(part: Image) -> dict[str, Any]:
    """An image as chat completions show it."""
    shown = {"url": as_url(part)}
    return shown if part.detail is None else {**shown, "detail": part.detail}


def read_image_url(shown: Any) -> Image:
    return image(shown["url"], text_or_none(shown.get("detail")))


def as_url(part: Media) -> str:
    """One url for bytes of any kind of reference."""
    if part.data is not None:
        return f"data:{part.media_type or default_type(part)};base64,{part.data}"
    return part.url if part.url is not None else f"blob:{part.blob or ''}"


def default_type(part: Media) -> str:
    kinds = {Image: "image/png", Audio: "audio/wav", Video: "video/mp4"}
    return kinds.get(type(part), "application/octet-stream")


def normalized(part: AnyPart) -> AnyPart:
    """Bytes in the one spelling of base64 that all take; what is none, or of nothing, stays as it
    stands. So does an answer of a tool that only looks like parts. Arguments that are the text of
    an object are the object."""
    if isinstance(part, ToolResult):
        return _normalized_result(part)
    if isinstance(part, ToolCall) and isinstance(part.arguments, str):
        return msgspec.structs.replace(part, arguments=arguments_of(part.arguments))
    if not isinstance(part, Media):
        return part
    if part.data is None:
        named = part.url is not None or part.blob is not None
        return part if named else _builtins(part)
    data = "".join(part.data.split()).translate(_STANDARD)
    data += "=" * (-len(data) % 4)
    try:
        b64decode(data, validate=True)
    except ValueError:
        return _builtins(part)
    # Bits beyond the last byte, which some refuse.
    data = data[:-4] + b64encode(b64decode(data[-4:])).decode()
    return part if data == part.data else msgspec.structs.replace(part, data=data)


def _normalized_result(part: ToolResult) -> ToolResult:
    given = result_parts(part.content) or []
    better = [normalized(one) for one in given]
    if all(one is other for one, other in zip(given, better, strict=True)):
        return part
    is_value = any(isinstance(one, dict) for one in better)
    content = as_text(part.content) if is_value else result_content(better)
    return msgspec.structs.replace(part, content=content)


def _builtins(part: Media) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(part)
    return found


def urlsafe(data: str) -> str:
    """Base64 in the alphabet that pydantic writes bytes in."""
    return data.translate(_URLSAFE)


def standard(data: str) -> str:
    return data.translate(_STANDARD)


def arguments_of(text: Any) -> Any:
    """The arguments of a call, as a value when their text is JSON that says an object."""
    if not isinstance(text, str):
        return text
    try:
        value = parse_strict(text, "arguments")
    except InvalidValue:
        return text
    return value if isinstance(value, dict) else text


def as_text(value: Any) -> str:
    """A value as text: itself, or its JSON."""
    return value if isinstance(value, str) else encode_json(value, "value").decode()


def as_object(arguments: Any) -> dict[str, Any]:
    """The arguments of a call for a format that knows only objects."""
    if isinstance(arguments, dict):
        return arguments
    return {} if arguments is None or arguments == "" else {"arguments": arguments}


def result_content(parts: list[AnyPart]) -> Any:
    """The content of a result made of parts, as it is kept."""
    return [msgspec.to_builtins(one) for one in parts]


def error_of(content: Any) -> tuple[Any, bool]:
    """What a result says, and whether it is an error: an object, or its text, of this one key.

    So formats that have no field for the failure of a tool write it: see `as_error`.
    """
    found = content
    if isinstance(content, str) and content[:1] == "{":
        found = arguments_of(content)
    if isinstance(found, dict) and list(found) == [ERROR]:
        return found[ERROR], True
    return content, False


def as_error(content: Any) -> dict[str, Any]:
    """A failure as an object."""
    return {ERROR: content}


def result_text(content: Any) -> str:
    """What a tool answered, as text; media are named, not shown."""
    parts = result_parts(content)
    if parts is None:
        return as_text(content)
    return "\n".join(map(part_as_text, parts))


def part_as_text(part: AnyPart) -> str:
    """A part as text, for models that cannot be shown it otherwise."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Code):
        return f"```{part.language or ''}\n{part.code}\n```"
    if isinstance(part, Json):
        return as_text(part.value)
    if isinstance(part, Media):
        part = msgspec.structs.replace(part, data=None)
    value = msgspec.to_builtins(part) if isinstance(part, Part) else part
    return encode_json(value, "part").decode()


def write_extras(parts: list[AnyPart]) -> list[Any]:
    """Parts for the free place of a format."""
    return [msgspec.to_builtins(one) if isinstance(one, Part) else one for one in parts]


def read_extras(value: Any) -> list[AnyPart]:
    """Parts from a format's free place; empty if any is of a kind that has no need of it."""
    if not isinstance(value, list):
        return []
    found = [read_part(one) for one in value if isinstance(one, dict)]
    kept = [one for one in found if has_no_equivalent(one) or isinstance(one, Media)]
    return kept if len(kept) == len(value) else []


def has_no_equivalent(part: AnyPart) -> bool:
    if isinstance(part, dict):
        return isinstance(part.get("type"), str)
    return isinstance(part, _ONLY_OURS)


def is_extra(part: AnyPart, kind: str) -> bool:
    """Whether a part must stand in the free place of a format."""
    return type(part) not in _COMMON and has_no_equivalent(part) and not is_verbatim(part, kind)


def signer(message: Message) -> str | None:
    """The provider that can read the signatures of a message; None when nobody said."""
    found = message.body.provider
    if found is None:
        mark = (message.body.extra or {}).get("native")
        return _SIGNERS.get(str(mark[0])) if isinstance(mark, list) and mark else None
    return "google" if found.startswith("google") else found


def tagged_thought(text: str) -> str:
    """Reasoning that its reader did not sign, in the tags that models know."""
    return f"{_THINK}{text}{_THOUGHT}"


def untagged_thought(text: str) -> str | None:
    """The reasoning of a text that is nothing else."""
    if text.startswith(_THINK) and text.endswith(_THOUGHT) and text.count(_THINK) == 1:
        return text[len(_THINK) : -len(_THOUGHT)]
    return None


def read_text(text: str, role: str) -> AnyPart:
    """A text; between the tags of a thought it is one, when the assistant says it."""
    found = untagged_thought(text) if role == "assistant" else None
    return Text(text) if found is None else Reasoning(found)


def joined_text(parts: list[AnyPart]) -> str:
    """Content that is text: texts and thoughts."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return "".join(
        tagged_thought(part.text) if isinstance(part, Reasoning) else part.text
        for part in parts
        if isinstance(part, Reasoning | Text)
    )


def _opened(url: str, media_type: str | None) -> tuple[str | None, str | None, str | None]:
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return url, None, media_type
    return None, data, head[len("data:") : -len(";base64")] or media_type
