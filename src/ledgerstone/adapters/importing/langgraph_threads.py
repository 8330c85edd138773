"""Moves threads of LangGraph's SqliteSaver and PostgresSaver into a store.

    from ledgerstone.adapters.importing.langgraph_threads import import_sessions

    print(import_sessions(store, "checkpoints.sqlite"))

The source is only read. Threads go on with LedgerSaver where they were, under their names and with
the ids of their checkpoints. A second run takes what is new and nothing twice: after an
interruption, or when the source has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from ledgerstone.adapters.importing.importers import Progress
from ledgerstone.adapters.importing.langgraph_source import Key, Source, Stored, Write
from ledgerstone.adapters.langgraph.saver import LedgerSaver
from ledgerstone.adapters.langgraph.serializer import PICKLE, CheckedSerializer, strict_serde
from ledgerstone.adapters.langgraph.threads import THREAD_KEY, config_of, node_id, session_id
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of
from ledgerstone.clock import to_us
from ledgerstone.commands.nodes import GetNode
from ledgerstone.errors import AlreadyExists, Corrupt, InvalidValue, NotSupported

CACHE_BYTES = 16 * 1024 * 1024
LOOK = 100
"""How many checkpoints are looked for at once."""


@dataclass
class Imported:
    """What came of it: threads, and the checkpoints and pending writes that were stored."""

    sessions: int = 0
    checkpoints: int = 0
    writes: int = 0
    known: int = 0
    """Checkpoints that were there from an earlier run, those deleted since (pruned) included."""
    pickled: int = 0
    """Checkpoints and writes left out because they hold a pickle."""
    refused: int = 0
    """Left out for a class that is not allowed, a form that is not known, or a limit of stores."""
    damaged: int = 0
    """Left out because they cannot be decoded."""


def import_sessions(
    store: AnyStore,
    source: str | Path,
    *,
    only: Callable[[str], bool] | None = None,
    allow: Iterable[type | tuple[str, ...]] = (),
    skip_unreadable: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Read a SQLite file or a postgresql:// database of LangGraph's savers, and store its threads.

    `only(thread)` chooses. `allow`: classes of your own, or (module, name) pairs, that may be
    revived; give LedgerSaver the same. Errors: NotADatabase for something else, NotSupported for
    newer tables; and unless `skip_unreadable`, which counts instead, NotSupported for a pickle or
    a class that is not allowed, and Corrupt, each naming the place. What was written before an
    error stays, and is known next time. Not on the event loop of an async store.
    """
    serializer = CheckedSerializer(strict_serde(allow))
    saver = LedgerSaver(store, allow=allow, cache_bytes=CACHE_BYTES)
    with closing(Source(source, serializer)) as opened:
        threads = _ThreadImport(store, opened, saver, skip_unreadable)
        for thread in opened.threads():
            if only is None or only(thread):
                threads.bring(thread)
                if progress is not None:
                    progress(thread, threads.done.sessions)
        return threads.done


def check_source(source: str | Path) -> None:
    """The errors that `import_sessions` has for a source before it reads a thread."""
    Source(source, CheckedSerializer(strict_serde())).close()


