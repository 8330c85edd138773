"""A store with something of everything in it, to be moved elsewhere and compared there."""

from __future__ import annotations

from typing import Any

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.commands.nodes import FindNodes, GetMessage
from ledgerstone.ports.backend import Backend
from ledgerstone.records.messages import user
from ledgerstone.records.usage import Cost, Usage
from ledgerstone.testing.faults import specimen

BYTES = b"bytes of a picture " * 1000
NAME = "z\u00fcrich \U0001f600"
ODD = "a\x00b\x01c\u00e9\U0001f600"
"""Text that a database may have to store in another way."""
_AMBIGUOUS = (FindNodes.__name__, GetMessage.__name__)
"""Of an id that several sessions have, memory and files show another one first than SQL does."""


def fill(backend: Backend, clock: ManualClock) -> Store:
    """Write it; answers a store without a tenant over the backend."""
    specimen.fill(backend, clock)
    root = Store(backend, tenant=None, clock=clock)
    store = root.for_tenant(specimen.TENANTS[0])
    _keep(store)
    _remember(store)
    clock.advance(1)
    _use(store)
    root.for_tenant("bytes").blobs.put(b"", media_type="text/plain")
    root.for_tenant("empty").messages.append("s", user("once"), create=True)
    root.for_tenant("empty").sessions.purge("s")
    clock.advance(1)
    return root


def _keep(store: Store) -> None:
    store.artifacts.put("plan", BYTES, session="trip", media_type="text/plain", metadata={"a": [1]})
    store.artifacts.put("plan", b"second", session="trip")
    store.artifacts.put("face", b"of a user", user="ada", tool="camera")
    store.artifacts.put("logo", b"of all")
    store.artifacts.put("loose", b"of nobody yet", session="not there")
    store.blobs.put(b"nothing refers to it")
    store.traces.append("trip", {"kind": "call", "name": "x"}, {"kind": "end", "name": NAME})
    store.traces.append("not there", {"kind": "call", "name": "y"})
    for session in ("trip", "fork"):
        store.executions.start(session, call_id="c1", tool="look", id=f"look in {session}")
    store.reports.save("trip", [{"subject": "all", "status": "passed"}])


def _remember(store: Store) -> None:
    store.memories.put(("users", "ada"), "colour", {"is": "green"})
    store.memories.put(("users", "ada"), NAME, ODD, ttl_s=3600)
    store.memories.put((), "top", None, vector=[1, 0, 0], model="m")
    store.memories.put("users", "over", 1, ttl_s=0.001)
    store.embeddings.put([0, 1, 0], id="v1", model="m", session="trip", metadata={"k": 1})
    store.embeddings.put([0, 1], id="v2", model="")
    store.embeddings.put([1, 1, 1], id="v3", model="m")
    store.embeddings.delete("v3")


def _use(store: Store) -> None:
    store.usage.budget(id="month", cost=Cost(10**12), period="month")
    store.usage.budget(id="ada", user="ada", tokens=10**9)
    store.usage.budget(id="one", session="trip", tokens=10**9, period="day")
    store.usage.record("trip", "m-1", Usage(input=7, output=2), cost=Cost(125))
    store.usage.record("fork", "m-2", Usage(input=1), provider="p", over_budget=True)
    store.usage.record("copy", "m-3", Usage(input=9), cost=Cost(3, "EUR"), over_budget=True)
    store.usage.delete("copy")
    store.sessions.update("trip", title="\x01\x02 " + NAME)


def answers(store: Store, backend: Backend) -> dict[str, Any]:
    """What can be asked of it, but for what does not mean the same everywhere."""
    found = specimen.read_all(backend)
    found = {name: one for name, one in found.items() if not name.endswith(_AMBIGUOUS)}
    mine = store.for_tenant(specimen.TENANTS[0])
    for session in (*specimen.SESSIONS, "not there"):
        found[f"artifacts {session}"] = mine.artifacts.list(session=session)
        found[f"traces {session}"] = mine.traces.list(session)
        found[f"reports {session}"] = mine.reports.list(session)
        found[f"uses {session}"] = mine.usage.list(session)
        found[f"stats {session}"] = mine.sessions.stats(session)
        found[f"state {session}"] = mine.sessions.get(session)
    found["artifacts"] = (mine.artifacts.list(user="ada"), mine.artifacts.list())
    found["memories"] = list(mine.memories.iter())
    found["nearest"] = mine.embeddings.search([0, 1, 0], model="m")
    found["summary"] = mine.usage.summary(by=("model", "session"))
    found["budgets"] = mine.usage.budgets()
    found["feed"] = [(one.session, one.revision, one.turn) for one in mine.feed.read().entries]
    return found


def defects(store: Store) -> list[Any]:
    """What verify finds, bytes included."""
    return [
        one
        for name in store.admin.tenants()
        for one in store.for_tenant(name).admin.verify(blobs=True).defects
    ]
