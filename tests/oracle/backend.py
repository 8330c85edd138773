"""The first implementation as a backend, frozen: every engine must answer as it does."""

from __future__ import annotations

from ledgerstone.clock import Clock
from ledgerstone.engines.memory.backend import MemoryBackend
from tests.oracle.model.model import Model


class OracleEngine(Model):
    """The model under the names that the memory backend asks for."""

    @property
    def changed(self) -> bool:
        return self.touched

    def counts(self) -> dict[str, int]:
        return {name: len(table) for name, table in self.state.tables().items()}


def open_oracle(clock: Clock) -> MemoryBackend:
    """A new, empty store of the oracle."""
    return MemoryBackend(clock, OracleEngine(clock))
