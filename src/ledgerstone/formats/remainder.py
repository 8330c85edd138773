"""What rebuilding a value left out, as a small edit: with it the rebuilt value is the original.

Canonical parts say what a message means, in our words; the words of another format are rebuilt from
them. Whatever the rebuilt form misses, adds, orders or spells differently is kept as an edit, so
that nothing depends on a converter being perfect. Stored objects have sorted keys, hence an edit
says the order of keys where it is another one.

An edit is a list: ["v", value], ["j", JSON text] for a value whose keys are not sorted,
["d", edits by key, dropped keys, order of keys or null], ["l", edits by index].
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Edit: TypeAlias = list[Any]


def remainder(wanted: Any, rebuilt: Any) -> Edit | None:
    """The edit that makes `wanted` of `rebuilt`; None when there is nothing to do."""
    if type(wanted) is not type(rebuilt):
        return _whole(wanted)
    if isinstance(wanted, dict):
        return _of_dict(wanted, rebuilt)
    if isinstance(wanted, list) and len(wanted) == len(rebuilt):
        edits = {
            str(n): edit
            for n, (one, other) in enumerate(zip(wanted, rebuilt, strict=True))
            if (edit := remainder(one, other)) is not None
        }
        return ["l", edits] if edits else None
    # -0.0 equals 0.0, and only their texts differ.
    if wanted == rebuilt and (type(wanted) is not float or repr(wanted) == repr(rebuilt)):
        return None
    return _whole(wanted)


def restored(rebuilt: Any, edit: Edit | None) -> Any:
    """The original: `rebuilt` with the edit applied. Nothing given is changed."""
    if edit is None:
        return rebuilt
    word = edit[0]
    if word == "v":
        return edit[1]
    if word == "j":
        return json.loads(edit[1])
    if word == "l":
        found = list(rebuilt)
        for place, inner in edit[1].items():
            found[int(place)] = restored(found[int(place)], inner)
        return found
    _, edits, dropped, order = edit
    made = {key: value for key, value in rebuilt.items() if key not in dropped}
    for key, inner in edits.items():
        made[key] = restored(made.get(key), inner)
    return made if order is None else {key: made[key] for key in order}


def _of_dict(wanted: dict[str, Any], rebuilt: dict[str, Any]) -> Edit | None:
    edits: dict[str, Edit] = {}
    for key, value in wanted.items():
        edit = remainder(value, rebuilt[key]) if key in rebuilt else _whole(value)
        if edit is not None:
            edits[key] = edit
    dropped = [key for key in rebuilt if key not in wanted]
    kept = [key for key in rebuilt if key in wanted]
    natural = kept + sorted(key for key in wanted if key not in rebuilt)
    order = None if natural == list(wanted) else list(wanted)
    if not (edits or dropped or order):
        return None
    return ["d", edits, dropped, order]


def _whole(value: Any) -> Edit:
    return ["v", value] if _is_sorted(value) else ["j", json.dumps(value, separators=(",", ":"))]


def _is_sorted(value: Any) -> bool:
    """Whether storing the value keeps the order of its keys."""
    if isinstance(value, dict):
        return list(value) == sorted(value) and all(map(_is_sorted, value.values()))
    return not isinstance(value, list) or all(map(_is_sorted, value))
