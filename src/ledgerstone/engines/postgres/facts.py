"""What the server says about itself: version, role, durability, connections."""

from __future__ import annotations

import msgspec

from ledgerstone.engines.postgres.drivers.port import PgConnection
from ledgerstone.errors import NotSupported, ReadOnly
from ledgerstone.sql.catalogue import load

CROWDED = 0.8


class Facts(msgspec.Struct, frozen=True):
    """The row of `database_facts`, in its order."""

    version: int
    in_recovery: bool
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    connections_max: int
    connections: int

    @property
    def shown_version(self) -> str:
        return f"{self.version // 10000}.{self.version % 10000}"


async def read_facts(connection: PgConnection, timeout_s: float) -> Facts:
    """Ask the server."""
    rows = await connection.fetch(load("postgres")["database_facts"].text, (), timeout_s)
    return Facts(*rows[0])


def check_durability(facts: Facts, level: str, where: str) -> None:
    """Refuse a server that keeps less than was asked for, and one that cannot be written."""
    if facts.in_recovery:
        raise ReadOnly(f"{where} is a standby; give the primary, or promote it")
    if level != "power":
        return
    off = [
        name
        for name in ("fsync", "full_page_writes", "synchronous_commit")
        if getattr(facts, name) in ("off", "local")
    ]
    if off:
        raise NotSupported(
            "durability power",
            "postgres",
            f"the server has {' and '.join(off)} off; turn it on, or open with durability="
            "'process'",
        )


def warnings_of(facts: Facts, durability: str) -> list[str]:
    """What an operator should look at."""
    found = []
    if durability != "power":
        found.append("durability is 'process': a power cut may lose acknowledged turns")
    if facts.connections > CROWDED * facts.connections_max:
        found.append(f"{facts.connections} of {facts.connections_max} connections are in use")
    return found
