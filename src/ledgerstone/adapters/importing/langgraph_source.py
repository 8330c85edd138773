"""Checkpoints of LangGraph's own savers, read row by row: SQLite files and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.types import TASKS

from ledgerstone.adapters.importing.sources import (
    Tables,
    check_columns,
    is_server,
    json_object,
    open_source,
)
from ledgerstone.adapters.langgraph.serializer import CheckedSerializer
from ledgerstone.errors import Corrupt, LedgerstoneError, NotSupported

OF = "LangGraph's savers"
PAGE = 500
THREADS = 200
NEWEST_FORM = 4
NEWEST_MIGRATION = 9
EMPTY = "empty"
_CHECKPOINT = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint")
_WRITE = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type")


class Key(NamedTuple):
    """Which checkpoint, and the one before it."""

    thread: str
    id: str
    ns: str
    parent: str | None


class Stored(NamedTuple):
    """What is in a checkpoint."""

    checkpoint: dict[str, Any]
    metadata: dict[str, Any]


class Write(NamedTuple):
    """One value that a task wrote, still encoded."""

    path: str
    task: str
    idx: int
    channel: str
    type: str
    data: Any


class Source(Tables):
    """The threads of a database, of either kind; values are opened under a strict allow-list."""

    def __init__(self, source: str | Path, serializer: CheckedSerializer) -> None:
        self._serializer = serializer
        self._server = is_server(source)
        super().__init__(open_source(source, "langgraph_sqlite.sql", "langgraph_postgres.sql"))

    def threads(self) -> Iterator[str]:
        """The names of all of them, some read at a time."""
        after = ""
        if self._reader.ask("checkpoints", after, "", "", 1):
            yield after
        while page := self._reader.ask("threads", after, THREADS):
            for (name,) in page:
                yield name
            after = page[-1][0]

    def checkpoints(self, thread: str) -> Iterator[list[Key]]:
        """Those of a thread as they were made, in pages."""
        id, ns = "", ""
        while page := self._reader.ask("checkpoints", thread, id, ns, PAGE):
            yield [Key(thread, *row) for row in page]
            id, ns = page[-1][:2]

    def stored(self, key: Key) -> Stored | None:
        """What is in one; None when it was deleted meanwhile.

        NotSupported for what may not be revived or is of a newer form, Corrupt for damage.
        """
        rows = self._reader.ask("checkpoint", key.thread, key.id, key.ns)
        if not rows:
            return None
        found = self._of_server(key, *rows[0]) if self._server else self._of_file(key, *rows[0])
        checkpoint = found.checkpoint
        if not {"v", "id", "ts", "channel_versions", "versions_seen"} <= checkpoint.keys():
            raise Corrupt("checkpoints", key.id, "checkpoint", "it is not a checkpoint")
        if not isinstance(checkpoint["v"], int) or checkpoint["v"] > NEWEST_FORM:
            raise NotSupported(f"checkpoint {key.id} of form {checkpoint['v']!r:.20}")
        return found

    def writes(self, key: Key) -> list[Write]:
        """What its tasks wrote, in order."""
        rows = self._reader.ask(self._writes, key.thread, key.id, key.ns)
        return [
            Write(path, task, idx, channel, str(kind), data)
            for path, task, idx, channel, kind, data in rows
        ]

    def value(self, one: Write, key: Key) -> Any:
        """What a write says; the errors are those of `stored`."""
        return self._load("writes", one.type, one.data, f"{key.id}.{one.channel}")

    def _of_file(self, key: Key, kind: str, data: bytes, metadata: Any) -> Stored:
        checkpoint = self._load("checkpoints", kind, data, key.id)
        about = {} if metadata is None else json_object(metadata, "checkpoints", key.id, "metadata")
        return Stored(_is_object(checkpoint, key.id, "checkpoint"), about)

    def _of_server(self, key: Key, text: str, metadata: str) -> Stored:
        checkpoint = json_object(text, "checkpoints", key.id, "checkpoint")
        versions = _is_object(checkpoint.get("channel_versions") or {}, key.id, "channel_versions")
        blobs = self._reader.ask("blobs", key.thread, key.ns, json.dumps(versions))
        checkpoint["channel_values"] = {
            **(checkpoint.get("channel_values") or {}),
            **{
                channel: self._load("checkpoint_blobs", kind, data, f"{key.id}.{channel}")
                for channel, kind, data in blobs
                if kind != EMPTY
            },
        }
        form = checkpoint.get("v")
        if isinstance(form, int) and form < NEWEST_FORM and key.parent:
            self._add_sends(key, key.parent, checkpoint)
        return Stored(checkpoint, json_object(metadata, "checkpoints", key.id, "metadata"))

    def _add_sends(self, key: Key, parent: str, checkpoint: dict[str, Any]) -> None:
        """Before form 4, tasks to be started stood at the parent; now they are a channel."""
        sends = self._reader.ask("sends", key.thread, parent, key.ns, TASKS)
        if not sends:
            return
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"][TASKS] = [
            self._load("checkpoint_writes", kind, data, f"{parent}.{TASKS}") for kind, data in sends
        ]
        versions[TASKS] = max(versions.values()) if versions else 1

    def _load(self, table: str, kind: Any, data: Any, path: str) -> Any:
        # A file of before may hold text where a saver writes bytes now.
        raw = data.encode() if isinstance(data, str) else bytes(data or b"")
        try:
            return self._serializer.load(str(kind), raw, path)
        except LedgerstoneError:
            raise
        except Exception as error:
            # The serializer raises whatever the damage makes it stumble over.
            reason = f"not readable: {type(error).__name__}"
            raise Corrupt(table, path, "value", reason) from None

    def _check(self) -> None:
        writes = "checkpoint_writes" if self._server else "writes"
        check_columns(self._reader, "checkpoints", (*_CHECKPOINT, "metadata"), OF)
        value = "blob" if self._server else "value"
        found = check_columns(self._reader, writes, (*_WRITE, value), OF)
        if not self._server:
            self._writes = "writes" if "task_path" in found else "old_writes"
            return
        needed = ("thread_id", "checkpoint_ns", "channel", "version", "type", "blob")
        check_columns(self._reader, "checkpoint_blobs", needed, OF)
        check_columns(self._reader, writes, ("task_path",), OF)
        check_columns(self._reader, "checkpoint_migrations", ("v",), OF)
        [[migration]] = self._reader.ask("migration")
        if migration is not None and migration > NEWEST_MIGRATION:
            raise NotSupported(
                f"{self._reader.name}: tables of version {migration}, {NEWEST_MIGRATION} is known",
                hint="they are of a newer langgraph-checkpoint-postgres",
            )
        self._writes = "writes"


def _is_object(value: Any, key: str, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        reason = f"an object expected, got {type(value).__name__}"
        raise Corrupt("checkpoints", key, field, reason)
    return value
