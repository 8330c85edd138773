"""Lists of what is kept, read chunk by chunk while others put, replace and delete (see scans)."""

from __future__ import annotations

from collections.abc import Callable

from ledgerstone.api_sync.store import Store
from ledgerstone.records.usage import Usage
from ledgerstone.testing.faults.scans import FIRST_ITEMS, PAGE, SESSION, Disturber, Scan

NAMESPACES = (("a",), ("a", "b"), ("ab",), ("b",))


class KeptDisturber(Disturber):
    """Changes memories, embeddings, artifacts, traces and usage all the time."""

    def __init__(self, store: Store, seed: int) -> None:
        super().__init__(store, seed)
        self.kept: list[str] = []
        self._gone: list[str] = []
        self._kept_count = 0
        for _ in range(FIRST_ITEMS):
            self._keep()

    def _actions(self) -> list[Callable[[], None]]:
        return [self._keep, self._keep_for_a_while, self._keep_for_a_while, self._replace]

    def _name(self) -> str:
        """In no order, so that new ones come before and behind a reader."""
        self._kept_count += 1
        return f"{self._random.randrange(1000):03}-{self._kept_count}"

    def _put(self, name: str) -> None:
        store = self._store
        store.memories.put(self._random.choice(NAMESPACES), name, {"n": name})
        store.embeddings.put([1.0, 2.0], id=name)
        store.artifacts.put(name, b"same", session=SESSION, id=name, quota=None)

    def _keep(self) -> None:
        name = self._name()
        self._put(name)
        self._store.traces.append(SESSION, {"kind": "k", "name": name})
        self._store.usage.record(SESSION, name, Usage(1, 1))
        self.kept.append(name)

    def _keep_for_a_while(self) -> None:
        name = self._name()
        self._put(name)
        self._gone.append(name)
        if len(self._gone) > PAGE:
            old = self._gone.pop(self._random.randrange(PAGE))
            for namespace in NAMESPACES:
                self._store.memories.delete(namespace, old)
            self._store.embeddings.delete(old)
            self._store.artifacts.delete(id=old, session=SESSION)

    def _replace(self) -> None:
        """A value that is put again stays where it is in its list."""
        name = self._random.choice(self.kept)
        self._store.embeddings.put([2.0, 1.0], id=name)


KEPT_SCANS: dict[str, Scan] = {
    "memories": lambda store: ([one.key] for one in store.memories.iter()),
    "embeddings": lambda store: ([one.id] for one in store.embeddings.iter()),
    "artifacts": lambda store: (
        [one.id] for one in store.artifacts.iter(session=SESSION, newest=False)
    ),
    "traces": lambda store: ([one.event.name] for one in store.traces.iter(SESSION)),
    "usage": lambda store: ([one.entry.model] for one in store.usage.iter(SESSION)),
}
