"""The merged usage ledger of a session: one line per (source, model)."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from ledgerstone.codec import encode_json
from ledgerstone.errors import Corrupt
from ledgerstone.records.usage import UsageEntry

_decoder = msgspec.json.Decoder(list[UsageEntry])
_encoder = msgspec.json.Encoder(order="sorted")


def merge(ledger: bytes | None, added: tuple[UsageEntry, ...]) -> bytes | None:
    """The ledger with new entries added in, first seen first."""
    if not added:
        return ledger
    lines = read(ledger)
    for entry in added:
        for n, line in enumerate(lines):
            if line.model == entry.model and line.source == entry.source:
                lines[n] = UsageEntry(entry.model, line.usage + entry.usage, entry.source)
                break
        else:
            lines.append(UsageEntry(entry.model, entry.usage, entry.source))
    return _encoder.encode(lines)


def read(ledger: bytes | None, session: str = "") -> list[UsageEntry]:
    """The lines of a stored ledger."""
    return _read(ledger, "heads", session, "ledger")


def read_usage(turn: str, usage: bytes | None) -> list[UsageEntry]:
    """The uses of a stored turn."""
    return _read(usage, "turns", turn, "usage")


def _read(data: bytes | None, table: str, key: str, field: str) -> list[UsageEntry]:
    try:
        return [] if data is None else _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(table, key, field, str(error)) from None


def visible(ledger: bytes | None, session: str) -> list[UsageEntry]:
    """The lines that say something: those whose total is not zero."""
    return [line for line in read(ledger, session) if line.usage.total_tokens != 0]


def encode_usage(entries: tuple[UsageEntry, ...]) -> bytes | None:
    """The usage column of a turn row."""
    return _encoder.encode(entries) if entries else None


def digest(usage: bytes | None, kept: bytes | None = None) -> bytes | None:
    """What the chain knows of a turn's usage; `kept` is what stayed when it was deleted."""
    return kept if usage is None else sha256(usage).digest()


def encode_effects(effects: dict[str, object]) -> bytes | None:
    """The effects column of a turn row: what the commit did besides adding nodes."""
    return encode_json(effects, "effects") if effects else None
