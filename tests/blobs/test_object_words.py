"""Urls, and what is made of the answers of stores that are not here."""

from __future__ import annotations

import pytest

from ledgerstone.blobs.object_calls import may_be_plain, parse_address
from ledgerstone.blobs.object_errors import Said, from_store
from ledgerstone.blobs.opening import open_place
from ledgerstone.clock import SystemClock
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.errors import (
    BackendError,
    InvalidValue,
    LedgerstoneError,
    NotSupported,
    ReadOnly,
    StorageFull,
    Timeout,
    Unavailable,
)

CANARY = "canary-in-a-url"


@pytest.mark.parametrize(
    ("url", "label", "prefix"),
    [
        ("s3://bucket", "s3://bucket", ""),
        ("s3://bucket/", "s3://bucket", ""),
        ("s3://my.bucket-1/a/b/", "s3://my.bucket-1", "a/b"),
        ("gs://bucket//a", "gs://bucket", "a"),
        ("az://container/x y/é", "az://container", "x y/é"),
    ],
)
def test_urls(url: str, label: str, prefix: str) -> None:
    address = parse_address(url)
    assert (address.label, address.prefix) == (label, prefix)


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3://x",
        f"s3://key:{CANARY}@bucket/prefix",
        f"s3://bucket/prefix?secret={CANARY}",
        f"s3://bucket/prefix#{CANARY}",
        f"s3://bucket/../{CANARY}",
        f"s3://bucket/./{CANARY}",
        f"s3://bucket/%2e%2e/{CANARY}",
        f"s3://bucket\\{CANARY}/x",
        f"s3://bucket/a\\{CANARY}",
        f"s3://bucket/\n{CANARY}",
        "s3://bucket/" + "x" * 600,
        f"https://user:{CANARY}@example.com/x",
        f"postgres://user:{CANARY}@example.com/x",
        f"memory://{CANARY}",
        "",
        "a\0b",
        "file://",
        "file://host/x",
        7,
        b"bytes",
    ],
)
def test_what_is_no_place(url: object) -> None:
    backend = open_memory(durability=None, clock=SystemClock())
    with pytest.raises(InvalidValue) as caught:
        open_place(backend, url)  # type: ignore[arg-type]
    assert caught.value.field == "blobs"
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "plain"),
    [
        ({}, False),
        ({"AWS_ENDPOINT_URL": "https://store.example"}, False),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}, True),
        ({"AWS_ENDPOINT_URL": "http://localhost"}, True),
        ({"AWS_ENDPOINT": "http://[::1]:9000"}, True),
        ({"AWS_ENDPOINT_URL": "http://store.example", "AWS_ALLOW_HTTP": "true"}, True),
        ({"AWS_ENDPOINT_URL_S3": "https://s.example", "AWS_ENDPOINT": "http://x.example"}, False),
    ],
)
def test_encryption(environment: dict[str, str], plain: bool) -> None:
    assert may_be_plain(environment) is plain


@pytest.mark.parametrize(
    "endpoint",
    ["http://store.example", "HTTP://10.0.0.1:9000", "http://localhost.example", "http://"],
)
def test_no_encryption_elsewhere(endpoint: str) -> None:
    with pytest.raises(InvalidValue, match="AWS_ENDPOINT_URL_S3"):
        may_be_plain({"AWS_ENDPOINT_URL_S3": endpoint})


def answer(status: int, code: str = "") -> Exception:
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>{CANARY}</AWSAccessKeyId></Error>"
    return OSError(f"Server returned non-2xx status code: {status} Text: {body}")


@pytest.mark.parametrize(
    ("call", "error", "expected", "text"),
    [
        ("put", answer(404, "NoSuchBucket"), InvalidValue, "no bucket 'b'"),
        ("put", FileNotFoundError(CANARY), InvalidValue, "no bucket 'b'"),
        ("get", answer(404, "ContainerNotFound"), InvalidValue, "no bucket 'b'"),
        ("put", answer(403, "AccessDenied"), ReadOnly, "grant s3:PutObject"),
        ("delete", answer(403, ""), ReadOnly, "grant s3:DeleteObject"),
        ("get", answer(403, "AccessDenied"), NotSupported, "grant s3:GetObject"),
        ("get", answer(403, "ExpiredToken"), InvalidValue, "AWS_ACCESS_KEY_ID"),
        ("put", answer(401), InvalidValue, "credentials are not accepted (401)"),
        ("put", answer(301, "PermanentRedirect"), InvalidValue, "AWS_REGION"),
        ("put", answer(400, "AuthorizationHeaderMalformed"), InvalidValue, "AWS_REGION"),
        ("put", answer(400, "InvalidRequest"), BackendError, "put on s3://b failed: 400 Inv"),
        ("put", answer(507, "InsufficientStorage"), StorageFull, "no space"),
        ("put", answer(501, "NotImplemented"), NotSupported, "put on s3://b (501 NotImpl"),
        ("put", answer(503, "SlowDown"), Unavailable, "put on s3://b failed: 503 SlowDown"),
        ("get", answer(429), Unavailable, "429"),
        ("get", OSError("kind: Timeout"), Timeout, "no answer in time"),
        ("get", OSError(f"error sending request {CANARY}"), Unavailable, "no connection"),
        ("put", OSError("PUT http://169.254.169.254/latest/api"), Unavailable, "no credentials"),
    ],
)
def test_answers(call: str, error: Exception, expected: type[LedgerstoneError], text: str) -> None:
    ours = from_store(Said(error), call, "s3://b", "b")
    assert type(ours) is expected
    assert text in str(ours)
    assert CANARY not in str(ours)


@pytest.mark.parametrize(
    ("scheme", "variables"),
    [
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": f"{{{CANARY}"}),
        ("az", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCOUNT_KEY": f"{CANARY}!"}),
        ("az", {}),
    ],
)
def test_credentials_that_can_not_be_read(
    scheme: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    backend = open_memory(durability=None, clock=SystemClock())
    with pytest.raises(InvalidValue, match="cannot be opened; check the") as caught:
        open_place(backend, f"{scheme}://bucket/prefix")
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None
