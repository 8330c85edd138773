"""Connections that are cut before, while and after a request is carried out.

Several callers send one command each, at the same time, through a wire that is cut at a chosen
request. Everybody must get an answer as if nothing had happened:

    a turn       is there once, whole, at the revision that was answered
    a toggle     deletes and restores a session in turn: each says that it did so, once
    a lease      is taken and given back: each grant has the next fence
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.commands.leases import ReleaseLease, TakeLease
from ledgerstone.commands.sessions import CreateSession, DeleteSession, RestoreSession
from ledgerstone.errors import OutcomeUnknown
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import Acked, History, Planned, judge, read_back
from ledgerstone.testing.servers.proxy import Moment, Proxy

OWN, SHARED, TOGGLED, LEASED = ("own 0", "own 1"), "shared", "toggled", "leased"
LEASE_US = 600_000_000
TEXTS_MAX = 4
ROUNDS_PER_CUT = 4
WAIT_S = 120.0

PLANNED, COMMIT, ANYWHERE = rb"ledger_apply\(|moved as \(update heads ", b"COMMIT", b""
"""Where to cut: the one call of planned commands (of a group, or of a single one), the end
of a transaction, any request."""
ANYWHERE_MAX = 12


class Tally(msgspec.Struct):
    """What was sent and cut, and what went wrong."""

    sent: int = 0
    cuts: int = 0
    replayed: int = 0
    unknown: int = 0
    violations: list[str] = []


class Caller:
    """Sends rounds of commands to a backend, and judges each answer."""

    def __init__(self, backend: Backend, seed: int, *, create: bool) -> None:
        self._backend = backend
        self._random = Random(seed)
        self._create = create
        self._history = History()
        self._lease: Lease | None = None
        self._fence = 0
        self._deleted = False
        self._round = 0
        self.tally = Tally()
        self._threads = ThreadPoolExecutor(5)
        for session in (*OWN, SHARED, TOGGLED, LEASED):
            backend.write(CreateSession(tenant=TENANT, session=Session(id=session), ensure=True))

    def round(self) -> None:
        """One command of each kind, all at once."""
        self._round += 1
        commands = list(self._commands())
        waiting = [self._threads.submit(self._backend.write, one) for one in commands]
        for command, future in zip(commands, waiting, strict=True):
            self.tally.sent += 1
            try:
                self._judge(command, future.result(WAIT_S))
            except OutcomeUnknown as error:
                self._judge_unknown(command, error)
            except Exception as error:
                self._find(f"{type(command).__name__} got {type(error).__name__}: {error}")

    def close(self) -> None:
        self._threads.shutdown()

    def settle(self, backend: Backend) -> None:
        """Judge what is stored, read through another backend."""
        for session in sorted(self._history.planned):
            verdict = judge(self._history, read_back(backend, TENANT, session))
            self.tally.violations += verdict.violations

    def _commands(self) -> Iterator[Command[Any]]:
        for n, session in enumerate((*OWN, SHARED)):
            texts = ["x" * 10] * self._random.randint(1, TEXTS_MAX)
            command = commit_of(session, f"{self._round}-{n}", *texts, create=self._create)
            nodes = tuple(node.id for node in command.nodes)
            self._history.add(Planned(session, command.turn, nodes))
            yield command
        toggle = RestoreSession if self._deleted else DeleteSession
        yield toggle(tenant=TENANT, id=TOGGLED)
        yield self._lease_command()

    def _lease_command(self) -> Command[Any]:
        held = self._lease
        if held is None:
            token = f"token {self._round}"
            return TakeLease(
                tenant=TENANT, session=LEASED, owner="ada", token=token, ttl_us=LEASE_US
            )
        return ReleaseLease(
            tenant=TENANT, session=LEASED, owner="ada", token=held.token, fence=held.fence
        )

    def _judge(self, command: Command[Any], answer: Any) -> None:
        if isinstance(answer, TurnCommitted):
            placed = tuple(place.id for place in answer.placed)
            self.tally.replayed += answer.replayed
            session = str(getattr(command, "session", ""))
            self._history.add(Acked(session, answer.turn, answer.revision, placed))
        elif isinstance(command, TakeLease):
            self._fence += 1
            self._lease = answer
            if answer is None or answer.fence != self._fence:
                self._find(f"the lease that follows fence {self._fence - 1} is {answer}")
        elif isinstance(command, ReleaseLease):
            self._lease = None
            if answer is not True:
                self._find("a lease that was held was not released")
        else:
            self._deleted = not self._deleted
            if answer is not True:
                self._find(f"{type(command).__name__} says that it changed nothing")

    def _judge_unknown(self, command: Command[Any], error: OutcomeUnknown) -> None:
        """Only a release may end so, and then the lease is gone."""
        self.tally.unknown += 1
        self._lease = None
        if not isinstance(command, ReleaseLease):
            self._find(f"{type(command).__name__}: {error}")

    def _find(self, text: str) -> None:
        self.tally.violations.append(f"round {self._round}: {text}")


def cut_often(
    backend: Backend,
    proxy: Proxy,
    straight: Backend,
    *,
    cuts: int,
    at: bytes,
    seed: int,
    until_found: bool = False,
) -> Tally:
    """Cut the wire `cuts` times, or until a violation is found. `straight` is another handle of the
    store, not through the wire."""
    random = Random(seed)
    caller = Caller(backend, seed, create=at == COMMIT)
    tally, before = caller.tally, proxy.counts.cuts
    caller.round()
    try:
        for _ in range(ROUNDS_PER_CUT * cuts):
            nth = random.randint(1, ANYWHERE_MAX if at == ANYWHERE else 2)
            proxy.cut_at(at, random.choice(list(Moment)), nth=nth)
            caller.round()
            tally.cuts = proxy.counts.cuts - before
            if tally.cuts >= cuts or (until_found and tally.violations):
                break
    finally:
        caller.close()
    caller.settle(straight)
    if tally.cuts < cuts and not until_found:
        tally.violations.append(f"the wire was cut {tally.cuts} times only")
    return tally
