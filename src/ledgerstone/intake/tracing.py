"""Events from what a call was given and answered; what is wrong is said here, not at the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.intake.evidence import TRACES
from ledgerstone.records.evidence import TraceEvent

_URI_KEYS = ("artifact_uri", "artifact_uris")


def trace_of(
    name: str,
    *,
    success: bool,
    output: str | bytes | bytearray | memoryview | None = None,
    metadata: Mapping[str, Any] | None = None,
    details: Any = None,
    kind: str = "tool_execution",
    exit_code: int | None = None,
    duration_ms: int = 0,
    run_id: str | None = None,
    at_us: int | None = None,
) -> TraceEvent:
    """An event about one call: of the output only the size stays, of the metadata only the keys.

    The uris of artifacts are collected from metadata and details, however deep: what stands under
    artifact_uri or artifact_uris, and every word that begins with "artifact:". InvalidValue.
    """
    return TRACES.take(
        TraceEvent(
            kind=kind,
            name=name,
            success=success,
            exit_code=exit_code,
            duration_ms=duration_ms,
            output_bytes=_size(output),
            metadata_keys=_keys(metadata),
            artifact_uris=[*_uris(metadata), *_uris(details)],
            details=details,
            run_id=run_id,
            at_us=at_us,
        )
    )


def _size(output: object) -> int:
    """Of text as it would be stored."""
    if output is None:
        return 0
    if isinstance(output, str):
        return len(output.encode("utf-8", "surrogatepass"))
    if isinstance(output, bytes | bytearray | memoryview):
        return memoryview(output).nbytes
    raise InvalidValue("output", f"text or bytes expected, got {type(output).__name__}")


def _keys(metadata: object) -> list[str]:
    if metadata is None:
        return []
    if not isinstance(metadata, Mapping):
        raise InvalidValue("metadata", f"a dictionary expected, got {type(metadata).__name__}")
    for key in metadata:
        if not isinstance(key, str):
            raise InvalidValue("metadata", f"keys must be text, got {type(key).__name__}")
    return list(metadata)


def _uris(value: object) -> Iterator[str]:
    """Every uri of an artifact in a value."""
    todo: list[tuple[object, bool]] = [(value, False)]
    seen: dict[tuple[int, bool], object] = {}  # With the values: ids of dead ones come again.
    while todo:
        found, is_uri = todo.pop()
        if isinstance(found, str):
            if is_uri or (found.startswith("artifact:") and len(found.split()) == 1):
                yield found
        elif (id(found), is_uri) in seen:
            continue  # A value may hold itself.
        elif isinstance(found, Mapping):
            seen[id(found), is_uri] = found
            todo += [(item, key in _URI_KEYS) for key, item in found.items()]
        elif isinstance(found, list | tuple):
            seen[id(found), is_uri] = found
            todo += [(item, is_uri) for item in found]
