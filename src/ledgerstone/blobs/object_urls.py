"""What a url says about an object store, and whether it may be spoken to without encryption."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from ledgerstone.errors import InvalidValue

PREFIX_CHARS_MAX = 512
S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_FORM = "give s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_YES = ("1", "true", "yes", "on")


class Address(msgspec.Struct, frozen=True):
    """Where objects go. The label is what errors say: never more than scheme and bucket."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def label(self) -> str:
        return f"{self.scheme}://{self.bucket}"


def parse(url: str) -> Address:
    """The parts of a url; InvalidValue, which does not repeat it: it may hold a secret."""
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    if "@" in bucket:
        raise InvalidValue("blobs", "credentials do not belong into a url, but the environment")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidValue("blobs", f"no valid name of a bucket; {_FORM}")
    parts = [part for part in path.split("/") if part]
    if not all(map(_is_plain, parts)) or len(path) > PREFIX_CHARS_MAX:
        raise InvalidValue("blobs", f"no valid prefix; {_FORM}")
    return Address(scheme, bucket, "/".join(parts))


def may_be_plain(environment: Mapping[str, str]) -> bool:
    """Whether http:// is fine for S3: on this machine, or because somebody said so.

    InvalidValue for an endpoint elsewhere without encryption: keys and bytes would be readable
    on the way.
    """
    if environment.get("AWS_ALLOW_HTTP", "").strip().lower() in _YES:
        return True
    for name in S3_ENDPOINTS:
        if not (endpoint := environment.get(name)):
            continue
        if not endpoint.lower().startswith("http://"):
            return False
        if _is_here(endpoint):
            return True
        raise InvalidValue(
            "blobs", f"{name} is http:// to another machine; use https://, or AWS_ALLOW_HTTP=true"
        )
    return False


def _is_plain(part: str) -> bool:
    return part not in (".", "..") and part.isprintable() and not set(part) & set("?#%\\")


def _is_here(endpoint: str) -> bool:
    try:
        host = urlsplit(endpoint).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