class _ThreadImport:
    def __init__(self, store: AnyStore, source: Source, saver: LedgerSaver, skip: bool) -> None:
        self.done = Imported()
        self._store = store
        self._runner = StoreRunner(store)
        self._source = source
        self._saver = saver
        self._skip_unreadable = skip
        self._begun = False

    def bring(self, thread: str) -> None:
        """All of a thread, the oldest checkpoint first."""
        if not thread:
            hint = "LedgerSaver could not open it"
            self._skip(NotSupported("a thread whose name is empty", hint=hint))
            return
        self._begun = False
        last_known: dict[str, Key] = {}
        for page in self._source.checkpoints(thread):
            for first in range(0, len(page), LOOK):
                part = page[first : first + LOOK]
                there = self._runner.run_sync(self._there(part))
                for key, is_there in zip(part, there, strict=True):
                    if is_there:
                        self.done.known += 1
                        self._begun = True
                        last_known[key.ns] = key
                        continue
                    if key.ns in last_known:
                        self._bring_writes(last_known.pop(key.ns))
                    self._bring(key)
        # Where an earlier run ended, tasks may have written since.
        for key in last_known.values():
            self._bring_writes(key)
        self.done.sessions += 1

    async def _there(self, keys: list[Key]) -> list[bool]:
        tenant = self._store.tenant or ""
        queries = [
            GetNode(tenant=tenant, session=session_id(one.thread), id=node_id(one.id, one.ns))
            for one in keys
        ]
        return [one is not None for one in await of(self._store.read(*queries))]

    def _bring(self, key: Key) -> None:
        stored = None
        with self._skipping():
            stored = self._source.stored(key)
        if stored is None:
            return
        if not self._begun:
            self._runner.run_sync(self._begin(key, stored))
            self._begun = True
        # The writes first: then a checkpoint that is there has all of its writes.
        writes = self._bring_writes(key)
        try:
            with self._skipping(), _within_limits(key):
                self._put(key, stored)
                self.done.checkpoints += 1
        except AlreadyExists:
            # It was there and was deleted, as a prune does it: it does not come back.
            self.done.known += 1
            return
        self.done.writes += writes

    def _put(self, key: Key, stored: Stored) -> None:
        config = config_of(key.thread, key.ns, key.parent or "")
        checkpoint: Any = with_numbers(stored.checkpoint, key)
        metadata: Any = stored.metadata
        self._saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])

    async def _begin(self, key: Key, stored: Stored) -> None:
        """The session of a thread, begun when its first checkpoint was made."""
        session = session_id(key.thread)
        fields: dict[str, Any] = {}
        if session != key.thread:
            fields["metadata"] = {THREAD_KEY: key.thread}
        created_us = _moment_us(stored.checkpoint["ts"])
        if created_us is not None:
            fields["created_us"] = created_us
        await of(self._store.sessions.ensure(session, **fields))

    def _bring_writes(self, key: Key) -> int:
        count = 0
        rows = self._source.writes(key)
        for (path, task), group in groupby(rows, key=lambda one: (one.path, one.task)):
            values = []
            for one in in_place(list(group)):
                with self._skipping():
                    values.append((one.channel, self._source.value(one, key)))
            if values:
                with self._skipping(), _within_limits(key):
                    config = config_of(key.thread, key.ns, key.id)
                    self._saver.put_writes(config, values, task, path)
                    count += len(values)
        return count

    @contextmanager
    def _skipping(self) -> Iterator[None]:
        try:
            yield
        except (NotSupported, Corrupt) as error:
            self._skip(error)

    def _skip(self, error: NotSupported | Corrupt) -> None:
        """Count what may be left out, or refuse it."""
        if not self._skip_unreadable:
            raise error
        if isinstance(error, Corrupt):
            self.done.damaged += 1
        elif error.capability.startswith(f"opening {PICKLE}"):
            self.done.pickled += 1
        else:
            self.done.refused += 1


@contextmanager
def _within_limits(key: Key) -> Iterator[None]:
    """What no store takes (a name too long, a value too large), told with its place."""
    try:
        yield
    except InvalidValue as error:
        raise NotSupported(f"checkpoint {key.id} of thread {key.thread!r:.64}: {error}") from error


def in_place(writes: list[Write]) -> list[Write]:
    """The writes of a task so that each stands at its number; special ones have none of these."""
    special = [one for one in writes if one.idx < 0]
    made: list[Write] = []
    for one in writes:
        if one.idx < 0:
            continue
        while special and len(made) < one.idx:
            made.append(special.pop(0))
        made.append(one)
    return made + special


def with_numbers(checkpoint: dict[str, Any], key: Key) -> dict[str, Any]:
    """Versions as whole numbers: LedgerSaver goes on counting, and the two do not compare."""
    seen = checkpoint["versions_seen"]
    try:
        return {
            **checkpoint,
            "channel_values": checkpoint.get("channel_values") or {},
            "channel_versions": _numbers(checkpoint["channel_versions"]),
            "versions_seen": {node: _numbers(versions) for node, versions in seen.items()},
        }
    except (AttributeError, ValueError):
        raise Corrupt("checkpoints", key.id, "channel_versions", "no versions") from None


def _numbers(versions: dict[str, Any]) -> dict[str, int]:
    return {name: int(str(one).split(".", maxsplit=1)[0]) for name, one in versions.items()}


def _moment_us(text: Any) -> int | None:
    try:
        return to_us(datetime.fromisoformat(str(text)))
    except ValueError:
        return None
