"""Object stores by their urls, and their calls over obstore; the only file that knows that library.

Every call has a deadline, few repeats, and errors that tell nothing secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ledgerstone.blobs.object_errors import Said, from_store
from ledgerstone.errors import InvalidValue, LedgerstoneError, NotSupported, StoreClosed

if TYPE_CHECKING:
    from obstore import WritableFile
    from obstore.store import ObjectStore

CONNECT_S = 3.0
REQUEST_S = 60.0
RETRIES_MAX = 3
RETRY_S = 15.0
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 2

PREFIX_CHARS_MAX = 512
S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_FORM = "give s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_YES = ("1", "true", "yes", "on")

T = TypeVar("T")


class Address(msgspec.Struct, frozen=True):
    """Where objects go. The label is what errors say: never more than scheme and bucket."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def label(self) -> str:
        return f"{self.scheme}://{self.bucket}"


class Bucket:
    """One prefix of one bucket."""

    def __init__(self, address: Address, *, request_s: float = REQUEST_S) -> None:
        """Nothing is sent yet. InvalidValue, or NotSupported when obstore is not installed."""
        try:
            import obstore
        except ImportError:
            raise NotSupported(
                f"{address.scheme}:// for blobs", hint="pip install 'ledgerstone[objects]'"
            ) from None
        self._obstore = obstore
        self.address = address
        self._store = _connect(address, request_s)
        # The library's threads do not live on in a forked child, where a call would never end.
        self._process = os.getpid()
        self.probing = False
        """Whether errors shall say that they come from the probe."""

    def put_new(self, path: str, data: bytes) -> bool:
        """Put an object in one piece; False when the name is taken, and nothing was changed."""

        def put() -> bool:
            try:
                self._obstore.put(self._store, path, data, mode="create", use_multipart=False)
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError):
                return False
            return True

        return self._call("put", put)

    def get(self, path: str, first: int, size: int) -> tuple[bytes, int] | None:
        """A part of an object and how long all of it is; None when there is no such object."""

        def get() -> tuple[bytes, int] | None:
            try:
                found = self._obstore.get(
                    self._store, path, options={"range": (first, first + size)}
                )
                return bytes(found.bytes()), found.meta["size"]
            except FileNotFoundError as error:
                if Said(error).no_bucket:
                    raise
                return None
            except self._errors.BaseError as error:
                # Stores refuse a part that begins at the end, which all of an empty object does.
                if Said(error).status != 416:
                    raise
                whole: int = self._obstore.head(self._store, path)["size"]
                if whole > first:
                    raise
                return b"", whole

        return self._call("get", get)

    def delete(self, path: str) -> None:
        """Remove an object; one that is not there is fine."""

        def delete() -> None:
            try:
                self._obstore.delete(self._store, path)
            except FileNotFoundError as error:
                if Said(error).no_bucket:
                    raise

        self._call("delete", delete)

    def begin(self, path: str) -> Parts:
        """Put an object in parts, for what is too large to be held at once."""
        return Parts(self, path)

    @property
    def _errors(self) -> Any:
        return self._obstore.exceptions

    def _open(self, path: str) -> WritableFile:
        return self._obstore.open_writer(
            self._store, path, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
        )

    def _call(self, name: str, function: Callable[[], T]) -> T:
        if os.getpid() != self._process:
            raise StoreClosed("the store was opened before a fork: open it again")
        failure: LedgerstoneError
        try:
            return function()
        except (self._errors.BaseError, FileNotFoundError, OSError, ValueError) as error:
            label, bucket = self.address.label, self.address.bucket
            failure = from_store(Said(error), name, label, bucket, probing=self.probing)
        # Out here, so that the library's error is not carried along as the context of ours.
        raise failure


class Parts:
    """An object on its way in, part by part; it can be seen when all are there."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket = bucket
        self._file = bucket._call("put", lambda: bucket._open(path))

    def write(self, data: bytes) -> None:
        self._bucket._call("put", lambda: self._file.write(data))

    def finish(self) -> None:
        self._bucket._call("put", self._file.close)

    def abort(self) -> None:
        """Tell the store to forget the parts; never raises."""
        # Leaving its block by an error is the library's way to say so.
        error = InterruptedError()
        with suppress(Exception):
            self._file.__exit__(type(error), error, None)


def _connect(address: Address, request_s: float) -> ObjectStore:
    from obstore.store import from_url

    options: Any = {
        "connect_timeout": timedelta(seconds=CONNECT_S),
        "timeout": timedelta(seconds=request_s),
    }
    repeats: Any = {
        "max_retries": RETRIES_MAX,
        "retry_timeout": timedelta(seconds=min(RETRY_S, request_s)),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=2),
            "base": 2,
        },
    }
    config: Any = {}
    if address.scheme == "s3":
        # One by one: not every store deletes in bulk, and those that do say less about errors.
        config = {"disable_bulk_delete": True, "conditional_put": "etag"}
        if may_be_plain(os.environ):
            options["allow_http"] = True
    url = f"{address.label}/{address.prefix}"
    try:
        store: ObjectStore = from_url(
            url, config=config, client_options=options, retry_config=repeats
        )
    except Exception:
        # What it says may hold a part of what it could not read.
        pass
    else:
        return store
    names = {"s3": "AWS_*", "gs": "GOOGLE_*", "az": "AZURE_*"}[address.scheme]
    raise InvalidValue("blobs", f"{address.label} cannot be opened; check the {names} variables")


def parse_address(url: str) -> Address:
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
