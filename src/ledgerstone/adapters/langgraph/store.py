"""LangGraph's long-term memory in a store: LedgerStore.

    graph = builder.compile(checkpointer=LedgerSaver(store), store=LedgerStore(store))

Items are memories below ("langgraph", ...): `store.memories` reads them too. Needs the extra:
pip install "ledgerstone[langgraph]".
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from langgraph.store.base import (
    BaseStore,
    Embeddings,
    IndexConfig,
    Op,
    Result,
    TTLConfig,
    ensure_embeddings,
)

from ledgerstone import ids
from ledgerstone.adapters.langgraph.store_batch import SECONDS, WHOLE, Batch, fields_of
from ledgerstone.adapters.langgraph.store_operations import StoreOperations, Vectors
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner
from ledgerstone.errors import InvalidValue, LedgerstoneError, NotSupported
from ledgerstone.intake import checks

ROOT = "langgraph"
SWEEP_MINUTES = 5
COSINE = "cosine"

_log = logging.getLogger(__name__)


class LedgerStore(BaseStore):
    """A BaseStore on an open sync or async store.

    A batch reads first, all of it as it was before, then writes in one commit; of several puts of
    one key the last counts. Expired items are never shown, whatever `omit_expired` says.
    """

    supports_ttl = True

    def __init__(
        self,
        store: AnyStore,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        root: str = ROOT,
    ) -> None:
        """`root`: the first segment under which the items are kept among the store's memories."""
        self._runner = StoreRunner(store)
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings: Embeddings | None = None
        self._fields: list[str] | None = None
        self._dims: int | None = None
        ids.check_id(root, "root")
        if index is not None:
            self._configure(index)
        self._operations = StoreOperations(
            store, root, None if index is None else _space(root, index)
        )
        self._sweeper: threading.Thread | None = None
        self._stop = threading.Event()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry several operations out; InvalidValue names what cannot be stored, and nothing is.

        Misuse on the event loop of an async store: use `abatch` there.
        """
        batch = Batch(ops, self._fields)
        vectors = Vectors({}, {})
        if self.embeddings is not None:
            found = self.embeddings.embed_documents(batch.texts) if batch.texts else []
            asked = [self.embeddings.embed_query(one) for one in batch.queries]
            vectors = self._vectors(batch, found, asked)
        return self._runner.run_sync(self._operations.carry_out(batch, vectors))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        batch = Batch(ops, self._fields)
        vectors = Vectors({}, {})
        if self.embeddings is not None:
            found = await self.embeddings.aembed_documents(batch.texts) if batch.texts else []
            asked = await asyncio.gather(*map(self.embeddings.aembed_query, batch.queries))
            vectors = self._vectors(batch, found, asked)
        return await self._runner.run_async(self._operations.carry_out(batch, vectors))

    def sweep_ttl(self) -> int:
        """Remove what has ended from the tenant's memories; how much went."""
        return self._runner.run_sync(self._operations.sweep())

    async def asweep_ttl(self) -> int:
        return await self._runner.run_async(self._operations.sweep())

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep now and then in a thread of its own, until `stop_ttl_sweeper`.

        The interval is the argument, or the one of the TTLConfig, or five minutes.
        """
        config: TTLConfig = self.ttl_config or {}
        minutes = sweep_interval_minutes or config.get("sweep_interval_minutes") or SWEEP_MINUTES
        done: Future[None] = Future()
        if self._sweeper is not None and self._sweeper.is_alive():
            done.set_result(None)
            return done
        self._stop = stop = threading.Event()

        def sweep() -> None:
            while not stop.wait(minutes * SECONDS):
                try:
                    self.sweep_ttl()
                except LedgerstoneError as error:
                    _log.warning("a sweep of expired items failed: %s", type(error).__name__)
            done.set_result(None)

        self._sweeper = threading.Thread(target=sweep, name="ledgerstone-ttl", daemon=True)
        self._sweeper.start()
        return done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Whether the sweeper has ended, or there was none."""
        if self._sweeper is None:
            return True
        self._stop.set()
        self._sweeper.join(timeout)
        return not self._sweeper.is_alive()

    def _configure(self, index: IndexConfig) -> None:
        self._dims = checks.positive(index.get("dims", 0), "index.dims")
        kind = index.get("distance_type") or COSINE
        if kind != COSINE:
            raise NotSupported(
                f"index.distance_type {kind!r:.40}",
                hint="vectors are compared by cosine; for vectors of length 1, as most models make "
                "them, l2 and inner_product find the same order",
            )
        if index.get("embed") is None:
            raise InvalidValue("index.embed", "Embeddings, a function or a provider name expected")
        self.embeddings = ensure_embeddings(index["embed"])
        self._fields = fields_of(index.get("fields") or [WHOLE], "index.fields")

    def _vectors(
        self, batch: Batch, found: Sequence[Sequence[float]], asked: Sequence[Sequence[float]]
    ) -> Vectors:
        """What was embedded by its text, checked: a wrong length would be found much later."""
        return Vectors(self._named(batch.texts, found), self._named(batch.queries, asked))

    def _named(
        self, texts: Sequence[str], vectors: Sequence[Sequence[float]]
    ) -> dict[str, Sequence[float]]:
        if len(texts) != len(vectors):
            raise InvalidValue("index.embed", f"{len(vectors)} vectors for {len(texts)} texts")
        for one in vectors:
            if len(one) != self._dims:
                raise InvalidValue(
                    "index.dims", f"{self._dims} expected, the vector has {len(one)} numbers"
                )
        return dict(zip(texts, vectors, strict=True))


def _space(root: str, index: IndexConfig) -> str:
    """The name of the vectors' space: those of another model must not be compared with them."""
    embed: Any = index.get("embed")
    model = embed if isinstance(embed, str) else ""
    return ids.check_label(f"{root}:{model}:{index['dims']}", "index.embed")
