"""What an object store says, as what the caller can do about it.

The texts of the library below hold whole requests and answers, with names of keys and sometimes
with access keys. So they are not passed on, neither as text nor as cause: what is taken from them
is the status, the store's own one-word code and the kind of failure.
"""

from __future__ import annotations

import re

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

GRANTS = {
    "put": "s3:PutObject",
    "get": "s3:GetObject and s3:ListBucket",
    "delete": "s3:DeleteObject",
}
"""What a call needs where rights are called as S3 calls them."""

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,64})</Code>")
_METADATA = re.compile(r"169\.254\.\d+\.\d+|fd00:ec2::|metadata\.google")
_TIMEOUT = re.compile(r"kind: Timeout|TimedOut|operation timed out")
_NOT_KNOWN = (
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
)
_REGION = (
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
)


class Said:
    """What could be taken from an error of the library."""

    def __init__(self, error: BaseException) -> None:
        text = str(error)
        self.kind = type(error).__name__
        status, code = _STATUS.search(text), _CODE.search(text)
        self.status = int(status[1]) if status else 0
        self.code = code[1] if code else ""
        self.metadata = bool(_METADATA.search(text))
        self.timeout = bool(_TIMEOUT.search(text))

    def __str__(self) -> str:
        if self.status:
            return f"{self.status} {self.code}".strip()
        return self.code or ("no answer in time" if self.timeout else "no connection")

    @property
    def no_bucket(self) -> bool:
        return self.code in ("NoSuchBucket", "ContainerNotFound")

    @property
    def denied(self) -> bool:
        named = self.kind in ("PermissionDeniedError", "UnauthenticatedError")
        return named or self.status in (401, 403)


def from_store(
    said: Said, call: str, label: str, bucket: str, *, probing: bool = False
) -> LedgerstoneError:
    """One error of the store as one of ours; `call` is put, get or delete."""
    where = f"{'probe: ' if probing else ''}{call} on {label}"
    if said.metadata:
        names = _CREDENTIALS[label.partition(":")[0]]
        return Unavailable(
            f"{where} failed: no credentials; the environment has none ({names}), and this "
            "machine has none of its own"
        )
    if said.no_bucket or (call != "get" and said.kind == "FileNotFoundError"):
        return InvalidValue("blobs", f"{where} failed: there is no bucket {bucket!r}")
    if said.code in _REGION or said.status in (301, 307):
        return InvalidValue("blobs", f"{where} failed ({said}): another region; set AWS_REGION")
    if said.denied:
        return _denied(said, call, where, label)
    if said.status == 507:
        return StorageFull(f"{where} failed ({said}): the store has no space left")
    if said.kind == "NotSupportedError" or said.status == 501:
        return NotSupported(f"{where} ({said})")
    if 400 <= said.status < 500 and said.status not in (408, 429):
        return BackendError(label, f"{where} failed: {said}")
    return (Timeout if said.timeout else Unavailable)(f"{where} failed: {said}")


def _denied(said: Said, call: str, where: str, label: str) -> LedgerstoneError:
    if said.code in _NOT_KNOWN or said.status == 401:
        names = _CREDENTIALS[label.partition(":")[0]]
        return InvalidValue(
            "blobs", f"{where} failed: the credentials are not accepted ({said}); check {names}"
        )
    if call == "get":
        return NotSupported(f"{where} ({said})", hint=f"grant {GRANTS[call]}")
    return ReadOnly(f"{where} is not allowed ({said}); grant {GRANTS[call]}")
