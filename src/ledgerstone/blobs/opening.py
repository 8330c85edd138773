"""From what the caller said about bytes to an open place; the only file that knows all of them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ledgerstone.engines.file.urls import folder_path, is_folder
from ledgerstone.errors import InvalidValue

if TYPE_CHECKING:
    from ledgerstone.ports.backend import Backend
    from ledgerstone.ports.blobs import BlobPlace

OBJECT_SCHEMES = ("s3", "gs", "az")
IN_DATABASE = "database:"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""s3:bucket is a url with a slash forgotten, not a directory of that name."""
_KNOWN = "a directory, file:///directory, s3://bucket/prefix, gs://, az:// or database:"


def open_place(
    backend: Backend, url: str | os.PathLike[str] | None, *, read_only: bool = False
) -> BlobPlace:
    """Open the place that was named, or the one that the backend has anyway.

    `read_only`: a directory that is not there is not made, and one that cannot be written is fine.

    InvalidValue for what nobody knows; an object store that cannot do what is needed is
    NotSupported, and what is wrong with a place itself comes from there.
    """
    if url is None:
        folder = backend.capabilities.bytes_folder
        return _directory(folder, read_only) if folder is not None else _database(backend)
    text = _text(url)
    if isinstance(url, os.PathLike):
        return _directory(text, read_only)
    if text == IN_DATABASE:
        return _database(backend)
    if is_folder(text):
        return _directory(folder_path(text, "blobs"), read_only)
    scheme, colon, _ = text.partition("://")
    if not colon and not _SCHEME.match(text):
        return _directory(text, read_only)
    if colon and scheme in OBJECT_SCHEMES:
        from ledgerstone.blobs.objects import open_objects

        return open_objects(text, read_only=read_only)
    # Not the url itself: what is no url of ours may well hold a password.
    raise InvalidValue("blobs", f"unknown scheme; give {_KNOWN}")


def _text(given: object) -> str:
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):
        raise InvalidValue("blobs", f"text or a path expected, got {type(given).__name__}")
    if not text or "\0" in text:
        raise InvalidValue("blobs", f"give {_KNOWN}")
    return text


def _directory(path: str, read_only: bool) -> BlobPlace:
    from ledgerstone.blobs.directory import Directory

    return Directory(path, read_only=read_only)


def _database(backend: Backend) -> BlobPlace:
    from ledgerstone.blobs.database import Database

    return Database(backend)
