"""Bytes leave a native for blobs before it is stored, and come back when it is read.

What a framework keeps as base64 text inside a message is put as a blob, and the SHA-256 of the
bytes stands in its place. The media part that came of it names the blob, so the commit attaches it
to the session; for bytes deeper inside, as in a tool's result, a file part is added. `extra`
remembers the places, so what merely looks like a reference is never touched on the way back.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ledgerstone import formats
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.errors import InvalidValue
from ledgerstone.formats.media import BLOBS, encoded, holder_of
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import File, Media

Native: TypeAlias = dict[str, Any]
Path: TypeAlias = list[str | int]
Find: TypeAlias = Callable[[Native], tuple[str, int] | None]
"""Where an object holds base64 text, if it does: its key, and where in it the text begins."""


class ExtractedBytes(NamedTuple):
    """A native without its bytes."""

    native: Native
    places: list[list[Any]]
    bytes: dict[str, tuple[bytes, str | None]]
    """The bytes by reference, and what media type they are said to be of."""


def take(native: Native, find: Find) -> ExtractedBytes:
    """Take the bytes out of a native, which itself stays as it is."""
    taken = ExtractedBytes(native, [], {})
    for path, text, kind in list(_texts(native, find, [])):
        decoded = _decoded(text)
        if decoded is None:
            continue
        if not taken.places:
            taken = ExtractedBytes(deepcopy(native), [], {})
        data, alphabet = decoded
        ref = sha256(data).hexdigest()
        holder, key = holder_of(taken.native, path)
        holder[key] = holder[key].removesuffix(text) + ref
        taken.places.append([path, alphabet])
        taken.bytes[ref] = (data, kind)
    return taken


def marked(message: Message, taken: ExtractedBytes) -> Message:
    """The message that was made of what is left, with parts that name the blobs."""
    if not taken.places:
        return message
    parts: list[Any] = list(message.parts)
    media = []
    named = set()
    for n, part in enumerate(parts):
        if isinstance(part, Media) and part.data in taken.bytes and part.blob is None:
            media.append(n)
            named.add(part.data)
            parts[n] = replace(part, blob=part.data, data=None)
    added = [
        File(blob=ref, media_type=kind)
        for ref, (_, kind) in taken.bytes.items()
        if ref not in named
    ]
    extra = {**(message.body.extra or {}), BLOBS: [taken.places, media, len(added)]}
    return replace(message, body=replace(message.body, parts=parts + added, extra=extra))


async def put(store: AnyStore, taken: ExtractedBytes) -> None:
    """Store the bytes, before a commit names them."""
    for data, kind in taken.bytes.values():
        try:
            await of(store.blobs.put(data, media_type=kind))
        except InvalidValue as error:
            # A media type that is none says nothing about the bytes, which are kept all the same.
            if error.field != "media_type":
                raise
            await of(store.blobs.put(data))


async def get(store: AnyStore, messages: Iterable[Message]) -> dict[str, bytes | None]:
    """The bytes of all blobs that messages name; None for those that are gone."""
    refs = dict.fromkeys(ref for one in messages for ref in formats.blobs_of(one))
    return {ref: await of(store.blobs.get(ref)) for ref in refs}


def _texts(value: Any, find: Find, path: Path) -> Iterator[tuple[Path, str, str | None]]:
    """Where base64 text is, the text, and what media type is told beside it."""
    if isinstance(value, dict):
        spot = find(value)
        if spot is not None:
            key, start = spot
            kind = value.get("media_type")
            yield [*path, key], value[key][start:], kind if isinstance(kind, str) else None
        for key, inner in value.items():
            yield from _texts(inner, find, [*path, key])
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from _texts(inner, find, [*path, n])


def _decoded(text: str) -> tuple[bytes, str] | None:
    """The bytes of base64 text and its alphabet; None unless they give the same text again."""
    alphabet = "url" if "-" in text or "_" in text else "std"
    try:
        data = base64.b64decode(text, altchars=b"-_" if alphabet == "url" else None, validate=True)
    except ValueError:
        return None
    return (data, alphabet) if data and encoded(data, alphabet) == text else None
