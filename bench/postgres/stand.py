"""The stand on PostgreSQL: every contender on its own database of one server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.contender import Entry
from bench.machine import Machine
from bench.postgres import entries
from bench.postgres.peers import PEERS, QUEUES
from bench.postgres.server import Server
from bench.remote import leave_all
from bench.sizes import Sizes
from bench.stand import Stand, installed

BASE: Final = "-base"


class PostgresStand(Stand):
    """The same sessions and the same frame; a path is a small file with the URL in it."""

    known_peers = PEERS
    ours = entries.OURS_ASYNC

    def __init__(self, directory: Path, seed: int, sizes: Sizes, *, with_peers: bool) -> None:
        super().__init__(directory, seed, sizes, with_peers=with_peers)
        self.server = Server(directory)
        self.empty_bytes: dict[str, int] = {}
        self.notes.append(self.server.described())

    def path(self, name: str) -> Path:
        """The file of this name; its database is made when it is asked for the first time."""
        database = named(name)
        path = self.directory / f"{name}.pg"
        if database not in self.server.databases:
            self.server.create(database)
        path.write_text(self.server.url(database), encoding="utf-8")
        return path

    def size_bytes(self, name: str) -> int:
        return self.server.size_bytes(named(name))

    def peer_notes(self, machine: Machine) -> dict[str, str]:
        """Their settings are the server's; what each does not write."""
        queues = available(QUEUES) if self.with_peers else []
        return {entry.title: entry.note for entry in (*self.peers_there, *queues)}

    def copy(self, source: str, target: str) -> Path:
        """Nobody may be connected to the source meanwhile."""
        self.server.create(named(target), named(source))
        return self.path(target)

    def build(self) -> None:
        if self._built:
            return
        self._built = self.building = True
        self.say("building the histories on PostgreSQL")
        start = time.monotonic()
        bases = [entries.POOL, *([entries.OURS_ASYNC] if self.has_ours else [])]
        leave_all(list(self._fill({entry: entry.key + BASE for entry in bases}).values()))
        for entry in bases:
            self.settle(entry.key + BASE)
            self._weigh(entry, entry.key + BASE)
        floors = (entries.POOL, entries.POOL_AGAIN, entries.BARE, entries.BLOCKING)
        self._start_copies((*floors, entries.GROUP, entries.GROUP_AGAIN), entries.POOL.key + BASE)
        if self.has_ours:
            ours = (entries.OURS, entries.OURS_ASYNC)
            self._start_copies(ours, entries.OURS_ASYNC.key + BASE)
        for entry, remote in self._fill({entry: entry.key for entry in self.peers}).items():
            self.remotes[entry.key] = remote
            self.settle(entry.key)
            self._weigh(entry, entry.key)
        self.building = False
        self.notes.append(f"histories on PostgreSQL built in {time.monotonic() - start:.0f} s")

    def close(self) -> None:
        super().close()
        self.server.close()

    def _opened(self, names: Sequence[str]) -> None:
        for name in names:
            self.empty_bytes[name] = self.size_bytes(name)

    def _weigh(self, entry: Entry, name: str) -> None:
        """What the turns added: a page for each empty index is there before any of them."""
        turns = sum(depth for _, depth in self.histories(entry))
        added = self.size_bytes(name) - self.empty_bytes[name]
        self.bytes_per_turn[entry.key] = added / turns

    def settle(self, name: str) -> None:
        """What autovacuum does in time: statistics for the planner, and no pages left to clean."""
        self.server.execute(named(name), "vacuum analyze", "checkpoint")


def named(name: str) -> str:
    """A database's name."""
    return name.replace("-", "_")


def available(found: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in found if installed(entry)]
