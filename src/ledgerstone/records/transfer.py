"""What moving a store answers."""

from __future__ import annotations

import msgspec


class TenantRoot(msgspec.Struct, frozen=True, kw_only=True):
    """A hash over everything that a tenant has, and how many rows of which kind that is.

    It is the same in every backend: where bytes lie and how rows are numbered is left out.
    """

    tenant: str
    root: str
    rows: dict[str, int] = {}


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """One hash over all tenants that were asked for, and that of each."""

    root: str
    tenants: list[TenantRoot] = []


class TenantCopied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a tenant: its root, which is that of the source and of the target.

    `rows` counts what there is, `written` what this call brought; the rest was there before.
    """

    tenant: str
    root: str
    rows: dict[str, int] = {}
    written: int = 0
    blobs: int = 0
    blob_bytes: int = 0


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied; `root` is the same for source and target."""

    root: str
    tenants: list[TenantCopied] = []

    @property
    def written(self) -> int:
        return sum(one.written for one in self.tenants)
