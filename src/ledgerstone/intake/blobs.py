"""Bytes as callers hand them in: in memory, a file, a stream; and which blobs messages name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import IO, Any, TypeAlias

from ledgerstone import ids
from ledgerstone.codec import is_sha256
from ledgerstone.errors import InvalidValue
from ledgerstone.records.artifacts import Artifact
from ledgerstone.records.blobs import CHUNK_BYTES, Attachment, BlobRef
from ledgerstone.records.messages import MessageBody, unnamed_message
from ledgerstone.records.parts import AnyPart, Media, Text, ToolResult, read_result

Ref: TypeAlias = str | BlobRef | Artifact | Attachment
Data: TypeAlias = bytes | bytearray | memoryview | os.PathLike[str] | IO[bytes] | Iterable[bytes]

_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+( *;.*)?", re.ASCII)
_MEDIA = frozenset(("file", "image", "audio", "video"))
_TOOL_RESULT = "tool-result"
CHANGED = "changed while it was read"


def ref_of(value: Ref | object, field: str = "ref") -> str:
    """The name of a blob, given by itself or by a record that names one."""
    if isinstance(value, BlobRef | Artifact):
        value = value.ref
    elif isinstance(value, Attachment):
        value = value.id
    if isinstance(value, bytes | bytearray | memoryview):
        raise InvalidValue(field, "the name of a blob expected: store the bytes with blobs.put")
    return ids.check_id(value, field)


def known_ref(value: Any, field: str) -> str:
    """A SHA-256 in hex, as text or from a record."""
    ref = ref_of(value, field)
    if not is_sha256(ref):
        raise InvalidValue(field, f"a SHA-256 in hex expected, got {ref!r:.70}")
    return ref


def media_type(value: str | None) -> str | None:
    """type/subtype, perhaps with parameters."""
    if value is None:
        return None
    if not _MEDIA_TYPE.fullmatch(ids.check_id(value, "media_type")):
        raise InvalidValue("media_type", f"type/subtype expected, got {value!r:.40}")
    return value


def pieces(data: Data) -> Iterator[bytes]:
    """The bytes of a source in pieces, none larger than CHUNK_BYTES unless the caller's own are.

    InvalidValue for what is no source, and for a file that changes while it is read.
    """
    source: Any = data
    view = _view(data)
    if view is not None:
        return (bytes(view[at : at + CHUNK_BYTES]) for at in range(0, len(view), CHUNK_BYTES))
    if isinstance(data, os.PathLike):
        return _of_path(data)
    if callable(getattr(data, "read", None)):
        return _of_file(data)
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        return (check_piece(piece) for piece in source)
    raise InvalidValue("data", f"bytes, a Path or a stream expected, got {type(data).__name__}")


def in_memory(data: object) -> bool:
    return _view(data) is not None


def measure(data: Any) -> str | None:
    """The SHA-256 of bytes that can be read twice, which they are then; None for other streams."""
    digest = sha256()
    view = _view(data)
    if view is not None:
        digest.update(view)
    elif isinstance(data, os.PathLike):
        for piece in _of_path(data):
            digest.update(piece)
    elif _is_seekable(data):
        start = data.tell()
        for piece in _of_file(data):
            digest.update(piece)
        data.seek(start)
    else:
        return None
    return digest.hexdigest()


def check_piece(piece: Any) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, bytearray | memoryview):
        return bytes(piece)
    if isinstance(piece, str):
        raise InvalidValue("data", "text was read: open it in binary mode, or encode it")
    raise InvalidValue("data", f"pieces of bytes expected, got {type(piece).__name__}")


def named_blobs(body: MessageBody) -> list[str]:
    """What the key `blob` of media parts names, whatever it looks like; other parts name none.

    The text and media that a tool answered with are parts too; any other answer is a value.
    """
    found: list[str] = []
    for part in body.parts:
        if type(part) is not Text:
            _add_named(part, found)
    return found


def _add_named(part: AnyPart, found: list[str]) -> None:
    content = None
    if isinstance(part, ToolResult):
        ref, content = None, part.content
    elif isinstance(part, Media):
        ref = part.blob
    elif isinstance(part, dict):
        kind = part.get("type")
        ref = part.get("blob") if kind in _MEDIA else None
        content = part.get("content") if kind == _TOOL_RESULT else None
    else:
        return
    if isinstance(ref, str):
        found.append(ref)
    for inner in read_result(content) or ():
        _add_named(inner, found)


def all_named(bodies: Iterable[MessageBody]) -> tuple[str, ...]:
    """The blobs of several messages, each once."""
    found: dict[str, None] = {}
    for body in bodies:
        for ref in named_blobs(body):
            found[ref] = None
    return tuple(found)


def blobs_of_patch(fields: dict[str, Any]) -> list[str]:
    """The blobs that the changed fields of a message name."""
    if not fields.get("parts"):
        return []
    return named_blobs(unnamed_message("user", parts=fields["parts"]).body)


def _view(data: object) -> memoryview | None:
    """A view of bytes in memory; None for anything else."""
    if isinstance(data, str):
        raise InvalidValue("data", "text is no bytes: give bytes, or a Path to read a file")
    try:
        view = memoryview(data)  # type: ignore[arg-type]
    except TypeError:
        return None
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def _is_seekable(data: Any) -> bool:
    seekable = getattr(data, "seekable", None)
    return callable(getattr(data, "read", None)) and callable(seekable) and seekable() is True


@contextmanager
def _readable(path: os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidValue("data", f"{os.fspath(path)}: {reason}") from error


def _of_path(path: os.PathLike[str]) -> Iterator[bytes]:
    from pathlib import Path  # Here: most programs never hand in a file.

    with _readable(path), Path(path).open("rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        size = 0
        while piece := file.read(CHUNK_BYTES):
            size += len(piece)
            yield piece
        after = os.fstat(file.fileno())
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        # A pipe or a device has no size of its own.
        if not same or (before.st_size and size != before.st_size):
            raise InvalidValue("data", CHANGED)


def _of_file(file: Any) -> Iterator[bytes]:
    while True:
        piece = file.read(CHUNK_BYTES)
        if hasattr(piece, "__await__"):
            getattr(piece, "close", lambda: None)()
            raise InvalidValue("data", "this stream is async: put it with an AsyncStore")
        if not check_piece(piece):
            return
        yield check_piece(piece)
