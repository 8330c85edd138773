"""Directories as they are written in urls."""

from __future__ import annotations

from ledgerstone.errors import InvalidValue

FORM = "write file:///absolute/directory or file:relative/directory"


def is_folder(url: str) -> bool:
    """Whether the url names a directory."""
    return url.startswith("file:")


def folder_path(url: str, field: str = "url") -> str:
    """The directory of a file url: absolute after slashes, as in a browser, else relative."""
    from urllib.parse import unquote

    rest = unquote(url.removeprefix("file:"))
    host = rest.startswith("//") and not rest.startswith("///")
    if not rest.strip("/") or host or "\0" in rest:
        raise InvalidValue(field, FORM)
    return "/" + rest.lstrip("/") if rest.startswith("/") else rest
