"""What tenants and keys are called where names are visible: hashes, never the texts themselves.

So a tenant called `../..` is no path, one called `CON` no device, two that differ in case or in
how an accent is written are two, and who lists a bucket reads nothing about anybody.
"""

from __future__ import annotations

import hashlib

NAME_BYTES = 20


def tenant_name(tenant: str) -> str:
    """The hash that stands for a tenant."""
    return _hash(tenant, b"tenant")


def key_name(key: str) -> str:
    """The hash that stands for a key."""
    return _hash(key, b"key")


def _hash(text: str, kind: bytes) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=NAME_BYTES, person=kind).hexdigest()
