"""The session document: one opaque object whose few known fields have rules, kept here only.

The store never looks inside; whoever keeps a whole session object in one piece (config,
messages, totals, tasks) writes and reads it through these two functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.errors import InvalidValue
from ledgerstone.records.sessions import STATUSES

AUTO_COMPACT_THRESHOLD = 0.80
CONTEXT_TOKENS_MAX = 200_000
STORAGE_TYPE = "file"
PLANNING_MODE = "auto"

# Objects of the document whose fields are typed, so that a field named api_key is a secret
# there. Payloads of users (messages, tasks, metadata) are never altered.
_TYPED_CONFIGS = ("config", "llm_config")
_SECRET = "api_key"
_RUNTIME_ONLY = ("hook_engine",)

_DEFAULTS: dict[str, Any] = {
    "state": "unknown",
    "messages": [],
    "total_cost": 0.0,
    "cost_records": [],
    "tool_names": [],
    "thinking_enabled": False,
    "tasks": [],
    "context_usage": {},
    "config": {},
}
_CONTEXT_DEFAULTS: dict[str, Any] = {
    "used_tokens": 0,
    "max_tokens": CONTEXT_TOKENS_MAX,
    "percent": 0.0,
    "turns": 0,
}
_CONFIG_DEFAULTS: dict[str, Any] = {
    "name": "",
    "workspace": "",
    "max_context_length": 0,
    "auto_compact": False,
    "auto_compact_threshold": AUTO_COMPACT_THRESHOLD,
    "storage_type": STORAGE_TYPE,
    "planning_mode": PLANNING_MODE,
    "goal_tracking": False,
}


def write_document(document: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a document, without secrets and what lives only at run time.

    InvalidValue when it is not a JSON object or names an unknown state.
    """
    if not isinstance(document, Mapping):
        raise InvalidValue("document", f"an object expected, got {type(document).__name__}")
    kept = _without(document, _RUNTIME_ONLY)
    for name in _TYPED_CONFIGS:
        if isinstance(kept.get(name), Mapping):
            kept[name] = scrub_config(kept[name])
    if "state" in kept and kept["state"] not in STATUSES:
        raise InvalidValue("document.state", f"{kept['state']!r} is none of {', '.join(STATUSES)}")
    return encode_json(kept, "document")


def read_document(data: bytes) -> dict[str, Any]:
    """The document as written, with defaults for what it leaves out.

    `todos` is read as `tasks`. ValueError when the bytes are no JSON object.
    """
    document = decode_json(data)
    if not isinstance(document, dict):
        raise ValueError(f"an object expected, got {type(document).__name__}")
    if "todos" in document:
        todos = document.pop("todos")
        document.setdefault("tasks", todos)
    filled: dict[str, Any] = _filled(document, _DEFAULTS)
    filled["context_usage"] = _filled(filled["context_usage"], _CONTEXT_DEFAULTS)
    filled["config"] = _filled(filled["config"], _CONFIG_DEFAULTS)
    return filled


def tool_names(definitions: Iterable[Any]) -> list[str]:
    """The names of tool definitions, in their order; each has a `name`, as field or key."""
    return [_name_of(definition) for definition in definitions]


def scrub_config(config: Any) -> Any:
    """A typed config without its secrets and what lives only at run time."""
    if not isinstance(config, Mapping):
        return config
    kept = _without(config, (_SECRET, *_RUNTIME_ONLY))
    for name in _TYPED_CONFIGS:
        if isinstance(kept.get(name), Mapping):
            kept[name] = _without(kept[name], (_SECRET,))
    return kept


def _name_of(definition: Any) -> str:
    if isinstance(definition, Mapping):
        name = definition.get("name")
    else:
        name = getattr(definition, "name", None)
    if not isinstance(name, str):
        raise InvalidValue("tools", "a tool definition needs a text name")
    return name


def _without(fields: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _filled(fields: Any, defaults: dict[str, Any]) -> Any:
    """The fields over fresh copies of the defaults; anything but an object stays as it is."""
    if not isinstance(fields, dict):
        return fields
    fresh = {
        name: value.copy() if isinstance(value, list | dict) else value
        for name, value in defaults.items()
    }
    return {**fresh, **fields}
