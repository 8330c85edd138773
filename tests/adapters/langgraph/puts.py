"""Checkpoints put by hand, as a graph would."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from ledgerstone.adapters.langgraph import LedgerSaver


def checkpoint(values: dict[str, Any], version: int = 1) -> Any:
    made: Any = empty_checkpoint()
    made["id"] = str(uuid6())
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, version)
    return made


def put(saver: LedgerSaver, config: Any, values: dict[str, Any], **meta: Any) -> Any:
    made = checkpoint(values)
    given: Any = {"configurable": {"checkpoint_ns": "", **config["configurable"]}}
    metadata: Any = {"source": "loop", "step": 0, **meta}
    return saver.put(given, made, metadata, made["channel_versions"])


def values(saver: LedgerSaver, config: Any) -> dict[str, Any]:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]
