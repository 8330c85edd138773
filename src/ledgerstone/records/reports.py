"""What the store says about its own health."""

from __future__ import annotations

import msgspec


class Defect(msgspec.Struct, frozen=True):
    """One thing that verify found wrong, by name and place."""

    session: str
    kind: str
    where: str
    detail: str = ""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked, and everything that did not hold."""

    sessions: int = 0
    turns: int = 0
    nodes: int = 0
    values: int = 0
    blobs: int = 0
    defects: list[Defect] = []

    @property
    def ok(self) -> bool:
        return not self.defects


class Vacuumed(msgspec.Struct, frozen=True, kw_only=True):
    """What a vacuum removed, or would remove when `dry_run`."""

    nodes: int = 0
    notes: int = 0
    values: int = 0
    freed_bytes: int = 0
    dry_run: bool = False


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a backend is alive and can be written; what it costs to ask does not grow with it.

    `warnings` are for the operator and empty on a tenant's handle.
    """

    backend: str
    ok: bool
    durability: str
    schema: int
    version: str = ""
    warnings: list[str] = []


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """How much a store holds, over all tenants: rows by table, and sizes in bytes."""

    counts: dict[str, int] = {}
    sizes_bytes: dict[str, int] = {}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do; calling what it lacks raises NotSupported.

    `bytes_folder` is the directory where its blobs live when nobody names another place; None:
    inside the database.
    """

    name: str
    durability: str
    multi_process: bool
    requires_network: bool = False
    shared_commit: bool = True
    persistent: bool = True
    bytes_folder: str | None = None
