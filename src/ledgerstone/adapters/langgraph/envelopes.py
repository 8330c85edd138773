"""The body and the metadata of a checkpoint's node: what is usual is left out.

    {"p": parent, "ts": .., "ver": {..}, "seen": {..}, "upd": [..], "val": {channel: tree}}

A conversation has several checkpoints for each thing that is said, so their size counts. "ts" is
microseconds after the moment in the checkpoint's id, or text; "upd" is true when it names just the
channels of the newest version; in "seen" a node that saw only the channel of its name has just the
version, one that saw only the channel that leads to it has the version in a list; "v" is left out
when it is 4, "parents" of the metadata when empty.
"""

from __future__ import annotations

import base64
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ledgerstone.codec import encode_json
from ledgerstone.errors import InvalidValue

VERSION = 4
"""Of LangGraph's checkpoint format."""
PARENTS = "parents"
INPUT_SEEN = "__input__"
BRANCH = "branch:to:"
UUID_MARK = "."
PULL, PULL_MARK = "~__pregel_pull, ", "<"
NEAR_US = 10**9
_UUID6 = 36, 14, "6"
"""Length, and the place of the version."""
_GREGORIAN_US = 12_219_292_800_000_000
"""From the beginning of UUID time to 1970."""
_NUMBERS = frozenset((int, float))
_TEXT_DIGITS = 32
_TEXT_VERSION = re.compile(rf"0[0-9]{{{_TEXT_DIGITS - 1}}}(\..*)?")
"""Versions as LangGraph's own savers write them: padded, so that they sort as texts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def pack_ts(ts: Any, id: str) -> Any:
    """A time as text, in as few characters as say it exactly."""
    base = _moment_us(id)
    if base is None or type(ts) is not str:
        return ts
    try:
        moment = datetime.fromisoformat(ts)
        offset = (moment - _EPOCH) // timedelta(microseconds=1) - base
    except (TypeError, ValueError, OverflowError):
        return ts
    return offset if abs(offset) < NEAR_US and unpack_ts(offset, id) == ts else ts


def unpack_ts(packed: Any, id: str) -> Any:
    base = _moment_us(id)
    if type(packed) is not int or base is None:
        return packed
    return (_EPOCH + timedelta(microseconds=base + packed)).isoformat()


def pack_updated(updated: Any, versions: dict[str, Any]) -> Any:
    return True if updated is not None and list(updated) == _newest(versions) else updated


def unpack_updated(packed: Any, versions: dict[str, Any]) -> Any:
    return _newest(versions) if packed is True else packed


def check_versions(versions: dict[str, Any], seen: dict[str, dict[str, Any]]) -> None:
    """Raise InvalidValue for versions after which the thread could not go on.

    LangGraph compares them with each other, and the next one must be greater.
    """
    found = [*versions.values(), *(one for by in seen.values() for one in by.values())]
    for one in found:
        if isinstance(one, str):
            is_fine = _TEXT_VERSION.fullmatch(one) is not None
        else:
            is_fine = type(one) in _NUMBERS and math.isfinite(one)
        if not is_fine:
            reason = (
                "a number expected, or a text as LangGraph's own savers write it, "
                f"which begins with {_TEXT_DIGITS} digits; got {one!r:.60}"
            )
            raise InvalidValue("checkpoint.channel_versions", reason)
    if len({isinstance(one, str) for one in found}) > 1:
        raise InvalidValue("checkpoint.channel_versions", "texts and numbers cannot be compared")


def next_version(current: Any) -> Any:
    """Return the version after this one: a text after a text, since numbers do not compare."""
    if not isinstance(current, str):
        return 1 if current is None else int(current) + 1
    number = int(current.split(".", maxsplit=1)[0]) + 1
    return f"{number:0{_TEXT_DIGITS}}.{0:016}"


def pack_seen(seen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node, versions in seen.items():
        packed: Any = versions
        if len(versions) == 1:
            [(channel, version)] = versions.items()
            if type(version) in _NUMBERS and channel in (node, BRANCH + node):
                packed = version if channel == node else [version]
        found[node] = packed
    if found.get(INPUT_SEEN) == {}:
        del found[INPUT_SEEN]
    else:
        found[""] = None
    return found


def unpack_seen(packed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {} if "" in packed else {INPUT_SEEN: {}}
    for node, versions in packed.items():
        if type(versions) is list:
            found[node] = {BRANCH + node: versions[0]}
        elif type(versions) is dict:
            found[node] = versions
        elif node:
            found[node] = {node: versions}
    return found


def pack_path(path: str) -> str:
    """The path of a task, most of which begin alike."""
    return PULL_MARK + path.removeprefix(PULL) if path.startswith(PULL) else path


def unpack_path(packed: str) -> str:
    return PULL + packed.removeprefix(PULL_MARK) if packed.startswith(PULL_MARK) else packed


def pack_task(task: str) -> str:
    """The id of a task, most of which are UUIDs, as a part of a key."""
    try:
        made = UUID(task)
    except ValueError:
        return task
    if str(made) != task:
        return task
    return UUID_MARK + base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")


def unpack_task(packed: str) -> str:
    if not packed.startswith(UUID_MARK):
        return packed
    return str(UUID(bytes=base64.urlsafe_b64decode(packed.removeprefix(UUID_MARK) + "==")))


def pack_meta(metadata: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Metadata that is JSON and can be searched by, the rest, and whether parents are missing."""
    plain: dict[str, Any] = {}
    odd: dict[str, Any] = {}
    for key, value in metadata.items():
        if key == PARENTS and value == {}:
            continue
        try:
            encode_json({key: value}, "metadata")
            plain[key] = value
        except InvalidValue:
            odd[key] = value
    return plain, odd, PARENTS not in metadata


def unpack_meta(meta: dict[str, Any], missing: bool) -> dict[str, Any]:
    return dict(meta) if missing or PARENTS in meta else {**meta, PARENTS: {}}


def _newest(versions: dict[str, Any]) -> list[str] | None:
    try:
        newest = max(versions.values(), default=None)
    except TypeError:
        return None
    return sorted(name for name, version in versions.items() if version == newest)


def _moment_us(id: str) -> int | None:
    """The time in a checkpoint's id, when there is one."""
    length, place, version = _UUID6
    if len(id) != length or id[place] != version:
        return None
    try:
        high, low = int(id[:8] + id[9:13], 16), int(id[15:18], 16)
    except ValueError:
        return None
    return ((high << 12) + low) // 10 - _GREGORIAN_US
