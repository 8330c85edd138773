"""What a framework's loop costs by itself: the least that keeps its state, as Python objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple


class ObjectSaver(BaseCheckpointSaver[int]):
    """Checkpoints as they were given, without a copy of what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: dict[str, str] = {}
        self.kept: dict[tuple[str, str], tuple[Any, Any, str | None]] = {}
        self.writes: dict[tuple[str, str], dict[tuple[str, int], Any]] = defaultdict(dict)

    def get_next_version(self, current: Any, channel: None) -> int:
        return 1 if current is None else int(current) + 1

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        thread = config["configurable"]["thread_id"]
        id = config["configurable"].get("checkpoint_id") or self.newest.get(thread)
        if id is None or (thread, id) not in self.kept:
            return None
        checkpoint, metadata, parent = self.kept[thread, id]
        writes = [(task, *one) for (task, _), one in self.writes.get((thread, id), {}).items()]
        return CheckpointTuple(
            _config(thread, id),
            _copied(checkpoint),
            metadata,
            _config(thread, parent) if parent else None,
            writes,
        )

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, id = config["configurable"]["thread_id"], checkpoint["id"]
        parent = config["configurable"].get("checkpoint_id")
        self.kept[thread, id] = (_copied(checkpoint), metadata, parent)
        self.newest[thread] = id
        # Only what a next turn can ask for: the memory of a long run would be no floor.
        if parent and (thread, parent) in self.kept:
            before = self.kept[thread, parent][2]
            self.kept.pop((thread, before or ""), None)
            self.writes.pop((thread, before or ""), None)
        return _config(thread, id)

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        place = config["configurable"]["thread_id"], config["configurable"]["checkpoint_id"]
        for number, write in enumerate(writes):
            self.writes[place][task_id, WRITES_IDX_MAP.get(write[0], number)] = write

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)


def _config(thread: str, id: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id}}


def _copied(checkpoint: Any) -> Any:
    """LangGraph goes on changing what it hands over."""
    return {**checkpoint, "channel_values": dict(checkpoint["channel_values"])}
