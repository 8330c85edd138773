"""Workloads for a child that is going to be killed: each goes on until it dies.

    lone       one thread, one commit after the other
    threaded   several threads on one store: their commits meet in groups
    tasks      several asyncio tasks on one store: the same through the async store

Every turn is planned aloud before it is sent and acknowledged aloud after its answer. The turns
differ in size and shape: with and without a lease, with a draft, with state, usage and values.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from random import Random

from ledgerstone.api.store import AsyncStore
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.api_sync.store import Store
from ledgerstone.api_sync.turn import Turn
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Held
from ledgerstone.testing.faults.histories import Acked, Granted, Planned, encode_event
from ledgerstone.testing.faults.processes import Say

Victim = Callable[[Say, Backend, str, int], None]

WORKERS = 4
TASKS = 8
TURNS_PER_LEASE = 5
NODES_MAX = 6
LEASE_S = 30.0


def lone(say: Say, backend: Backend, name: str, seed: int) -> None:
    """One worker; `name` is its own, the sessions without it are shared with its successors."""
    _work(say, Store(backend), f"{name}-0", "shared", Random(seed))


def threaded(say: Say, backend: Backend, name: str, seed: int) -> None:
    """Four threads on one store, each with its own sessions and some shared with successors."""
    store = Store(backend)
    threads = [
        threading.Thread(
            target=_work, args=(say, store, f"{name}-{n}", f"shared{n}", Random(seed + n))
        )
        for n in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def tasks(say: Say, backend: Backend, name: str, seed: int) -> None:
    """Eight tasks on one store in one loop."""

    async def main() -> None:
        store = AsyncStore(backend)
        async with asyncio.TaskGroup() as group:
            for n in range(TASKS):
                group.create_task(_work_async(say, store, f"{name}-{n}", Random(seed + n)))

    asyncio.run(main())


def _work(say: Say, store: Store, name: str, shared: str, random: Random) -> None:
    leased = f"leased-{shared}"
    store.sessions.ensure(leased)
    # The predecessor was killed with the lease in its hands; an operator ends it.
    store.leases.break_(leased, by=name, reason="killed")
    for count in range(1_000_000):
        with store.leases.hold(leased, owner=name, ttl_s=LEASE_S) as held:
            say(encode_event(Granted(leased, held.fence)))
            for n in range(random.randint(1, TURNS_PER_LEASE)):
                _commit(say, store, held, f"{name}-{count}-{n}", random)
        for n, session in enumerate((f"own-{name}", shared, "shared-by-all")):
            _commit(say, store, session, f"{name}-{count}-free-{n}", random)


def _commit(say: Say, store: Store, where: Held | str, name: str, random: Random) -> None:
    turn = store.turns.begin(where, id=name, create=isinstance(where, str))
    nodes = _fill(turn, random)
    if random.random() < 0.3:
        with turn.draft(model="m") as draft:
            draft.write("streamed " * random.randint(1, 50))
            draft.write("to its end")
        nodes.append(draft.id)
    say(encode_event(Planned(turn.session, turn.id, tuple(nodes))))
    answer = turn.commit()
    placed = tuple(place.id for place in answer.placed)
    say(encode_event(Acked(turn.session, answer.turn, answer.revision, placed)))


async def _work_async(say: Say, store: AsyncStore, name: str, random: Random) -> None:
    for count in range(1_000_000):
        for n, session in enumerate((f"own-{name}", "shared-by-all")):
            turn = store.turns.begin(session, id=f"{name}-{count}-{n}", create=True)
            nodes = _fill(turn, random)
            say(encode_event(Planned(session, turn.id, tuple(nodes))))
            answer = await turn.commit()
            placed = tuple(place.id for place in answer.placed)
            say(encode_event(Acked(session, answer.turn, answer.revision, placed)))


def _fill(turn: Turn | AsyncTurn, random: Random) -> list[str]:
    """Something of everything a turn can carry; answers the ids of its nodes."""
    nodes = [turn.user(f"question {random.random()}").id]
    for n in range(random.randrange(NODES_MAX)):
        if random.random() < 0.5:
            nodes.append(turn.assistant(f"answer {n} " * random.randint(1, 40)).id)
        else:
            nodes.append(turn.node("event", {"n": n}, label=f"label {n}").id)
    if random.random() < 0.3:
        turn.state(step=random.random())
        turn.use("m", {"input": 3, "output": 4})
    if random.random() < 0.2:
        kept = turn.value(random.randbytes(300))
        nodes.append(turn.node("kept", {"value": kept}, values=[kept]).id)
        turn.note(nodes[0], "seen", {"by": "victim"})
    return nodes
