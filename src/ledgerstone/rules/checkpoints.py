"""What a live checkpoint keeps alive."""

from __future__ import annotations

import msgspec

from ledgerstone.codec import sha256
from ledgerstone.errors import Corrupt
from ledgerstone.records.turns import Checkpoint
from ledgerstone.rules.bodies import read_struct

_manifests = msgspec.json.Decoder(Checkpoint)


def checkpoint_refs(session: str, ref: str | None, data: bytes | None) -> set[str]:
    """The values that the manifest `ref` names, itself included.

    Corrupt when it cannot be read or is another one: better nothing is removed than what the
    real one names.
    """
    if ref is None:
        return set()
    manifest = read_struct(_manifests, data, "documents", session, "checkpoint")
    if sha256(data or b"") != ref:
        raise Corrupt("documents", session, "checkpoint", "it is not the one of the head")
    named = (ref, manifest.tool_state, manifest.plugins, manifest.execution)
    return {one for one in named if one is not None}
