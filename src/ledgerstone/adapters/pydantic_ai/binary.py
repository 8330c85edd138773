"""Bytes leave a native for blobs before it is stored, and come back when it is read.

What pydantic-ai keeps as base64 text inside a message is put as a blob, and the SHA-256 of the
bytes stands in its place. The media part that came of it names the blob, so the commit attaches it
to the session; for bytes deeper inside, as in a tool's result, a file part is added. `extra`
remembers the places, so what merely looks like a reference is never touched on the way back.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from ledgerstone import formats
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.errors import BlobNotFound, InvalidValue
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import File, Media

BLOBS = "blobs"
"""The place in `extra`: [[[path, alphabet], ...], numbers of media parts, number of added ones]."""

Native: TypeAlias = dict[str, Any]
Path: TypeAlias = list[str | int]


async def keep(store: AnyStore, format: str, native: Native, **fields: Any) -> Message:
    """As formats.keep, with the bytes in blobs. `native` is the caller's no more: it is changed."""
    places: list[list[Any]] = []
    refs: dict[str, str | None] = {}
    for path, holder in list(_holders(native, [])):
        decoded = _decoded(holder["data"])
        if decoded is None:
            continue
        data, alphabet = decoded
        media_type = holder.get("media_type")
        holder["data"] = await _put(store, data, media_type)
        refs[holder["data"]] = media_type if isinstance(media_type, str) else None
        places.append([path, alphabet])
    message = formats.keep(format, native, **fields)
    return _marked(message, places, refs) if places else message


async def native(store: AnyStore, format: str, stored: Message) -> Native:
    """The very native that a message was made of, with its bytes; BlobNotFound."""
    mark = (stored.body.extra or {}).get(BLOBS)
    if mark is None:
        return formats.native(format, [stored])[0]
    places, media, added = mark
    parts: list[Any] = list(stored.parts[: len(stored.parts) - added])
    for n in media:
        parts[n] = replace(parts[n], data=parts[n].blob, blob=None)
    whole = replace(stored, body=replace(stored.body, parts=parts))
    found = formats.native(format, [whole])[0]
    for path, alphabet in places:
        holder: Any = found
        for step in path:
            holder = holder[step]
        data = await of(store.blobs.get(holder["data"]))
        if data is None:
            raise BlobNotFound(holder["data"])
        holder["data"] = _encoded(data, alphabet)
    return found


async def inline(store: AnyStore, messages: Sequence[Message]) -> list[Message]:
    """Messages of other origins with the bytes of their blobs inside, as a model is given them."""
    return [
        replace(one, body=replace(one.body, parts=[await _inline(store, p) for p in one.parts]))
        if any(isinstance(part, Media) and part.blob for part in one.parts)
        else one
        for one in messages
    ]


async def _inline(store: AnyStore, part: Any) -> Any:
    if not isinstance(part, Media) or part.blob is None or part.data is not None:
        return part
    data = await of(store.blobs.get(part.blob))
    return part if data is None else replace(part, blob=None, data=_encoded(data, "std"))


def _marked(message: Message, places: list[list[Any]], refs: dict[str, str | None]) -> Message:
    """The message whose parts name the blobs."""
    parts: list[Any] = list(message.parts)
    media = []
    named = set()
    for n, part in enumerate(parts):
        if isinstance(part, Media) and part.data in refs and part.blob is None:
            media.append(n)
            named.add(part.data)
            parts[n] = replace(part, blob=part.data, data=None)
    added = [File(blob=ref, media_type=kind) for ref, kind in refs.items() if ref not in named]
    extra = {**(message.body.extra or {}), BLOBS: [places, media, len(added)]}
    body = replace(message.body, parts=parts + added, extra=extra)
    return replace(message, body=body)


def _holders(value: Any, path: Path) -> Iterator[tuple[Path, Native]]:
    """The objects with base64 text in them, and where they are."""
    if isinstance(value, dict):
        if value.get("kind") == "binary" and isinstance(value.get("data"), str):
            yield path, value
        for key, inner in value.items():
            yield from _holders(inner, [*path, key])
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from _holders(inner, [*path, n])


def _decoded(text: str) -> tuple[bytes, str] | None:
    """The bytes of base64 text and its alphabet; None unless they give the same text again."""
    alphabet = "url" if "-" in text or "_" in text else "std"
    try:
        data = base64.b64decode(text, altchars=_chars(alphabet), validate=True)
    except ValueError:
        return None
    return (data, alphabet) if data and _encoded(data, alphabet) == text else None


def _encoded(data: bytes, alphabet: str) -> str:
    return base64.b64encode(data, altchars=_chars(alphabet)).decode()


def _chars(alphabet: str) -> bytes | None:
    return b"-_" if alphabet == "url" else None


async def _put(store: AnyStore, data: bytes, media_type: object) -> str:
    known = media_type if isinstance(media_type, str) else None
    try:
        return (await of(store.blobs.put(data, media_type=known))).ref
    except InvalidValue as error:
        # A media type that is none says nothing about the bytes, which are kept all the same.
        if error.field != "media_type":
            raise
        return (await of(store.blobs.put(data))).ref
