"""The stand of the adapters: files and, for those whose key says so, databases of one server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.adapters import entries
from bench.contender import Entry, History
from bench.machine import Machine
from bench.postgres.server import Server
from bench.postgres.stand import named
from bench.remote import Remote
from bench.sizes import Sizes
from bench.stand import READ, Stand, installed

ON_POSTGRES: Final = "pg-"
BACKENDS: Final = ("SQLite", "PostgreSQL")


class AdapterStand(Stand):
    """Contenders of one workload at a time: a dozen interpreters with a framework are enough."""

    known_peers = ()
    ours = entries.OURS

    def __init__(self, directory: Path, seed: int, sizes: Sizes, *, with_peers: bool) -> None:
        super().__init__(directory, seed, sizes, with_peers=with_peers)
        self.took_part: dict[str, Entry] = {}
        self.empty_bytes: dict[str, int] = {}
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        """Started by the first that needs it."""
        if self._server is None:
            self._server = Server(self.directory)
            self.notes.append(self._server.described())
        return self._server

    def path(self, name: str) -> Path:
        if not name.startswith(ON_POSTGRES):
            return super().path(name)
        database = named(name)
        if database not in self.server.databases:
            self.server.create(database)
        path = self.directory / f"{name}.pg"
        path.write_text(self.server.url(database), encoding="utf-8")
        return path

    def size_bytes(self, name: str) -> int:
        if name.startswith(ON_POSTGRES):
            return self.server.size_bytes(named(name))
        return super().size_bytes(name)

    def histories(self, entry: Entry) -> list[History]:
        """As deep as they are asked to be; one of them is only read."""
        sizes = self.sizes
        count = sizes.peer_shallow if entry.slow else sizes.shallow
        return [(number, sizes.shallow_depth) for number in (*range(1, count + 1), READ)]

    def there(self, wanted: Sequence[Entry]) -> list[Entry]:
        """Those of them that are installed and asked for; the frameworks are extras."""
        kinds = ("floor", "ours", "peer") if self.with_peers else ("floor", "ours")
        missing = [entry.title for entry in wanted if not installed(entry)]
        if missing:
            self.notes.append(f"not installed, left out: {', '.join(missing)}")
        return [entry for entry in wanted if entry.kind in kinds and installed(entry)]

    def filled(self, wanted: Sequence[Entry]) -> list[Entry]:
        """Start them and fill their sessions, untimed; those that did not fail."""
        start = time.monotonic()
        for entry in wanted:
            self.path(entry.key)
        for entry, remote in self._fill({entry: entry.key for entry in wanted}).items():
            self.remotes[entry.key] = remote
            self.settle(entry.key)
        self.say(f"  filled in {time.monotonic() - start:.0f} s")
        return [entry for entry in wanted if entry.key in self.remotes]

    def settle(self, name: str) -> None:
        """What autovacuum does in time."""
        if name.startswith(ON_POSTGRES):
            self.server.execute(named(name), "vacuum analyze", "checkpoint")

    def leave(self, there: Sequence[Entry]) -> None:
        """Done with them; what is said of a peer is said at the end."""
        self.took_part |= {entry.key: entry for entry in there}
        for entry in there:
            remote: Remote | None = self.remotes.pop(entry.key, None)
            if remote is not None:
                remote.leave()

    def peer_notes(self, machine: Machine) -> dict[str, str]:
        level = f"synchronous={machine.standard_synchronous} (the default)"
        notes = {}
        for key, entry in self.took_part.items():
            if entry.kind == "peer":
                kept = "" if key.startswith(ON_POSTGRES) else f"{self.journal(key)}, {level}; "
                notes[entry.title] = f"{kept}{entry.note}"
        return notes

    def close(self) -> None:
        super().close()
        if self._server is not None:
            self._server.close()
            self._server = None
